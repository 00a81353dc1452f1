"""Nodes that a twin does not leave to an engine: casts, constants, and those that hold graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Protocol

import numpy as np

from opshift.passes.model.messages import AttributeProto, GraphProto, NodeProto, TensorProto
from opshift.verification.engines import EngineError
from opshift.verification.twins.calls import Calls
from opshift.verification.twins.values import NARROW, WIDE, Value, dtype_of, widened

Scope = MutableMapping[str, Any]
Opsets = Mapping[str, int]

NEWEST, OLDEST = 26, 7
"""What onnxruntime loads and has kernels for; most operators are the same from there on."""

_RANK: dict[int, int] = {TensorProto.DOUBLE: 3, TensorProto.FLOAT: 2, TensorProto.FLOAT16: 1, TensorProto.BFLOAT16: 1}


class Running(Protocol):
    """What these nodes ask of the twin that runs them."""

    calls: Calls
    folder: str | None
    unrounded: frozenset[str]

    def call(self, node: NodeProto, inputs: Sequence[Value], opset: int) -> list[Value]:
        """Leave a node to an engine."""

    def graph(self, graph: GraphProto, scope: Scope, given: Sequence[Value], opsets: Opsets) -> list[Value]:
        """Run an inner graph."""


def is_idle(node: NodeProto, inputs: Sequence[Value]) -> bool:
    """Whether a Dropout lets everything pass."""
    if node.op_type != "Dropout":
        return False
    if any(a.name == "is_test" for a in node.attribute):
        return any(a.name == "is_test" and a.i for a in node.attribute)
    return len(inputs) < 3 or inputs[2].data is None or not bool(inputs[2].data)


def _attribute(node: NodeProto, name: str) -> AttributeProto | None:
    return next((attribute for attribute in node.attribute if attribute.name == name), None)


def _cast(twin: Running, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Opsets) -> list[Value]:
    held = _attribute(node, "to")
    if held is not None and held.type == AttributeProto.STRING:  # below opset 6
        to = TensorProto.DataType.Value(held.s.decode())
    else:
        to = held.i if held is not None else 0
    return [_to(twin, node, inputs[0], to, opsets)]


def _cast_like(twin: Running, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Opsets) -> list[Value]:
    like = inputs[1]
    to = like.kind or TensorProto.DOUBLE if like.data.dtype == WIDE else _type_of(like.data)
    return [_to(twin, node, inputs[0], to, opsets)]


def _type_of(data: Any) -> int:
    import onnx.helper

    return TensorProto.STRING if data.dtype.kind in "OSU" else onnx.helper.np_dtype_to_tensor_dtype(data.dtype)


def _to(twin: Running, node: NodeProto, value: Value, to: int, opsets: Opsets) -> Value:
    """Floats stay double, whichever they are cast to; where a narrower one is cast back, it is rounded there."""
    data = value.data
    floating = getattr(data, "dtype", None) == WIDE
    here = value.kind or TensorProto.DOUBLE
    if floating and to in _RANK:
        kind = 0 if to == TensorProto.DOUBLE else to
        if _RANK[to] < _RANK[here] or (to != here and _RANK[to] == _RANK[here] == 1):
            cut = value.cut or not twin.unrounded.intersection(node.output)
            return Value(data, kind, cut)
        if value.cut and _RANK[to] > _RANK[here]:
            return Value(data.astype(dtype_of(here)).astype(WIDE), kind)
        return Value(data, kind, value.cut)
    if to in NARROW and getattr(data, "dtype", None) is not None and data.dtype.kind in "iub":
        return Value(data.astype(WIDE), to)
    if to in _WHOLE and getattr(data, "dtype", None) is not None and data.dtype in _PLAIN:
        return Value(data.astype(dtype_of(to)))
    call = NodeProto(op_type="Cast", output=["y"])
    call.attribute.add(name="to", type=AttributeProto.INT, i=TensorProto.DOUBLE if to in NARROW else to)
    saturate = _attribute(node, "saturate")
    if saturate is not None:
        call.attribute.add().CopyFrom(saturate)
    if floating and value.kind and (to == TensorProto.STRING or to not in _WHOLE):
        data = data.astype(dtype_of(value.kind))
    (made,) = twin.calls.run(call, max(min(opsets.get("", 1), NEWEST), 9), [data], [None])
    return widened(made, to if to in NARROW else 0)


_WHOLE = {
    TensorProto.BOOL, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
    TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
}  # fmt: skip


_PLAIN = frozenset(map(np.dtype, ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")))
"""Integers, which wrap everywhere where they are cast to narrower ones."""


def _constant(twin: Running, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Opsets) -> list[Value]:
    held = _attribute(node, "value")
    if held is not None:
        return [twin.calls.memory.weight(held.t, twin.folder)]
    for attribute in node.attribute:
        if attribute.name == "value_float":
            return [Value(np.asarray(attribute.f, WIDE), TensorProto.FLOAT)]
        if attribute.name == "value_floats":
            return [Value(np.asarray(attribute.floats, WIDE), TensorProto.FLOAT)]
    return twin.call(node, inputs, opsets.get("", 1))


def _identity(twin: Running, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Opsets) -> list[Value]:
    return [inputs[0]]


def _dropout(twin: Running, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Opsets) -> list[Value]:
    data = inputs[0].data
    since = opsets.get("", 1)
    mask = Value(np.ones(data.shape, bool)) if since >= 10 else Value(np.ones_like(data), inputs[0].kind)
    return [inputs[0], mask]


def _if(twin: Running, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Opsets) -> list[Value]:
    branch = _attribute(node, "then_branch" if bool(np.all(inputs[0].data)) else "else_branch")
    assert branch is not None
    return twin.graph(branch.g, scope, [], opsets)


_MOST_TURNS = 100_000


def _loop(twin: Running, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Opsets) -> list[Value]:
    held = _attribute(node, "body")
    assert held is not None
    most = int(inputs[0].data) if inputs and inputs[0].data is not None else _MOST_TURNS
    go_on = bool(inputs[1].data) if len(inputs) > 1 and inputs[1].data is not None else True
    state, rows, turn = list(inputs[2:]), list[list[Value]](), 0
    while go_on and turn < most:
        if turn >= _MOST_TURNS:
            raise EngineError("in float64: a Loop without an end")
        given = [Value(np.asarray(turn, np.int64)), Value(np.asarray(True)), *state]
        made = twin.graph(held.g, scope, given, opsets)
        go_on = bool(made[0].data)
        state = made[1 : 1 + len(state)]
        rows.append(made[1 + len(state) :])
        turn += 1
    count = len(held.g.output) - 1 - len(state)
    if not rows and count:
        raise EngineError("in float64: a Loop of no turns")
    return [*state, *(_stacked([row[k] for row in rows]) for k in range(count))]


def _stacked(values: Sequence[Value], axis: int = 0) -> Value:
    return Value(np.stack([value.data for value in values], axis), values[0].kind)


def _scan(twin: Running, node: NodeProto, inputs: Sequence[Value], scope: Scope, opsets: Opsets) -> list[Value]:
    held, number = _attribute(node, "body"), _attribute(node, "num_scan_inputs")
    if opsets.get("", 1) < 9 or held is None or number is None:
        raise EngineError("in float64: Scan of opset 8")

    def listed(name: str, count: int) -> list[int]:
        found = _attribute(node, name)
        return list(found.ints) if found is not None else [0] * count

    state, series = list(inputs[: -number.i]), inputs[-number.i :]
    outs = len(held.g.output) - len(state)
    axes, ways = listed("scan_input_axes", number.i), listed("scan_input_directions", number.i)
    made_axes, made_ways = listed("scan_output_axes", outs), listed("scan_output_directions", outs)
    length = series[0].data.shape[axes[0]]
    rows: list[list[Value]] = []
    for turn in range(length):
        at = [length - 1 - turn if way else turn for way in ways]
        given = [Value(np.take(v.data, k, axis), v.kind) for v, k, axis in zip(series, at, axes, strict=True)]
        made = twin.graph(held.g, scope, [*state, *given], opsets)
        state = made[: len(state)]
        rows.append(made[len(state) :])
    if not rows and outs:
        raise EngineError("in float64: a Scan of no turns")
    columns = [[row[k] for row in (rows[::-1] if made_ways[k] else rows)] for k in range(outs)]
    return [*state, *(_stacked(column, axis) for column, axis in zip(columns, made_axes, strict=True))]


SPECIAL: dict[str, Callable[[Running, NodeProto, Sequence[Value], Scope, Opsets], list[Value]]] = {
    "Cast": _cast,
    "CastLike": _cast_like,
    "Constant": _constant,
    "Dropout": _dropout,
    "Identity": _identity,
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
}
