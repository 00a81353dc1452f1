"""Calls of vendors' operators over all combinations of what is optional, judged by running them in onnxruntime.

All calls of one operator stand in one model, so that each form of them is one session. Calls that the kernel does not
run are left out: `check` returns how many it ran, which a test states.

    check(calls("SkipLayerNormalization", {"input": (2, 3, 4), "skip": [(2, 3, 4), (3, 4)], "gamma": (4,), "beta": (4,)}))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import onnx
from ml_dtypes import bfloat16
from onnx import ModelProto, TensorProto
from onnxruntime.capi import onnxruntime_pybind11_state as registry
from opshift.passes.conversion import convert
from opshift.passes.model import schemas
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.model.types import ELEMENT_TYPES

from opshift.verification import bounds
from opshift.verification.bounds import compare
from opshift.verification.engines import EngineError, OnnxRuntime
from tests import pairs
from tests.support import converted, evaluate, show

HALF, FLOAT, DOUBLE = np.float16, np.float32, np.float64
NEWEST, BELOW, LOWEST = 21, 13, 11
FREE = {"MultiHeadAttention": 3, "DecoderMaskedMultiHeadAttention": 3}  # an output whose type is a variable of its own
Given = Any
"""The shape of random numbers, an array, or None, or a list of those to choose from."""


@dataclass(frozen=True)
class Call:
    """One call: its inputs in the order of the schema, None for one that is left out, and which outputs it has."""

    op: str
    inputs: tuple[np.ndarray | None, ...]
    outputs: tuple[bool, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = MICROSOFT

    def __str__(self) -> str:
        shapes = ["-" if x is None else f"{x.dtype}{list(x.shape)}" for x in self.inputs]
        return f"{self.op}{dict(self.attributes)}({', '.join(shapes)}) -> {self.outputs}"


def calls(
    op: str,
    inputs: Mapping[str, Given],
    attributes: Mapping[str, Sequence[Any]] | None = None,
    *,
    outputs: Sequence[str] = (),
    types: Sequence[Any] = (FLOAT, HALF),
    domain: str = MICROSOFT,
    seed: int = 0,
    fits: Callable[[Sequence[bool], Sequence[bool]], bool] | None = None,
) -> list[Call]:
    """Every combination: each optional input in `inputs` and output in `outputs` there or not, each attribute at each value.

    Of these, those that `fits`, if given, takes, which is told which inputs and outputs are there.

    Random numbers, and arrays of floats, are made of the type under test; those of `attributes` that are None are
    left out.
    """
    schema = schemas.schema(domain, op, schemas.versions(domain, op)[0])
    assert schema is not None, op
    formals = [p for p in schema.inputs if p.option != "Variadic" or p.name in inputs]
    unknown = (
        {*inputs, *outputs, *(attributes or {})}
        - {p.name for p in (*schema.inputs, *schema.outputs)}
        - {*schema.attributes}
    )
    assert not unknown, unknown
    rng = np.random.default_rng(seed)
    rows: list[list[Given]] = []
    for formal in formals:
        held = inputs.get(formal.name)
        choices = held if isinstance(held, list) else [held]
        rows.append([*choices, *([None] if formal.option == "Optional" and held is not None else [])])
    wanted = [
        [True] if p.option == "Single" else [True, False] if p.name in outputs else [False] for p in schema.outputs
    ]
    inside = [[(name, value) for value in values] for name, values in (attributes or {}).items()]
    made = []
    for dtype, given, asked, chosen in product(types, product(*rows), product(*wanted), product(*inside)):
        if fits is not None and not fits([held is not None for held in given], asked):
            continue
        arrays = tuple(None if held is None else _array(held, dtype, rng) for held in given)
        named = {name: value for name, value in chosen if value is not None}
        made.append(Call(op, arrays, asked, named, domain))
    return made


def _array(held: Given, dtype: Any, rng: np.random.Generator) -> np.ndarray:
    if isinstance(held, tuple):
        return rng.normal(size=held).astype(dtype)
    held = np.asarray(held)
    return held.astype(dtype) if held.dtype.kind == "f" else held


def check(
    made: Sequence[Call],
    *,
    opsets: Sequence[int] = (NEWEST, BELOW, LOWEST),
    grade: str = "exact",
    held: Sequence[int] = (),
    symbolic: bool = True,
    opset: int = NEWEST,
    steps: int = 0,
) -> int:
    """How many of the calls the kernel runs, which are inlined at the opsets and compute the same there.

    Each is at every opset with `--whole`, else as few as show each option and each opset. The inputs with an index in
    `held` are initializers. Shapes are known at the first opset, and have symbols at others.
    Differences are judged as those of a model of this grade are; integers may be so many `steps` apart.
    """
    running = dict(_running(list(made), held, opset))
    assert running, "the kernel runs none of the calls"
    shares: dict[int, list[int]] = {target: [] for target in opsets}
    for index, target in _needed(made, list(product(sorted(running), opsets))):
        shares[target].append(index)
    for target, indices in shares.items():
        of = [made[index] for index in indices]
        expected = [value for index in indices for value in running[index]]
        source = model(of, held, symbolic=symbolic and target != opsets[0], opset=opset)
        for value, want in zip(source.graph.output, expected, strict=True):
            value.type.CopyFrom(onnx.helper.make_tensor_type_proto(_elem_type(want), [None] * want.ndim))
        result = inlined(source, target)
        onnx.checker.check_model(result)
        actual = OnnxRuntime(result).run(feeds(of)) if target <= 26 else evaluate(result, feeds(of))
        for value, want, got in zip(result.graph.output, expected, actual, strict=True):
            call = of[int(value.name.split("_")[1])]
            assert (got.dtype, got.shape) == (want.dtype, want.shape), f"{call}: {value.name} at opset {target}"
            if steps and want.dtype.kind in "iu":
                apart = np.abs(want.astype(np.int64) - got.astype(np.int64)).max(initial=0)
                assert apart <= steps, f"{call}: {value.name} at opset {target} is {apart} steps away"
                continue
            judged = (
                bounds.judge(bounds.Runs(want, got), grade) if want.dtype.kind == "f" else compare(want, got, grade)
            )
            assert not judged.why, f"{call} at opset {target}: {value.name}: {judged.why}"
    return len(running)


def check_where_it_runs(made: Sequence[Call], count: int, **options: Any) -> None:
    """`check` of calls of an operator that not every onnxruntime that tests run with has a kernel of."""
    (op,) = {(call.domain, call.op) for call in made}
    if op in _kernels():
        assert check(made, **options) == count


@cache
def _kernels() -> frozenset[tuple[str, str]]:
    """What the installed onnxruntime runs on a CPU."""
    rows = registry.get_all_opkernel_def()
    return frozenset((row.domain, row.op_name) for row in rows if row.provider == "CPUExecutionProvider")


def _needed(made: Sequence[Call], rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of calls, by index, at opsets those that are judged."""
    held: dict[object, object] = {}
    inputs = max(len(call.inputs) for call in made)
    options = [[held.setdefault(option, option) for option in _options(call, inputs)] for call in made]
    values = pairs.numbered([dict(enumerate([*options[index], target])) for index, target in rows])
    if pairs.whole or len(values[0]) < 3:
        return rows
    return [rows[index] for index in sorted(pairs.cover(values, 1))]


def _options(call: Call, inputs: int) -> Iterator[str]:
    """What is chosen of each input, output and attribute, as text: of arrays the type, the shape and a few integers."""
    declared = schemas.schema(call.domain, call.op, schemas.versions(call.domain, call.op)[0])
    assert declared is not None
    for x in (*call.inputs, *[None] * (inputs - len(call.inputs))):
        few = x is not None and x.size <= 4 and x.dtype in (np.int32, np.int64)
        yield "" if x is None else f"{x.dtype}{x.shape}{x.tolist() if few else ''}"
    yield from map(str, call.outputs)
    yield from (str(call.attributes.get(name)) for name in declared.attributes)


def check_refused(made: Sequence[Call], why: str, *, opset: int = NEWEST, held: Sequence[int] = ()) -> None:
    """Each of the calls is refused with a reason that contains `why`."""
    for call in made:
        source = model([call], held)
        result = convert.attempt(source, {"": opset}, ops=[(call.domain, call.op)])
        assert result.model is None, f"{call}:\n{show(result.model)}"
        assert why in str(result.refusals[0]), str(result.refusals[0])


def inlined(source: ModelProto, opset: int) -> ModelProto:
    """The model without operators of vendors, at an opset."""
    ops = frozenset((node.domain, node.op_type) for node in source.graph.node if node.domain in schemas.VENDORS)
    result = converted(source, opset, ops)
    assert result.model is not None, "\n".join(map(str, result.refusals))
    assert {node.domain for node in result.model.graph.node}.isdisjoint(schemas.VENDORS), show(result.model)
    return result.model


def _running(
    made: list[Call], held: Sequence[int], opset: int, first: int = 0
) -> Iterator[tuple[int, list[np.ndarray]]]:
    """The calls that the kernel runs, by index, with what it makes of each; those that fail are found by halves."""
    try:
        results = iter(OnnxRuntime(model(made, held, opset=opset)).run(feeds(made)))
    except EngineError:
        if len(made) > 1:
            half = len(made) // 2
            yield from _running(made[:half], held, opset, first)
            yield from _running(made[half:], held, opset, first + half)
        return
    for index, call in enumerate(made):
        yield first + index, [next(results) for asked in call.outputs if asked]


def model(made: Sequence[Call], held: Sequence[int] = (), *, symbolic: bool = False, opset: int = NEWEST) -> ModelProto:
    """The calls as nodes of one model, each with inputs and outputs of its own."""
    graph = onnx.GraphProto(name="calls")
    for n, call in enumerate(made):
        names = []
        for i, x in enumerate(call.inputs):
            names.append("" if x is None else f"x_{n}_{i}")
            if x is not None and i in held:
                graph.initializer.append(onnx.numpy_helper.from_array(x, names[-1]))
            elif x is not None:
                dims = [f"d_{n}_{i}_{k}" for k in range(x.ndim)] if symbolic else x.shape
                graph.input.append(onnx.helper.make_tensor_value_info(names[-1], _elem_type(x), dims))
        while names and not names[-1]:
            names.pop()
        results = [f"y_{n}_{i}" if asked else "" for i, asked in enumerate(call.outputs)]
        graph.output.extend(_result(call, i, name) for i, name in enumerate(results) if name)
        while not results[-1]:
            results.pop()
        domain = "" if call.domain == schemas.ONNXRUNTIME else call.domain
        node = graph.node.add(op_type=call.op, domain=domain, input=names, output=results)
        declared = schemas.schema(call.domain, call.op, schemas.versions(call.domain, call.op)[0])
        kinds = declared.attributes if declared else {}
        for name, value in call.attributes.items():
            node.attribute.append(make_attribute(name, value, kinds[name].type if name in kinds else 0))
    domains = {call.domain for call in made} - {schemas.ONNXRUNTIME}
    imports = [onnx.helper.make_opsetid("", opset), *(onnx.helper.make_opsetid(domain, 1) for domain in domains)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)


def _result(call: Call, index: int, name: str) -> onnx.ValueInfoProto:
    """An output without a type, or, where no input tells it, with that of the first one."""
    if call.op in FREE and index == FREE[call.op]:
        return onnx.helper.make_tensor_value_info(name, _elem_type(call.inputs[0]), None)
    return onnx.helper.make_empty_tensor_value_info(name)


def feeds(made: Sequence[Call]) -> dict[str, np.ndarray]:
    """What to run the calls on."""
    return {f"x_{n}_{i}": x for n, call in enumerate(made) for i, x in enumerate(call.inputs) if x is not None}


def _elem_type(x: np.ndarray) -> int:
    return TensorProto.STRING if x.dtype == object else onnx.helper.np_dtype_to_tensor_dtype(x.dtype)


def computed(call: Call, opset: int) -> list[np.ndarray]:
    """What a call computes once it is inlined, where no kernel can judge it."""
    source = model([call])
    declared = schemas.schema(call.domain, call.op, schemas.versions(call.domain, call.op)[0])
    assert declared is not None
    for value in source.graph.output:
        formal = declared.outputs[int(value.name.split("_")[2])]
        alike = next(x for p, x in zip(declared.inputs, call.inputs, strict=False) if x is not None)
        same = [
            x for p, x in zip(declared.inputs, call.inputs, strict=False) if x is not None and p.type == formal.type
        ]
        kind = ELEMENT_TYPES.get(formal.type) or _elem_type(same[0] if same else alike)
        value.type.CopyFrom(onnx.helper.make_tensor_type_proto(kind, None))
    result = inlined(source, opset)
    return [np.asarray(value) for value in evaluate(result, feeds([call]))]


ROUNDED: dict[Any, tuple[float, float]] = {FLOAT: (1e-5, 1e-6), HALF: (2e-3, 2e-3), bfloat16: (2e-2, 2e-2)}
"""How near to what is computed in float64 a result of this type has to be: a relative and an absolute distance."""


def near(call: Call, wanted: Sequence[Any], opset: int = NEWEST) -> None:
    """A call without a kernel, once it is inlined, computes these numbers, in the type of its first input."""
    kind = call.inputs[0].dtype.type if call.inputs[0] is not None else FLOAT
    rtol, atol = ROUNDED[kind]
    for want, got in zip(wanted, computed(call, opset), strict=True):
        assert (got.dtype, got.shape) == (kind, np.shape(want))
        np.testing.assert_allclose(got.astype(FLOAT), np.asarray(want, FLOAT), rtol=rtol, atol=atol)


def wide(call: Call) -> list[Any]:
    """The inputs in float64."""
    return [None if x is None else x.astype(np.float64) for x in call.inputs]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))
