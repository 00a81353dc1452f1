"""Samples with other element types than the published ones, made of them: with which of them a backend agrees."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from opshift.passes.backends.door import Types
from opshift.passes.model import schemas
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import AttributeProto, ModelProto, NodeProto, TensorProto, normalize_domain
from opshift.passes.model.traversal import subgraphs
from opshift.passes.model.types import ELEMENT_TYPES, tensor_type, type_text
from opshift.probing.samples import Sample, bind
from opshift.probing.shapes import loadable
from opshift.probing.worker import Run, Worker, Yield

_BASES = 2  # samples of an operator that others are made of
_NAMING = ("to", "dtype", "output_dtype")
"""Attributes that name the type of an output."""
_HELD = re.compile(r"(?:(?:seq|optional)\()*tensor\(\w+\)+")
_LARGEST, _FITTING = 30000.0, 100
_ROUNDING = {"tensor(float16)": 5e-3, "tensor(bfloat16)": 4e-2}

_FLOWS = {
    "If": "g (bool c, T[2,2] x) => (T[2,2] y) { y = If(c) <then_branch = a () => (T[2,2] u) { u = Identity(x) }, "
    "else_branch = b () => (T[2,2] v) { v = Identity(x) }> }",
    "Loop": "g (int64 n, bool c, T[2,2] x) => (T[2,2] y) { y = Loop(n, c, x) <body = a (int64 i, bool k, T[2,2] u) "
    "=> (bool l, T[2,2] v) { l = Identity(k) v = Identity(u) }> }",
    "Scan": "g (T[2,2] x) => (T[2,2] y) { y = Scan <num_scan_inputs = 1, "
    "body = a (T[2] u) => (T[2] v) { v = Identity(u) }>(x) }",
}
"""What goes through graphs, with `T` where its type stands."""


class Base(NamedTuple):
    """A sample that a backend agrees with, once these of its inputs are constants."""

    sample: Sample
    bound: set[str]


class Made(NamedTuple):
    """A sample that was made for a type, and its inputs that are of it."""

    sample: Sample
    names: frozenset[str]


class Oracle:
    """What calls yield: onnxruntime says so, and onnx.reference what it does not run."""

    def __init__(self, runtime: Worker, reference: Worker):
        self.runtime, self._reference = runtime, reference

    def ask(self, sample: Sample) -> tuple[list[Any], bool] | None:
        """Run a sample in onnxruntime, else in onnx.reference; returns the outputs, and whether onnxruntime ran it."""
        for worker, model in ((self.runtime, loadable(sample.model)), (self._reference, sample.model)):
            found = worker.ask(Run(model.SerializeToString(), [sample.feeds]))
            if isinstance(found, Yield) and found.outputs:
                return list(found.outputs[0]), worker is self.runtime
        return None


class Kinds:
    """Finds out which types a backend takes; `castable` are those that it casts to and from, `missing` none of its."""

    def __init__(self, worker: Worker, oracle: Oracle, missing: Iterable[str], castable: Iterable[str]):
        self.oracle, self._worker = oracle, worker
        self._missing, self._castable = set(missing), set(castable)

    def measure(self, bases: Iterable[Base]) -> dict[str, Types]:
        """Measure which types run: those of `bases`, and those of variants of the first ones; by type variable."""
        held = list(bases)
        ran: dict[str, set[str]] = {}
        failed: dict[str, set[str]] = {}
        for base in held:
            note(ran, base.sample)
        for variable, kinds in _open([base.sample for base in held]).items():
            for kind in kinds:
                if kind in self._missing or kind in ran.get(variable, ()):
                    continue
                made = ((list(_of_kind(base.sample, variable, kind)), base.bound) for base in held)
                able = islice(((samples, bound) for samples, bound in made if samples), _BASES)
                outcomes = [
                    self._outcome(sample, bound, variable, kind, ran) for samples, bound in able for sample in samples
                ]
                if "agrees" not in outcomes and "failed" in outcomes:
                    failed.setdefault(variable, set()).add(kind)
        return {
            variable: Types(frozenset(ran.get(variable, ())), frozenset(failed.get(variable, ())))
            for variable in sorted({*ran, *failed})
        }

    def _outcome(self, made: Made, bound: set[str], variable: str, kind: str, ran: dict[str, set[str]]) -> str:
        """`agrees`, `failed`, or nothing where it cannot be told."""
        seen = set()
        for variant in (made.sample if is_exchangeable(made.sample) else None, inside(made, bound)):
            expected = self.oracle.ask(variant) if variant is not None else None
            if variant is None or expected is None:
                continue
            values, certain = expected
            sample = _declaring(variant, values, kind)
            verdict = self._worker.run(bind(sample, bound & sample.feeds.keys()).task())
            if verdict.agrees:
                note(ran, sample if variant is made.sample else made.sample)
                ran.setdefault(variable, set()).add(kind)
                return "agrees"
            seen.add(verdict.status if verdict.status != "differs" or certain else "")
        return "failed" if seen and not seen & {"", "hung"} and kind in self._castable else ""


def note(ran: dict[str, set[str]], sample: Sample, newest: int = 0) -> None:
    """Add the types that a sample has to those that ran, by the type variables of an operator's `newest` version."""
    node, own = _call_and_schema(sample)
    schema = schemas.schema(*sample.op, newest) if newest else own
    values = {v.name: v.type for v in (*sample.model.graph.input, *sample.model.graph.output)}
    values |= {t.name: tensor_type(t.data_type) for t in sample.model.graph.initializer}
    if schema is None or node is None:
        return
    for names, formals in ((node.input, schema.input), (node.output, schema.output)):
        for place, name in enumerate(names):
            formal, text = formals(place), type_text(values[name]) if name in values else None
            if formal is not None and len(formal.types) > 1 and text and _HELD.fullmatch(text):
                ran.setdefault(formal.type, set()).add(text)


def add_types_of(types: Mapping[str, Types], sample: Sample, newest: int) -> dict[str, Types]:
    """What is known of the types of an operator, and those of a sample that ran; see `note`."""
    ran: dict[str, set[str]] = {}
    note(ran, sample, newest)
    found = dict(types)
    for variable, kinds in ran.items():
        held = types.get(variable, Types())
        found[variable] = Types(held.ran | kinds, held.failed - kinds)
    return found


def make_base(sample: Sample, constant: Iterable[str]) -> Base:
    """A sample with those of its inputs as constants that its operator's text calls so."""
    node, schema = _call_and_schema(sample)
    if schema is None or node is None:
        return Base(sample, set())
    formals = {name: schema.input(place) for place, name in enumerate(node.input)}
    return Base(sample, {name for name, formal in formals.items() if formal is not None and formal.name in constant})


def _open(samples: Iterable[Sample]) -> dict[str, list[str]]:
    """The type variables of an operator, each with the tensors that it stands for."""
    found: dict[str, list[str]] = {}
    for sample in samples:
        node, schema = _call_and_schema(sample)
        if schema is None or node is None:
            continue
        for formal in (*schema.inputs, *schema.outputs):
            kinds = [kind for kind in ELEMENT_TYPES if kind in formal.types]
            if len(formal.types) > 1 and kinds:
                found.setdefault(formal.type, kinds)
    return found


def _of_kind(sample: Sample, variable: str, kind: str) -> Iterator[Made]:
    """A sample with a type in the place of a type variable; and in that of those, too, that are of one type with it."""
    alone = of_kind(sample, {variable}, kind)
    if alone is None:
        return
    yield alone
    _, schema = _call_and_schema(sample)
    types: dict[str, set[str]] = {}
    note(types, sample)
    formals = (*schema.inputs, *schema.outputs) if schema is not None else ()
    alike = {f.type for f in formals if kind in f.types and types.get(f.type) == types.get(variable)}
    together = of_kind(sample, alike, kind) if alike > {variable} else None
    if together is not None:
        yield together


def of_kind(sample: Sample, variables: Collection[str], kind: str) -> Made | None:
    """The sample with values of a type, in the place of all that some variables stand for; None if nothing is."""
    node, schema = _call_and_schema(sample)
    if schema is None or node is None:
        return None
    if next(subgraphs(node), None) is not None:
        return _flowing(sample, kind)
    formals = {name: schema.input(place) for place, name in enumerate(node.input)}
    names = {name for name, formal in formals.items() if formal is not None and formal.type in variables}
    names &= sample.feeds.keys()
    if any(not hasattr(sample.feeds[name], "dtype") for name in names):
        return None
    model = ModelProto()
    model.CopyFrom(sample.model)
    feeds = {
        name: _values_of_type(value, kind) if name in names else _fitting(value, kind)
        for name, value in sample.feeds.items()
    }
    for value in model.graph.input:
        if value.name in names:
            value.type.tensor_type.elem_type = ELEMENT_TYPES[kind]
    for value in model.graph.output:
        value.ClearField("type")
    made = replace(sample, model=model, feeds=feeds)
    held, _ = _call_and_schema(made)
    if held is None or not (names or _name_type(held, schema, variables, kind)):
        return None
    return Made(made, frozenset(names))


def _flowing(sample: Sample, kind: str) -> Made | None:
    """A branch or a loop through which a value of a type goes."""
    import numpy as np
    import onnx.parser

    if sample.op[1] not in _FLOWS:
        return None
    element = kind.removeprefix("tensor(").removesuffix(")")
    header = f'<ir_version: {sample.model.ir_version}, opset_import: ["" : {opsets(sample.model).get("", 1)}]>'
    model = onnx.parser.parse_model(f"{header} {_FLOWS[sample.op[1]].replace('T[', f'{element}[')}")
    feeds = {value.name: np.array(True) for value in model.graph.input if value.name == "c"}
    feeds |= {value.name: np.array(2) for value in model.graph.input if value.name == "n"}
    feeds["x"] = _values_of_type([[1, 2], [3, 1]], kind)
    return Made(replace(sample, model=model, feeds=feeds), frozenset({"x"}))


def _name_type(node: NodeProto, schema: schemas.Schema, variables: Collection[str], kind: str) -> bool:
    """Have a node's attribute name, or hold, a type of its output; whether one does."""
    import onnx.helper
    import onnx.numpy_helper

    if all(formal.type not in variables for formal in schema.outputs):
        return False
    kept = [each for each in node.attribute if not each.name.startswith("value") and each.name not in _NAMING]
    name = next((name for name in _NAMING if name in schema.attributes), "")
    if name:
        made = onnx.helper.make_attribute(name, ELEMENT_TYPES[kind])
    elif "value" in schema.attributes and schema.attributes["value"].type == AttributeProto.TENSOR:
        held = next((each.t for each in node.attribute if each.name == "value"), None)
        value = onnx.numpy_helper.to_array(held) if held is not None else _values_of_type([1], "tensor(float)")
        made = onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(_values_of_type(value, kind)))
    else:
        return False
    del node.attribute[:]
    node.attribute.extend([*kept, made])
    return True


def _values_of_type(given: Any, kind: str) -> Any:
    """Values of a type like those that are given: whole ones stay, and others become small whole ones but 0."""
    import numpy as np
    import onnx.helper

    value = np.asarray(given)
    if value.dtype.kind in "OSU":
        value = np.unique(value.astype(str), return_inverse=True)[1].reshape(value.shape)
    element = kind.removeprefix("tensor(").removesuffix(")")
    numbers = np.clip(np.nan_to_num(value.real.astype(np.float64)), -_LARGEST, _LARGEST)
    if element == "string":
        return np.array([str(int(each)) for each in numbers.ravel()], object).reshape(value.shape)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(ELEMENT_TYPES[kind])
    if element == "bool":
        return np.asarray(np.rint(numbers * 3) % 2 == 1)
    if "int" in element:
        if np.any(numbers != np.rint(numbers)):
            numbers = np.rint(np.clip(numbers * 3, -3, 3))
            numbers = np.where(numbers == 0, 1, numbers)
        numbers = np.fmod(numbers, {"8": 100, "4": 7, "2": 2}.get(element.lstrip("uint"), _LARGEST))
        numbers = np.abs(numbers) if element.startswith("u") else numbers
    return np.asarray(numbers.astype(np.float32).astype(dtype))


def _fitting(value: Any, kind: str) -> Any:
    """Floats as they are, but such as an integer may become of: what others become is nowhere defined."""
    import numpy as np

    if "int" not in kind or getattr(value, "dtype", np.dtype(bool)).kind != "f":
        return value
    least = 0 if "uint" in kind else -_FITTING
    return np.asarray(np.clip(np.where(np.isfinite(value), value, 1), least, _FITTING), value.dtype)


def is_exchangeable(sample: Sample) -> bool:
    """Whether its values can be handed over as they are: numpy has their types itself."""
    return all(not hasattr(value, "dtype") or value.dtype.isbuiltin == 1 for value in sample.feeds.values())


def inside(made: Made, bound: set[str]) -> Sample | None:
    """The sample with values of the type only inside: cast from float, and its results to float."""
    import numpy as np
    import onnx.helper

    cast = {name: made.sample.feeds[name] for name in made.names - bound}
    if any(value.dtype.kind in "OSUc" for value in cast.values()):
        return None
    model = ModelProto()
    model.CopyFrom(made.sample.model)
    nodes = list(model.graph.node)
    for value in model.graph.input:
        if value.name in cast:
            held = f"{value.name}/typed"
            rename(nodes, {value.name: held})
            elem_type = value.type.tensor_type.elem_type
            nodes.insert(0, onnx.helper.make_node("Cast", [value.name], [held], to=elem_type))
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for value in model.graph.output:
        held = f"{value.name}/typed"
        rename(nodes, {value.name: held})
        nodes.append(onnx.helper.make_node("Cast", [held], [value.name], to=TensorProto.FLOAT))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    feeds = {**made.sample.feeds, **{name: np.asarray(value.astype(np.float32)) for name, value in cast.items()}}
    return replace(made.sample, model=model, feeds=feeds)


def _declaring(sample: Sample, values: list[Any], kind: str) -> Sample:
    """The sample with what it has to yield, of which its outputs say the types."""
    import numpy as np
    import onnx.helper

    model = ModelProto()
    model.CopyFrom(sample.model)
    for output, value in zip(model.graph.output, values, strict=False):
        if hasattr(value, "dtype"):
            elem_type = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            output.type.CopyFrom(tensor_type(elem_type, value.shape))
    rounding = _ROUNDING.get(kind, 1e-3)
    floats = [
        np.abs(v.astype(np.float64)).max(initial=0) for v in values if getattr(v, "dtype", np.dtype(bool)).kind == "f"
    ]
    scale = max(floats, default=0.0)
    atol = max(1e-6, rounding * 0.2 * scale) if kind in _ROUNDING and np.isfinite(scale) else 1e-6
    return replace(sample, model=model, expected=values, rtol=rounding, atol=atol)


def _call_and_schema(sample: Sample) -> tuple[NodeProto | None, schemas.Schema | None]:
    """The node that a sample is about, and its schema."""
    domain, op = sample.op
    node = next((n for n in sample.model.graph.node if (normalize_domain(n.domain), n.op_type) == sample.op), None)
    return node, schemas.schema(domain, op, opsets(sample.model).get(domain, 1))
