"""Finds out what an installed backend reads, by running ONNX's published one-node tests on it."""

from __future__ import annotations

import importlib.metadata
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from opshift.passes.backends import target_files
from opshift.passes.conversion import convert
from opshift.passes.model import schemas
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, default_domain
from opshift.passes.model.traversal import Op
from opshift.passes.model.types import ELEMENT_TYPES
from opshift.probing.worker import Task, Verdict, Worker
from opshift.verification import adapters

_DERIVED = 12  # how many cases of other versions of an operator a version is tried with
_RANDOM = {("", "Bernoulli")}  # no published output can agree
_UNDEFINED = "tensor(undefined)"
_SMALL = 16  # integer inputs up to this size are parameters rather than data

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Case:
    """A published test of one node."""

    name: str
    op: Op
    model: ModelProto
    feeds: dict[str, Any]
    expected: list[Any]
    rtol: float
    atol: float

    def task(self) -> Task:
        return Task(self.model.SerializeToString(), self.feeds, self.expected, self.rtol, self.atol)


@dataclass
class Finding:
    """What a backend makes of one operator.

    Attributes:
        newest: the newest version that agrees with a published case; 0 if none does.
        missing: the oldest version above it that was tried and does not; 0 if there is none.
        verdicts: how the cases at the newest version that it reads came out.
        constant: the inputs, by formal name, that had to be constants.
    """

    newest: int = 0
    missing: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    constant: frozenset[str] = frozenset()


def probe(backend: str, ops: Iterable[str] = (), progress: Progress | None = None) -> str:
    """What the installed `backend` reads, as the text of a target file; `ops` narrows the operators.

    Raises:
        ValueError: an unknown backend, or one that is not installed.
    """
    if backend not in adapters.KNOWN:
        raise ValueError(f"unknown backend {backend!r}; {', '.join(adapters.KNOWN)} can be probed")
    release = installed(backend)
    worker = Worker(adapters.KNOWN[backend])
    try:
        if not worker.run(_simple(7, 3)).agrees:
            raise ValueError(f"{backend} does not run a model of one Relu: {worker.run(_simple(7, 3)).why}")
        return text(backend, release, measure(worker, set(ops), progress))
    finally:
        worker.stop()


def installed(backend: str) -> str:
    """The release of an installed backend; raises `ValueError` if there is none."""
    packages = adapters.DISTRIBUTIONS.get(backend, (backend,))
    for package in packages:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise ValueError(f"{backend} is not installed: pip install {packages[0]}")


@dataclass
class Measured:
    """Everything that was found out about a backend."""

    opset: int
    ir_version: int
    ml_opset: int
    static_shapes: bool
    functions: bool
    folds_sizes: bool
    lacks_types: list[str]
    findings: dict[Op, Finding]


def measure(worker: Worker, ops: set[str], progress: Progress | None = None) -> Measured:
    """Try versions, types and shapes with models of one Relu or Identity, operators with their published cases."""
    opset = _newest(range(schemas.latest(), 6, -1), lambda v: worker.run(_simple(v, 3)))
    ir = _newest(range(schemas.ir_version("", schemas.latest()), 2, -1), lambda v: worker.run(_simple(7, v)))
    classical = range(schemas.latest("ai.onnx.ml"), 0, -1)
    ml = next((v for v in classical if any(worker.run(task).agrees for task in _classical(v))), 0)
    types = [
        kind for kind in ELEMENT_TYPES if kind != _UNDEFINED and not any(worker.run(t).agrees for t in _holding(kind))
    ]
    dynamic = all(worker.run(_simple(7, 3, size)).agrees for size in (2, 3))
    functions = worker.run(_function()).agrees
    folds_sizes = worker.run(_reshaped("N" if dynamic else "2")).agrees
    groups: dict[Op, list[Case]] = {}
    for case in published():
        if not ops or case.op[1] in ops:
            groups.setdefault(case.op, []).append(case)
    witnesses: dict[Op, list[Case]] = {}
    for case in exported("pytorch-converted", "pytorch-operator", "simple"):
        for op in {(default_domain(node.domain), node.op_type) for node in case.model.graph.node}:
            witnesses.setdefault(op, []).append(case)
    findings: dict[Op, Finding] = {}
    for place, (op, cases) in enumerate(sorted(groups.items())):
        if progress is not None:
            progress(op[1], place, len(groups))
        limit = (ml or schemas.latest(op[0])) if op[0] else opset
        findings[op] = judge(worker, op, cases, limit, witnesses.get(op, []))
    return Measured(opset, ir, ml, not dynamic, functions, folds_sizes, types, findings)


def judge(worker: Worker, op: Op, cases: list[Case], newest: int, witnesses: Iterable[Case] = ()) -> Finding:
    """From the newest version on downwards, until one agrees with a case.

    A version is tried with the cases that are published for it; if none agrees, with some of other versions,
    converted to it, and with exported models that use the operator, `witnesses`.
    """
    found = Finding()
    for version in reversed([v for v in schemas.versions(*op) if v <= newest]):
        stamp = min(newest, next((v - 1 for v in schemas.versions(*op) if v > version), newest))
        own = [c for c in cases if schemas.since(*op, opsets(c.model).get(op[0], 1)) == version]
        outcomes = [_outcome(worker, _stamped(case, op[0], stamp)) for case in own]
        if not any(verdict.agrees for verdict, _, _ in outcomes):
            for others in ([c for c in cases if c not in own], witnesses):
                outcomes += [_outcome(worker, case) for case in islice(_converted(op, others, stamp), _DERIVED)]
        if any(verdict.agrees for verdict, _, _ in outcomes):
            found.newest = version
            found.verdicts = Counter(verdict.status for verdict, _, _ in outcomes)
            found.constant = _needed(outcomes)
            return found
        if outcomes:
            found.missing = version
    return found


def _converted(op: Op, cases: Iterable[Case], stamp: int) -> Iterator[Case]:
    """Cases at another opset, as far as they still use the operator there."""
    for case in cases:
        model = convert.attempt(case.model, {op[0]: stamp}).model
        if model is not None and _node(model, op) is not None:
            model.ir_version = min(model.ir_version, case.model.ir_version)
            yield replace(case, op=op, model=model)


def _node(model: ModelProto, op: Op) -> NodeProto | None:
    return next((n for n in model.graph.node if (default_domain(n.domain), n.op_type) == op), None)


def _stamped(case: Case, domain: str, stamp: int) -> Case:
    model = ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = min(model.ir_version, schemas.ir_version(domain, stamp))
    for entry in model.opset_import:
        if default_domain(entry.domain) == domain:
            entry.version = stamp
    return replace(case, model=model)


Outcome = tuple[Verdict, frozenset[str], frozenset[str]]


def _outcome(worker: Worker, case: Case) -> Outcome:
    """A verdict, the formal names of the inputs that were constants for it, and of those that were not.

    A case is tried as it is published, then with constants for inputs, as few as will do; and then all that again
    with its results cast to the type that they should have, as a reader inside a larger model would see them.
    """
    verdict = worker.run(case.task())
    if verdict.agrees:
        return verdict, frozenset(), _formals(case, _filled(case))
    for variant in () if verdict.status == "hung" else (case, _cast(case)):
        for bound in [set[str](), *_bindings(case)]:
            if worker.run(bind(variant, bound).task()).agrees:
                needed = _fewest(worker, variant, bound)
                return Verdict("agrees"), _formals(case, needed), _formals(case, _filled(case) - needed)
    return verdict, frozenset(), frozenset()


def _filled(case: Case) -> set[str]:
    """The inputs that hold anything: what an empty one holds is known from its type."""
    return {name for name, value in case.feeds.items() if getattr(value, "size", 1)}


def _fewest(worker: Worker, case: Case, bound: set[str]) -> set[str]:
    """Which of the inputs have to be constants for the case to agree."""
    for name in sorted(bound):
        if worker.run(bind(case, bound - {name}).task()).agrees:
            bound = bound - {name}
    return bound


def _cast(case: Case) -> Case:
    """The case with each of its tensors cast to the type that it has already, int64 by way of int32."""
    import onnx.helper

    model = ModelProto()
    model.CopyFrom(case.model)
    for value in model.graph.output:
        kind = value.type.tensor_type.elem_type
        if kind in (TensorProto.UNDEFINED, TensorProto.STRING):
            continue
        held = f"{value.name}/held"
        rename(model.graph.node, {value.name: held})
        if kind == TensorProto.INT64:
            model.graph.node.append(onnx.helper.make_node("Cast", [held], [f"{held}/32"], to=TensorProto.INT32))
            held = f"{held}/32"
        model.graph.node.append(onnx.helper.make_node("Cast", [held], [value.name], to=kind))
    return replace(case, model=model)


def _bindings(case: Case) -> list[set[str]]:
    """Inputs to make constants of, in turn: parameters; all but the first; all."""
    tensors = {name for name, value in case.feeds.items() if hasattr(value, "dtype")}
    choices = [parameters(case), tensors - {next(iter(case.feeds), "")}, tensors]
    return [c for i, c in enumerate(choices) if c and c not in choices[:i]]


def parameters(case: Case) -> set[str]:
    """The small integer inputs of a case, beside which it has others: shapes, axes, counts."""
    vectors = {n: v for n, v in case.feeds.items() if hasattr(v, "dtype") and v.dtype == "int64" and v.ndim <= 1}
    small = {name for name, value in vectors.items() if value.size <= _SMALL}
    return small if len(small) < len(case.feeds) else set()


def bind(case: Case, names: set[str]) -> Case:
    """The case with some of its inputs as initializers."""
    import onnx.numpy_helper

    model = ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = max(model.ir_version, 4) if names else model.ir_version
    kept = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for name in sorted(names):
        model.graph.initializer.append(onnx.numpy_helper.from_array(case.feeds[name], name))
    return replace(case, model=model, feeds={n: v for n, v in case.feeds.items() if n not in names})


def _formals(case: Case, names: set[str]) -> frozenset[str]:
    """What the operator's text calls the inputs that are bound to `names`."""
    node = _node(case.model, case.op)
    schema = schemas.schema(*case.op, opsets(case.model).get(case.op[0], 1))
    held = [(schema.input(i), name) for i, name in enumerate(node.input)] if schema and node is not None else []
    return frozenset(formal.name for formal, name in held if formal is not None and name in names)


def _needed(outcomes: list[Outcome]) -> frozenset[str]:
    """The inputs that were constants whenever a case agreed, and never were not."""
    agreed = [(bound, free) for verdict, bound, free in outcomes if verdict.agrees]
    return frozenset().union(*(bound for bound, _ in agreed)) - frozenset().union(*(free for _, free in agreed))


def published(*, whole: bool = False) -> Iterator[Case]:
    """ONNX's node tests that consist of one node, or the whole of them, in the order of their names."""
    import numpy as np
    import onnx.backend.test.loader
    import onnx.numpy_helper

    with warnings.catch_warnings():  # the generators divide by zero and overflow on purpose
        warnings.simplefilter("ignore", RuntimeWarning)
        tests = onnx.backend.test.loader.load_model_tests(kind="node")

    def plain(value: Any) -> Any:
        if isinstance(value, onnx.TensorProto):
            return onnx.numpy_helper.to_array(value)
        if isinstance(value, onnx.SequenceProto):
            return onnx.numpy_helper.to_list(value)
        if isinstance(value, onnx.OptionalProto):
            return onnx.numpy_helper.to_optional(value)
        return np.asarray(value) if isinstance(value, np.generic) else value

    for test in sorted(tests, key=lambda test: test.name):
        if test.model is None or not test.data_sets or not test.model.graph.node:
            continue
        node = test.model.graph.node[0]
        op = default_domain(node.domain), node.op_type
        if not whole and (len(test.model.graph.node) > 1 or op in _RANDOM or op[0] not in ("", "ai.onnx.ml")):
            continue
        for inputs, outputs in test.data_sets[:1]:
            feeds = dict(zip((v.name for v in test.model.graph.input), map(plain, inputs), strict=False))
            expected = list(map(plain, outputs))
            yield Case(test.name, op, test.model, feeds, expected, test.rtol, test.atol)


def exported(*folders: str) -> Iterator[Case]:
    """The models with data in folders of onnx's `backend/test/data`, in the order of their names."""
    import numpy as np
    import onnx.backend.test
    import onnx.numpy_helper

    def tensor(path: Path) -> Any:
        try:
            return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))
        except Exception:  # a sequence or an optional
            return None

    for folder in folders:
        for place in sorted(Path(onnx.backend.test.__file__).with_name("data").joinpath(folder).iterdir()):
            model = onnx.load(place / "model.onnx")
            given, expected = (
                [tensor(path) for path in sorted(place.glob(f"test_data_set_0/{kind}_*.pb"), key=_number)]
                for kind in ("input", "output")
            )
            if all(isinstance(value, np.ndarray) for value in (*given, *expected)):
                feeds = dict(zip((value.name for value in model.graph.input), given, strict=False))
                yield Case(place.name, ("", ""), model, feeds, expected, 1e-3, 1e-7)


def _number(path: Path) -> int:
    return int(path.stem.rpartition("_")[2])


def _newest(candidates: Iterable[int], attempt: Callable[[int], Verdict]) -> int:
    return next((version for version in candidates if attempt(version).agrees), 0)


def _model(text: str) -> bytes:
    import onnx.parser

    serialized: bytes = onnx.parser.parse_model(text).SerializeToString()
    return serialized


def _simple(opset: int, ir: int, size: int = 0) -> Task:
    """One Relu; with a size, its first dimension is a symbol that has this size."""
    import numpy as np

    x = np.array([[1, -2, 3]] * (size or 2), np.float32)
    dim = "N" if size else "2"
    header = f'<ir_version: {ir}, opset_import: ["" : {opset}]>'
    return Task(
        _model(f"{header} g (float[{dim},3] x) => (float[{dim},3] y) {{ y = Relu(x) }}"), {"x": x}, [np.maximum(x, 0)]
    )


def _classical(opset: int) -> Iterator[Task]:
    """Models of one operator of ai.onnx.ml."""
    import numpy as np

    header = f'<ir_version: 3, opset_import: ["" : 7, "ai.onnx.ml" : {opset}]>'
    x = np.array([[1, -2, 3]], np.float32)
    for node, expected in (
        ("Binarizer<threshold = 0.0>", (x > 0).astype(np.float32)),
        ('Normalizer<norm = "L1">', x / np.abs(x).sum()),
    ):
        body = f"g (float[1,3] x) => (float[1,3] y) {{ y = ai.onnx.ml.{node}(x) }}"
        yield Task(_model(f"{header} {body}"), {"x": x}, [expected])


def _holding(kind: str) -> Iterator[Task]:
    """Models that hold a value of a type: made from float and turned into float again, or a dequantized constant.

    Strings and complex numbers go in and out as they are.
    """
    import numpy as np
    import onnx.helper
    import onnx.numpy_helper

    opset = next((v for v in range(7, schemas.latest() + 1) if kind in schemas.types_at(v)), schemas.latest())
    elem_type = ELEMENT_TYPES[kind]
    ones = np.array([1, 1], np.float32)  # which every type can hold

    def task(nodes: list[Any], outer: int, given: Any, expected: Any, *initializers: Any) -> Task:
        values = [onnx.helper.make_tensor_value_info(name, outer, [2]) for name in ("x", "y")]
        graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:], initializers)
        imports, ir = [onnx.helper.make_opsetid("", opset)], schemas.ir_version("", opset)
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=ir)
        return Task(model.SerializeToString(), {"x": given}, [expected])

    node = onnx.helper.make_node
    numpy_type = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
    if elem_type == TensorProto.STRING or "complex" in kind:
        given = np.array(["a", "b"], object) if elem_type == TensorProto.STRING else ones.astype(numpy_type)
        yield task([node("Identity", ["x"], ["y"])], elem_type, given, given)
        return
    through = [node("Cast", ["x"], ["a"], to=elem_type), node("Identity", ["a"], ["b"])]
    yield task([*through, node("Cast", ["b"], ["y"], to=TensorProto.FLOAT)], TensorProto.FLOAT, ones, ones)
    dequantize = schemas.schema("", "DequantizeLinear", opset)
    if dequantize is not None and kind in dequantize.inputs[0].types:
        constants = [onnx.numpy_helper.from_array(ones.astype(numpy_type), "q")]
        constants.append(onnx.numpy_helper.from_array(np.array(1, np.float32), "s"))
        nodes = [node("DequantizeLinear", ["q", "s"], ["d"]), node("Add", ["x", "d"], ["y"])]
        yield task(nodes, TensorProto.FLOAT, ones, ones + ones, *constants)


def _function() -> Task:
    import numpy as np

    x = np.array([1, -2], np.float32)
    text = (
        '<ir_version: 8, opset_import: ["" : 13, "my" : 1]> g (float[2] x) => (float[2] y) { y = my.F(x) }'
        '<domain: "my", opset_import: ["" : 13]> F (a) => (b) { b = Relu(a) }'
    )
    return Task(_model(text), {"x": x}, [np.maximum(x, 0)])


def _reshaped(dim: str) -> Task:
    """A Reshape to what is computed from the size of its input."""
    import numpy as np

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    text = (
        f'<ir_version: 7, opset_import: ["" : 13]> g (float[{dim},3] x) => (float[M] y) {{'
        " s = Shape(x) zero = Constant<value_ints = [0]>() one = Constant<value_ints = [1]>()"
        " rows = Gather(s, zero) columns = Gather(s, one) all = Mul(rows, columns) y = Reshape(x, all) }"
    )
    return Task(_model(text), {"x": x}, [x.reshape(6)])


def text(backend: str, release: str, found: Measured) -> str:
    """The target file that says what was measured."""
    lacks, limits, partly = [], [], []
    for (domain, op), finding in sorted(found.findings.items()):
        name = _name(domain, op)
        if finding.missing:
            lacks.append(f"{name}-{finding.missing}" if finding.newest else name)
        if not finding.newest:
            continue
        if finding.constant:
            limits.append({"ops": [name], "constant": sorted(finding.constant), "why": "no test agrees otherwise"})
        agreed, total = finding.verdicts["agrees"], sum(finding.verdicts.values())
        if agreed < total:
            partly.append(f"{name} {agreed}/{total}")
    facts: dict[str, object] = {"opset": found.opset, "ir": found.ir_version}
    if found.ml_opset:
        facts["ml"] = found.ml_opset
    if found.static_shapes:
        facts["static_shapes"] = True
    if found.functions:
        facts["functions"] = True
    if found.folds_sizes:
        facts["folds_sizes"] = True
    tried = {op for op, finding in found.findings.items() if finding.newest or finding.missing}
    newest = {"": found.opset, "ai.onnx.ml": found.ml_opset}
    known = {
        (domain, op): schemas.schema(domain, op, v) for domain, v in newest.items() for op in schemas.operators(domain)
    }
    untried = sorted(_name(*op) for op, schema in known.items() if schema and not schema.deprecated and op not in tried)
    remarks = [
        *_remark("Operators of which only some published tests agree: ", partly),
        *_remark("Operators without a published test of one node, or a random result: ", untried),
    ]
    facts["lacks_types"] = [kind.removeprefix("tensor(").removesuffix(")") for kind in found.lacks_types]
    facts["lacks"] = lacks
    tests = f"the node tests of onnx {importlib.metadata.version('onnx')}"
    source = f"measured by `opshift probe` with {backend} {release} and {tests}"
    version = ".".join(release.split(".")[:2])
    return target_files.write(backend, f"{backend}, as installed by pip", source, version, facts, limits, remarks)


def _name(domain: str, op: str) -> str:
    return f"{domain}::{op}" if domain else op


def _remark(title: str, names: list[str]) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(title + ", ".join(names) + ".", 118)] if names else []
