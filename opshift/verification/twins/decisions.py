"""Nodes that decide: what they yield jumps where their input passes a line, and how far from that line it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import NodeProto, TensorProto, default_domain

Array = Any


def margin(node: NodeProto, inputs: Sequence[Any]) -> Array | None:
    """How much each element of what a node decides lacks to be another one; None for nodes that decide nothing.

    A number stands for all elements.
    """
    rule = _RULES.get(node.op_type) if not default_domain(node.domain) else None
    if rule is None or not any(_is_wide(value) for value in inputs):
        return None
    with np.errstate(all="ignore"):
        try:
            return rule(inputs, {a.name: attribute_value(a) for a in node.attribute})
        except (ValueError, IndexError, TypeError, KeyError):
            return np.float64(np.inf)


def output(node: NodeProto) -> int:
    """Which output holds what is decided."""
    return 1 if node.op_type == "TopK" else 0


def decides(node: NodeProto) -> bool:
    return not default_domain(node.domain) and node.op_type in _RULES


def _is_wide(value: Any) -> bool:
    return getattr(value, "dtype", None) == np.float64


def _best(inputs: Sequence[Array], attributes: dict[str, Any]) -> Array:
    """The lead of the best element over the next one along an axis; one of -1 for the smallest."""
    data, axis = inputs[0], int(attributes.get("axis", 0))
    ordered = np.sort(data, axis)
    size = data.shape[axis]
    if size < 2:
        return np.float64(np.inf)
    low, high = (1, 0) if attributes.get("smallest") else (size - 1, size - 2)
    found = np.abs(np.take(ordered, low, axis) - np.take(ordered, high, axis))
    return np.expand_dims(found, axis) if attributes.get("keepdims", 1) else found


def _ranked(inputs: Sequence[Array], attributes: dict[str, Any]) -> Array:
    """How far each of the first k elements is from its neighbours in the order."""
    data, axis = inputs[0], int(attributes.get("axis", -1))
    count = int(np.ravel(inputs[1])[0]) if len(inputs) > 1 else int(attributes["k"])
    ordered = np.sort(data, axis)
    if attributes.get("largest", 1):
        ordered = np.flip(ordered, axis)
    gaps = np.abs(np.diff(ordered, axis=axis))
    edge = np.full_like(np.take(ordered, [0], axis), np.inf)
    whole = np.concatenate([edge, gaps, edge], axis)
    places = np.arange(count)
    return np.minimum(np.take(whole, places, axis), np.take(whole, places + 1, axis))


def _apart(inputs: Sequence[Array], attributes: dict[str, Any]) -> Array:
    return np.abs(inputs[0] - inputs[1])


def _from_zero(inputs: Sequence[Array], attributes: dict[str, Any]) -> Array:
    return np.abs(inputs[0])


def _from_whole(inputs: Sequence[Array], attributes: dict[str, Any]) -> Array:
    return np.abs(inputs[0] - np.rint(inputs[0]))


def _from_half(inputs: Sequence[Array], attributes: dict[str, Any]) -> Array:
    return np.abs(np.abs(inputs[0] - np.floor(inputs[0])) - 0.5)


def _of_cast(inputs: Sequence[Array], attributes: dict[str, Any]) -> Array:
    to = int(attributes.get("to", 0))
    if to == TensorProto.BOOL:
        return _from_zero(inputs, attributes)
    return _from_whole(inputs, attributes) if to in _WHOLE else np.float64(np.inf)


def _quantized(inputs: Sequence[Array], attributes: dict[str, Any]) -> Array:
    data, step = inputs[0], np.asarray(inputs[1], np.float64)
    if step.ndim == 1 and step.size > 1:
        step = step.reshape([-1 if k == int(attributes.get("axis", 1)) % data.ndim else 1 for k in range(data.ndim)])
    return _from_half([data / step], {}) * np.abs(step)


def _quantized_by_itself(inputs: Sequence[Array], attributes: dict[str, Any]) -> Array:
    data = inputs[0]
    step = (max(data.max(initial=0.0), 0.0) - min(data.min(initial=0.0), 0.0)) / 255
    return _from_half([data / step], {}) * step if step else np.float64(np.inf)


def _suppressed(inputs: Sequence[Array], attributes: dict[str, Any]) -> Array:
    """The least gap between two scores, or between a score or an overlap and its limit."""
    boxes, scores = np.asarray(inputs[0], np.float64), np.asarray(inputs[1], np.float64)
    limits = [float(np.ravel(value)[0]) if value is not None else 0.0 for value in [*inputs[3:5], None, None][:2]]
    gaps = [np.abs(np.diff(np.sort(scores, -1), axis=-1)).min(initial=np.inf)]
    gaps.append(np.abs(scores - limits[1]).min(initial=np.inf))
    for batch in boxes:
        if len(batch) <= 2000:
            gaps.append(
                np.abs(_overlaps(batch, bool(attributes.get("center_point_box"))) - limits[0]).min(initial=np.inf)
            )
    return np.float64(min(gaps))


def _overlaps(boxes: Array, centred: bool) -> Array:
    if centred:
        half = boxes[:, 2:] / 2
        low, high = boxes[:, :2] - half, boxes[:, :2] + half
    else:
        low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    sides = np.maximum(np.minimum(high[:, None], high[None]) - np.maximum(low[:, None], low[None]), 0)
    shared, area = sides.prod(-1), (high - low).prod(-1)
    return shared / (area[:, None] + area[None] - shared)


_WHOLE = {
    TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
    TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
}  # fmt: skip

_RULES: dict[str, Callable[[Sequence[Array], dict[str, Any]], Array]] = {
    "ArgMax": _best,
    "ArgMin": lambda inputs, attributes: _best(inputs, {**attributes, "smallest": 1}),
    "Cast": _of_cast,
    "Ceil": _from_whole,
    "DynamicQuantizeLinear": _quantized_by_itself,
    "Equal": _apart,
    "Floor": _from_whole,
    "Greater": _apart,
    "GreaterOrEqual": _apart,
    "Less": _apart,
    "LessOrEqual": _apart,
    "NonMaxSuppression": _suppressed,
    "NonZero": _from_zero,
    "QuantizeLinear": _quantized,
    "Round": _from_half,
    "Sign": _from_zero,
    "TopK": _ranked,
}


def differing(*values: Any) -> Array | None:
    """Where one of these is another one; a single True for other shapes, None for what is no array."""
    first = values[0]
    if not all(isinstance(value, np.ndarray) for value in values):
        return None
    if any(value.shape != first.shape for value in values):
        return np.asarray(True)
    wide = [value.astype(np.float64) if value.dtype.kind in "fV" else value for value in values]
    return (wide[0] != wide[1]) | (wide[2] != wide[3])


class Watch:
    """Keeps what nodes of the main graph of a twin yield, and how near to their lines those are that decide."""

    def __init__(self, nodes: Collection[str], read: Collection[str]):
        self.values: dict[str, Any] = {}
        self.margins: dict[str, Any] = {}
        self._nodes, self._read = nodes, read

    def __call__(self, node: NodeProto, inputs: Sequence[Any], made: Sequence[Any]) -> None:
        for name, value in zip(node.output, made, strict=False):
            if name in self._nodes or name in self._read:
                self.values[name] = value
        if decides(node) and decided(node) in self._nodes:
            found = margin(node, inputs)
            if found is not None:
                self.margins[decided(node)] = found


def decided(node: NodeProto) -> str:
    index = output(node)
    return node.output[index] if len(node.output) > index else ""
