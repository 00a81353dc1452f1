"""What is wrong with a model that was converted to half precision, told without the code that converted it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnxruntime
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from tests.types import rounding, walking
from tests.types.case import Case

FLOAT16, BFLOAT16 = int(TensorProto.FLOAT16), int(TensorProto.BFLOAT16)
ALLOWED = {FLOAT16: 0.02, BFLOAT16: 0.08}  # twice the budgets that opshift has by default
CHOICES = 0.01  # the share of integers and truth values that may differ

# They take any type, or only move control: their values are judged where something computes.
ANY = {"Cast", "CastLike", "Constant", "Identity", "If", "Loop", "Scan", "Shape", "Size"}


@dataclass(frozen=True)
class Verdict:
    """What was found: `wrong` is empty for a right result.

    Attributes:
        wrong: one sentence for each thing that is wrong.
        wide: nodes that are float32, and have a form in the wanted type.
        casts: how many nodes Cast and CastLike there are more than in the source; functions count once a call.
        error: the largest of all outputs and inputs, as a share of the root mean square of an output.
    """

    wrong: tuple[str, ...]
    wide: tuple[str, ...] = ()
    casts: int = 0
    error: float = 0.0


def judge(case: Case, converted: ModelProto, wanted: int = FLOAT16, narrow: bool = False) -> Verdict:
    """Judge what became of a case: valid, close, with the interface that was asked for, and half where it can be."""
    found = judge_model(case.model, converted, case.feeds, wanted, narrow)
    wrong = list(found.wrong)
    if wanted == FLOAT16:
        unexpected = [name for name in found.wide if name not in case.wide]
    else:  # what stays wide is told for float16; here only what pulls to half
        unexpected = [name for name in found.wide if name not in case.wide and name in _pulling(case.model)]
    if unexpected:
        wrong.append(f"float32 without a reason: {', '.join(unexpected)}")
    return Verdict(tuple(wrong), found.wide, found.casts, found.error)


def judge_model(
    source: ModelProto,
    converted: ModelProto,
    feeds: Sequence[rounding.Feeds],
    wanted: int = FLOAT16,
    narrow: bool = False,
) -> Verdict:
    """Judge a conversion of any model, with the interface kept or narrowed; `wide` is told, not judged."""
    wrong = [*invalid(converted), *_interface(source, converted, wanted if narrow else 0)]
    try:
        flat = walking.flat(converted)
        wide = tuple(dict.fromkeys(wide_nodes(flat, wanted)))
        before = walking.flat(source)
        casts = count_casts(flat) - count_casts(before)
        there = set(cast_constants(before, None))
        added = [name for name in cast_constants(flat, wanted) if name not in there]
        wrong += [f"a constant is cast when the model runs: {name}" for name in added]
    except Exception as error:  # whatever onnx says of a model that is not valid
        return Verdict((*wrong, f"cannot be read: {_line(error)}"))
    if any("does not load" in one or "checker" in one for one in wrong):
        return Verdict(tuple(wrong), wide, casts, float("inf"))
    expected = rounding.run(source, feeds) if source.graph.node else []
    try:
        actual = rounding.run(converted, feeds)
    except Exception as error:
        return Verdict((*wrong, f"does not run with rounding: {_line(error)}"), wide, casts, float("inf"))
    names = [value.name for value in source.graph.output]
    worst = 0.0
    for one, other in zip(expected, actual, strict=True):
        for name, before, after in zip(names, one, other, strict=False):
            error, allowed = difference(before, after, wanted)
            worst = max(worst, error if allowed > CHOICES else 0.0)
            if not error <= allowed:
                wrong.append(f"{name} differs by {error:.2g}, allowed {allowed}")
    return Verdict(tuple(dict.fromkeys(wrong)), wide, casts, worst)


def invalid(model: ModelProto) -> list[str]:
    """What onnx and onnxruntime say against a model."""
    wrong = []
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # of the checker and of inference, which have no common class
        wrong.append(f"onnx.checker: {_line(error)}")
    for graph, _ in walking.graphs(model):
        wrong += [f"not in order: {name}" for name in _unsorted(graph)]
    try:
        rounding.session(model)
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        pass  # a kernel that the CPU lacks says nothing against the file
    except Exception as error:
        if not re.search("NOT_IMPLEMENTED|Could not find an implementation", str(error)):
            wrong.append(f"does not load in onnxruntime: {_line(error)}")
    return wrong


def _unsorted(graph: GraphProto) -> list[str]:
    """Names that are read before they are made, in this graph; bodies count as what holds them."""
    made_here = {name for node in graph.node for name in node.output if name}
    ready: set[str] = set()
    early = []
    for node in graph.node:
        early += [name for name in _read(node) if name in made_here - ready]
        ready.update(node.output)
    return early


def _read(node: NodeProto) -> Iterator[str]:
    yield from node.input
    for body in walking.bodies(node):
        own = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
        own |= {name for inner in body.node for name in inner.output}
        for inner in body.node:
            yield from (name for name in _read(inner) if name not in own)
        yield from (value.name for value in body.output if value.name not in own)


def _interface(source: ModelProto, converted: ModelProto, narrow: int) -> list[str]:
    """Inputs and outputs that are not as they were, or, where a type is given, not as they are to be."""
    wrong = []
    held = {tensor.name for tensor in source.graph.initializer} if source.ir_version < 4 else set()
    for kind in ("input", "output"):
        values = [getattr(model.graph, kind) for model in (source, converted)]
        before, after = _declared(values[0], held, narrow), _declared(values[1], held, 0)
        if before != after:
            changed = [f"{name} {kinds}" for name, kinds in after.items() if before.get(name) != kinds]
            lost = [name for name in before if name not in after]
            wrong.append(f"{kind}s are others: {', '.join(changed + lost) or 'their order'}")
    return wrong


def _declared(values: Sequence[ValueInfoProto], held: Collection[str], narrow: int) -> dict[str, tuple[int, int]]:
    """Type and rank by name; below IR 4 weights have to be inputs, which nobody feeds."""
    found = {}
    for value in values:
        if value.name in held:
            continue
        kind = walking.element_type(value.type)
        rank = len(value.type.tensor_type.shape.dim) if value.type.tensor_type.HasField("shape") else -1
        found[value.name] = (narrow if narrow and kind == TensorProto.FLOAT else kind, rank)
    return found


def wide_nodes(flat: ModelProto, wanted: int) -> Iterator[str]:
    """Names of nodes that are float32 where their operator takes the wanted type."""
    opsets = {imported.domain: imported.version for imported in flat.opset_import}
    for graph, types in walking.graphs(flat):
        for node in graph.node:
            schema = walking.schema_of(node, opsets)
            if node.op_type in ANY or (schema is None and node.domain not in ("", "com.microsoft")):
                continue
            if _is_wide(node, schema, types, wanted):
                yield re.sub(r"__\d+$", "", node.name) or node.op_type  # onnx's inliner numbers the copies


def _is_wide(node: NodeProto, schema: Any, types: walking.Types, wanted: int) -> bool:
    if schema is None:
        return any(types.get(name) == TensorProto.FLOAT for name in node.output)
    accepted = {one.type_param_str: set(one.allowed_type_strs) for one in schema.type_constraints}
    text = walking.NARROW[wanted]
    able = [
        (name, output)
        for name, output, kind in walking.operands(node, schema)
        if text in accepted.get(kind, ()) or f"seq({text})" in accepted.get(kind, ())
    ]
    floats = {TensorProto.FLOAT, FLOAT16, BFLOAT16}
    results = [types.get(name) for name, output in able if output and types.get(name) in floats]
    if results:
        return TensorProto.FLOAT in results[:1]
    return any(types.get(name) == TensorProto.FLOAT for name, output in able if not output)


def count_casts(flat: ModelProto) -> int:
    """Nodes that cast, in all graphs."""
    return sum(node.op_type in ("Cast", "CastLike") for graph, _ in walking.graphs(flat) for node in graph.node)


def cast_constants(flat: ModelProto, wanted: int | None) -> list[str]:
    """Float32 constants that only casts to the wanted type, or to any, read: they could be stored in it."""
    readers: dict[str, list[NodeProto]] = {}
    held: list[str] = []
    for graph, _ in walking.graphs(flat):
        held += [tensor.name for tensor in graph.initializer if tensor.data_type == TensorProto.FLOAT]
        held += [node.output[0] for node in graph.node if node.op_type == "Constant" and _floats(node)]
        for node in graph.node:
            for name in node.input:
                readers.setdefault(name, []).append(node)
        for value in graph.output:
            readers.setdefault(value.name, []).append(NodeProto(op_type="output"))
    given = {value.name for value in flat.graph.input}
    return [
        name
        for name in held
        if name not in given
        and readers.get(name)
        and all(node.op_type == "Cast" and wanted in (None, node.attribute[0].i) for node in readers[name])
    ]


def _floats(constant: NodeProto) -> bool:
    [attribute] = constant.attribute
    return attribute.name in ("value_float", "value_floats") or attribute.t.data_type == TensorProto.FLOAT


def difference(before: Any, after: Any, wanted: int = FLOAT16) -> tuple[float, float]:
    """How far two outputs are apart, and how far they may be."""
    if isinstance(before, list):
        if not isinstance(after, list) or len(before) != len(after):
            return float("inf"), ALLOWED[wanted]
        found = [difference(one, other, wanted) for one, other in zip(before, after, strict=True)]
        return max(found, default=(0.0, ALLOWED[wanted]))
    before, after = np.asarray(before), np.asarray(after)
    if before.shape != after.shape:
        return float("inf"), CHOICES
    if before.dtype.kind != "f":
        return float(np.mean(before != after)) if before.size else 0.0, CHOICES
    wide, other = before.astype(np.float64), after.astype(np.float64)
    finite = np.isfinite(wide)
    if not np.array_equal(np.where(finite, 0, wide), np.where(np.isfinite(other), 0, other), equal_nan=True):
        return float("inf"), ALLOWED[wanted]
    if not finite.any():
        return 0.0, ALLOWED[wanted]
    gap, size = (float(np.sqrt(np.mean(v**2))) for v in (wide[finite] - other[finite], wide[finite]))
    return (gap / size if size else (float("inf") if gap else 0.0)), ALLOWED[wanted]


def shares(model: ModelProto, wanted: int = FLOAT16) -> tuple[float, float]:
    """The share of the weights' elements that is half, and that of the nodes, of all that could be."""
    flat = walking.flat(model)
    weights = {FLOAT16: 0, BFLOAT16: 0, int(TensorProto.FLOAT): 0}
    for graph, _ in walking.graphs(flat):
        tensors = [*graph.initializer, *(a.t for n in graph.node if n.op_type == "Constant" for a in n.attribute)]
        for tensor in tensors:
            if tensor.data_type in weights:
                weights[tensor.data_type] += int(np.prod(tensor.dims)) if tensor.dims else 1
    all_weights = sum(weights.values())
    able, wide = _able(flat, wanted)
    return weights[wanted] / all_weights if all_weights else 1.0, (able - wide) / able if able else 1.0


def _able(flat: ModelProto, wanted: int) -> tuple[int, int]:
    opsets = {imported.domain: imported.version for imported in flat.opset_import}
    able = wide = 0
    for graph, types in walking.graphs(flat):
        for node in graph.node:
            schema = walking.schema_of(node, opsets)
            if node.op_type not in ANY and schema is not None:
                half = any(types.get(name) == wanted for name in (*node.input, *node.output))
                is_wide = _is_wide(node, schema, types, wanted)
                able, wide = able + (half or is_wide), wide + is_wide
    return able, wide


def _pulling(model: ModelProto) -> Collection[str]:
    flat = walking.flat(model)
    return {
        node.name
        for graph, _ in walking.graphs(flat)
        for node in graph.node
        if node.op_type in ("MatMul", "Conv", "Gemm", "LSTM")
    }


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def sort(model: ModelProto) -> ModelProto:
    """The same with nodes in order: what onnxruntime's converter writes has to be put in order before it can be judged."""
    copy = ModelProto()
    copy.CopyFrom(model)
    _sort(copy.graph)
    return copy


def _sort(graph: GraphProto) -> None:
    left = [NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    made_here = {name for node in left for name in node.output if name}
    ready: set[str] = set()
    ordered: list[NodeProto] = []
    while left:
        can = [node for node in left if all(name in ready or name not in made_here for name in _read(node))]
        if not can:
            return  # a circle: leave it to the judge
        ordered += can
        ready.update(name for node in can for name in node.output)
        left = [node for node in left if node not in can]
    del graph.node[:]
    graph.node.extend(ordered)
    for node in graph.node:
        for body in walking.bodies(node):
            _sort(body)
