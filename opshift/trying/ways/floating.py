"""Products of small integers in float32, which holds all their sums, for backends that multiply floats alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Change
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto, TensorProto
from opshift.passes.model.traversal import subgraphs
from opshift.trying.ways.rewriting import Rewriting

if TYPE_CHECKING:
    import numpy as np

PRODUCTS = frozenset({"MatMul"})
_SIGNED = frozenset({TensorProto.INT32, TensorProto.INT64})
_INTEGERS = _SIGNED | {TensorProto.UINT32, TensorProto.UINT64}
_NARROW: dict[int, tuple[int, int]] = {
    TensorProto.BOOL: (0, 1),
    TensorProto.INT8: (-128, 127),
    TensorProto.UINT8: (0, 255),
    TensorProto.INT16: (-(1 << 15), (1 << 15) - 1),
    TensorProto.UINT16: (0, (1 << 16) - 1),
}
_MOVES = frozenset({"Identity", "Reshape", "Transpose", "Unsqueeze", "Squeeze", "Flatten", "Slice", "Gather", "Split"})
"""What yields elements of its first input."""
_HELD = 1 << 24
"""Up to this one, float32 holds each integer."""
_DEEPEST = 16  # nodes above a product that are looked at
_HOW = "it is computed in float32, which holds its sums"

Bounds = tuple[int, int]


def in_floats(model: ModelProto, op: str) -> tuple[ModelProto, list[Change]]:
    """The model whose graphs multiply integers as floats where that is exact; itself where that is nowhere known."""
    work = Rewriting(model, op, _HOW)
    _within(work.made.graph, work.scope, work)
    return work.written()


def _within(graph: GraphProto, scope: Scope, work: Rewriting) -> None:
    """Rewrite the calls in a graph, and in those that its nodes hold."""
    nodes: list[NodeProto] = []
    for index, (node, source) in enumerate(zip(graph.node, scope.body.node, strict=True)):
        for (attribute, k, inner), (_, _, twin) in zip(subgraphs(node), subgraphs(source), strict=True):
            path = None if scope.path is None else (*scope.path, (index, attribute, k))
            _within(inner, Scope(twin, scope.context, scope.opset, scope, path), work)
        if work.calls(node) and _is_exact(scope, source):
            nodes += _parts(node, scope.elem_type(source.input[0]), work.fresh)
            work.did(node)
        else:
            nodes.append(node)
    if len(nodes) > len(graph.node):
        del graph.node[:]
        graph.node.extend(nodes)


def _is_exact(scope: Scope, node: NodeProto) -> bool:
    """Whether no sum that the product may come to is beyond what float32 holds."""
    if scope.elem_type(node.input[0]) not in _INTEGERS:
        return False
    count = next((s[-1] for s in [scope.shape(node.input[0])] if s), None)
    if not isinstance(count, int):
        shape = scope.shape(node.input[1])
        count = shape[-2 if len(shape) > 1 else -1] if shape else None
    first, second = (_bounds(scope, name) for name in node.input)
    if first is None or second is None:
        return False
    most = max(map(abs, first))
    if isinstance(count, int) and count * most * max(map(abs, second)) <= _HELD:
        return True
    weights = _weights(scope, node.input[1]) if scope.elem_type(node.input[1]) in _SIGNED else None
    if weights is None or not weights.size:
        return False
    sums = abs(weights).sum(axis=-2 if weights.ndim > 1 else -1)
    return int(sums.max()) * most <= _HELD


def _weights(scope: Scope, name: str, depth: int = 0) -> np.ndarray[Any, Any] | None:
    """The integers that a value holds, if constants say so."""
    held = scope.array(name)
    if held is not None:
        return held.astype("int64") if held.dtype.kind in "biu" else None
    node = scope.producer(name)
    if node is None or node.domain or depth > _DEEPEST or node.op_type not in ("Cast", "Sub", "Add"):
        return None
    values = [_weights(scope, given, depth + 1) for given in node.input]
    if any(value is None for value in values):
        return None
    first, *others = (value for value in values if value is not None)
    for other in others:
        first = first - other if node.op_type == "Sub" else first + other
    return first


def _bounds(scope: Scope, name: str, depth: int = 0) -> Bounds | None:
    """Between which numbers the elements of a value lie; None where nothing tells."""
    kind = scope.elem_type(name)
    if kind in _NARROW:
        return _NARROW[kind]
    held = scope.array(name) if scope.is_constant(name) else None
    if held is not None and held.size and kind in _INTEGERS:
        return int(held.min()), int(held.max())
    node = scope.producer(name)
    if node is None or node.domain or depth > _DEEPEST:
        return None
    if node.op_type in _MOVES or (node.op_type == "Cast" and scope.elem_type(node.input[0]) in {*_INTEGERS, *_NARROW}):
        return _unwrapped(kind, _bounds(scope, node.input[0], depth + 1))
    if node.op_type in ("Add", "Sub"):
        first, second = (_bounds(scope, given, depth + 1) for given in node.input)
        if first is None or second is None:
            return None
        low, high = second if node.op_type == "Add" else (-second[1], -second[0])
        return _unwrapped(kind, (first[0] + low, first[1] + high))
    return None


def _unwrapped(kind: int, bounds: Bounds | None) -> Bounds | None:
    """The bounds, unless the type holds nothing below 0 and they do."""
    wraps = kind in (TensorProto.UINT32, TensorProto.UINT64) and bounds is not None and bounds[0] < 0
    return None if wraps else bounds


def _parts(node: NodeProto, elem_type: int, fresh: Callable[[str], str]) -> list[NodeProto]:
    made = node.output[0]
    call = NodeProto()
    call.CopyFrom(node)
    casts = []
    for place, name in enumerate(node.input):
        call.input[place] = fresh(f"{made}/float{place}")
        casts.append(_cast(name, call.input[place], TensorProto.FLOAT))
    call.output[0] = fresh(f"{made}/float")
    return [*casts, call, _cast(call.output[0], made, elem_type)]


def _cast(given: str, made: str, elem_type: int) -> NodeProto:
    return NodeProto(op_type="Cast", input=[given], output=[made], attribute=[make_attribute("to", elem_type)])
