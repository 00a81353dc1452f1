"""Products of small integers in float32, which holds all their sums, for backends that multiply floats alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Change
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto, TensorProto
from opshift.trying.ways.rewriting import Rewriting

if TYPE_CHECKING:
    import numpy as np

PRODUCTS = frozenset({"MatMul"})
Bounds = tuple[int, int]

_NARROW: dict[int, Bounds] = {
    TensorProto.BOOL: (0, 1),
    TensorProto.INT8: (-(1 << 7), (1 << 7) - 1),
    TensorProto.UINT8: (0, (1 << 8) - 1),
    TensorProto.INT16: (-(1 << 15), (1 << 15) - 1),
    TensorProto.UINT16: (0, (1 << 16) - 1),
}
_WIDE: dict[int, Bounds] = {
    TensorProto.INT32: (-(1 << 31), (1 << 31) - 1),
    TensorProto.UINT32: (0, (1 << 32) - 1),
    TensorProto.INT64: (-(1 << 63), (1 << 63) - 1),
    TensorProto.UINT64: (0, (1 << 64) - 1),
}
"""What each type holds."""
_COUNTED = _WIDE.keys() - {TensorProto.UINT64}
"""Those that int64 holds."""
_MOVES = frozenset({"Identity", "Reshape", "Transpose", "Unsqueeze", "Squeeze", "Flatten", "Slice", "Gather", "Split"})
"""What yields elements of its first input."""
_HELD = 1 << 24
"""Up to this one, float32 holds each integer."""
_DEEPEST = 16  # nodes above a product that are looked at
_HOW = "Computed in float32, which is exact here"


def in_floats(model: ModelProto, op: str) -> tuple[ModelProto, list[Change]]:
    """The model whose graphs multiply integers as floats where that is exact; itself where that is nowhere known."""
    work = Rewriting(model, op, _HOW)
    return work.everywhere(partial(_parts, work.fresh), "exact")


def _is_exact(scope: Scope, node: NodeProto) -> bool:
    """Whether no sum that the product may come to is beyond what float32 holds."""
    if scope.elem_type(node.input[0]) not in _WIDE:
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
    weights = _weights(scope, node.input[1])
    if weights is None or not weights.size:
        return False
    sums = abs(weights).sum(axis=-2 if weights.ndim > 1 else -1)
    return int(sums.max()) * most <= _HELD


def _weights(scope: Scope, name: str, depth: int = 0) -> np.ndarray[Any, Any] | None:
    """The integers that a value holds, if constants say so; None where they wrap."""
    held, elem_type = scope.array(name), scope.elem_type(name)
    if held is not None:
        return held.astype("int64") if elem_type in _NARROW or elem_type in _COUNTED else None
    node = scope.producer(name)
    if node is None or node.domain or depth > _DEEPEST or node.op_type not in ("Cast", "Sub", "Add"):
        return None
    values = [_weights(scope, given, depth + 1) for given in node.input]
    if any(value is None for value in values):
        return None
    first, *others = (value for value in values if value is not None)
    for other in others:
        first = first - other if node.op_type == "Sub" else first + other
    bounds = (int(first.min()), int(first.max())) if first.size else (0, 0)
    return first if _bounds_without_wrap(elem_type, bounds) else None


def _bounds(scope: Scope, name: str, depth: int = 0) -> Bounds | None:
    """Between which numbers the elements of a value lie; None where nothing tells."""
    elem_type = scope.elem_type(name)
    if elem_type not in _WIDE:
        return _NARROW.get(elem_type)
    held = scope.array(name) if scope.is_constant(name) else None
    if held is not None and held.size:
        return int(held.min()), int(held.max())
    node = scope.producer(name)
    if node is None or node.domain or depth > _DEEPEST:
        return None
    if node.op_type in _MOVES or (node.op_type == "Cast" and scope.elem_type(node.input[0]) in _NARROW | _WIDE):
        return _bounds_without_wrap(elem_type, _bounds(scope, node.input[0], depth + 1))
    if node.op_type in ("Add", "Sub"):
        first, second = (_bounds(scope, given, depth + 1) for given in node.input)
        if first is None or second is None:
            return None
        low, high = second if node.op_type == "Add" else (-second[1], -second[0])
        return _bounds_without_wrap(elem_type, (first[0] + low, first[1] + high))
    return None


def _bounds_without_wrap(elem_type: int, bounds: Bounds | None) -> Bounds | None:
    """The bounds, unless the type does not hold all between them: it wraps then."""
    held = _NARROW.get(elem_type) or _WIDE.get(elem_type)
    return bounds if bounds and held and held[0] <= bounds[0] and bounds[1] <= held[1] else None


def _parts(fresh: Callable[[str], str], graph: GraphProto, node: NodeProto, scope: Scope) -> list[NodeProto]:
    if not _is_exact(scope, node):
        return []
    made = node.output[0]
    call = NodeProto()
    call.CopyFrom(node)
    casts = []
    for place, name in enumerate(node.input):
        call.input[place] = fresh(f"{made}/float{place}")
        casts.append(_cast(name, call.input[place], TensorProto.FLOAT))
    call.output[0] = fresh(f"{made}/float")
    return [*casts, call, _cast(call.output[0], made, scope.elem_type(node.input[0]))]


def _cast(given: str, made: str, elem_type: int) -> NodeProto:
    return NodeProto(op_type="Cast", input=[given], output=[made], attribute=[make_attribute("to", elem_type)])
