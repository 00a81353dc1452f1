"""When an axis is none of the data, or told twice."""

from __future__ import annotations

from typing import Any

from tests.node_calls import Call

ALONG: dict[str, int | None] = {
    "ArgMax": 0, "ArgMin": 0, "Compress": None, "Concat": None, "Gather": 0, "GatherElements": 0, "Hardmax": -1,
    "LayerNormalization": -1, "LogSoftmax": -1, "LpNormalization": -1, "RMSNormalization": -1, "Scatter": 0,
    "ScatterElements": 0, "Softmax": -1, "Split": 0, "TopK": -1, "Unique": None,
}  # fmt: skip
"""What has one axis, and the one where none is told."""

_REDUCTIONS = tuple(
    f"Reduce{of}" for of in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)

AXES: dict[str, int | None] = dict.fromkeys(_REDUCTIONS, 1) | {
    "CenterCropPad": None, "CumProd": 1, "CumSum": 1, "MeanVarianceNormalization": None, "Pad": 3, "Resize": None, "Slice": 3,
    "Squeeze": 1,
}  # fmt: skip
"""What has several, and the input that tells them, if one does; otherwise an attribute does."""


def outside(call: Call) -> bool:
    """Whether an axis, or one of several, lies outside of the rank of the data."""
    x, op = call.shape(0), call.node.op_type
    if x is None:
        return False
    if op in ALONG:
        default = 1 if call.opset < 13 and op in ("Softmax", "LogSoftmax", "Hardmax") else ALONG[op]
        told = call.attribute("axis", default)
        axes = [] if told is None else [told]
    else:
        axes = _axes(call)
    return any(not -len(x) <= axis < len(x) for axis in axes)


def twice(call: Call) -> bool:
    x, axes = call.shape(0), _axes(call)
    return bool(x) and len({axis % len(x) for axis in axes}) < len(axes)


def transforms_none(call: Call) -> bool:
    """Whether a DFT goes along no axis of the signal, or along that of its parts."""
    x, axis = call.shape(0), call.given(2)
    return x is not None and axis is not None and (not -len(x) <= axis < len(x) or int(axis) % len(x) == len(x) - 1)


def _axes(call: Call) -> list[int]:
    place = AXES[call.node.op_type]
    told: Any = None if place is None else call.given(place)
    if told is not None:
        return [int(axis) for axis in told.reshape(-1)]
    default = [0, 2, 3] if call.node.op_type == "MeanVarianceNormalization" else []
    return [int(axis) for axis in call.attribute("axes", default)]
