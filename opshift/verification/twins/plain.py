"""What numpy yields as every engine does: numbers that only move, and sums, products and roots, which IEEE 754 rounds.

A call of it costs less than the session that an engine would need. None for what is left to an engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

Array = Any
Attributes = Mapping[str, Any]


def compute(op: str, opset: int, inputs: Sequence[Array | None], attributes: Attributes) -> list[Array] | None:
    """The outputs of a call."""
    kernel = _KERNELS.get(op)
    if kernel is None or opset < _OLDEST or not all(isinstance(value, np.ndarray) for value in inputs):
        return None
    with suppress(ValueError, IndexError, TypeError), np.errstate(all="ignore"):  # which an engine says as it does
        found = kernel(inputs, attributes)
        return None if found is None else [np.asarray(found)]
    return None


_OLDEST = 7
"""The opset since which operators broadcast as numpy does."""


def _of_doubles(function: Callable[..., Array]) -> Callable[[Sequence[Array], Attributes], Array | None]:
    def computed(inputs: Sequence[Array], attributes: Attributes) -> Array | None:
        return function(*inputs) if all(value.dtype == np.float64 for value in inputs) else None

    return computed


def _of_numbers(function: Callable[..., Array]) -> Callable[[Sequence[Array], Attributes], Array | None]:
    """Of doubles, and of integers, which wrap where they are too large."""

    def computed(inputs: Sequence[Array], attributes: Attributes) -> Array | None:
        return function(*inputs) if _are(inputs, np.float64, np.int64, np.int32) else None

    return computed


def _compared(function: Callable[..., Array]) -> Callable[[Sequence[Array], Attributes], Array | None]:
    def computed(inputs: Sequence[Array], attributes: Attributes) -> Array | None:
        return function(*inputs) if _are(inputs, np.float64, np.int64, np.int32, np.bool_) else None

    return computed


def _are(inputs: Sequence[Array], *kinds: type) -> bool:
    """Whether all are of one of these types, and of the same."""
    return inputs[0].dtype in kinds and all(value.dtype == inputs[0].dtype for value in inputs[1:])


def _div(inputs: Sequence[Array], attributes: Attributes) -> Array | None:
    if _are(inputs, np.float64):
        return np.divide(*inputs)
    if not _are(inputs, np.int64) or (inputs[0] < 0).any() or (inputs[1] <= 0).any():
        return None
    return np.floor_divide(*inputs)


def _gemm(inputs: Sequence[Array], attributes: Attributes) -> Array | None:
    if not _are(inputs, np.float64) or inputs[0].ndim != 2 or inputs[1].ndim != 2:
        return None
    a, b = (held.T if attributes.get(name) else held for held, name in zip(inputs, ("transA", "transB"), strict=False))
    found = np.float64(attributes.get("alpha", 1.0)) * np.matmul(a, b)
    return found if len(inputs) < 3 else found + np.float64(attributes.get("beta", 1.0)) * inputs[2]


def _where(inputs: Sequence[Array], attributes: Attributes) -> Array | None:
    return np.where(*inputs) if inputs[1].dtype == inputs[2].dtype != object else None


def _expand(inputs: Sequence[Array], attributes: Attributes) -> Array:
    data, shape = inputs
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(shape.tolist())))


def _flatten(inputs: Sequence[Array], attributes: Attributes) -> Array:
    (data,), axis = inputs, attributes.get("axis", 1)
    return data.reshape(math.prod(data.shape[:axis]), math.prod(data.shape[axis:]))


def _range(inputs: Sequence[Array], attributes: Attributes) -> Array | None:
    start, limit, step = inputs
    if not _are(inputs, np.int64) or not step:
        return None
    return np.arange(int(start), int(limit), int(step), dtype=np.int64)


def _axes(inputs: Sequence[Array], attributes: Attributes) -> tuple[int, ...]:
    found = inputs[1].reshape(-1).tolist() if len(inputs) > 1 else attributes.get("axes", ())
    return tuple(int(axis) for axis in found)


def _reshape(inputs: Sequence[Array], attributes: Attributes) -> Array | None:
    data, shape = inputs
    if attributes.get("allowzero"):
        return None
    return data.reshape([data.shape[at] if size == 0 else size for at, size in enumerate(shape.tolist())])


def _squeeze(inputs: Sequence[Array], attributes: Attributes) -> Array | None:
    axes = _axes(inputs, attributes)
    return np.squeeze(inputs[0], axes) if axes else None


def _slice(inputs: Sequence[Array], attributes: Attributes) -> Array | None:
    if len(inputs) < 3:
        return None
    data, starts, ends = inputs[0], inputs[1].tolist(), inputs[2].tolist()
    axes = inputs[3].tolist() if len(inputs) > 3 else range(len(starts))
    steps = inputs[4].tolist() if len(inputs) > 4 else [1] * len(starts)
    part = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        part[axis] = slice(start, end, step)
    return data[tuple(part)]


def _shape(inputs: Sequence[Array], attributes: Attributes) -> Array:
    return np.array(inputs[0].shape[attributes.get("start", 0) : attributes.get("end")], np.int64)


def _concat(inputs: Sequence[Array], attributes: Attributes) -> Array | None:
    same = len({value.dtype for value in inputs}) == 1 and inputs[0].dtype != object
    return np.concatenate(inputs, attributes["axis"]) if same else None


def _gather(inputs: Sequence[Array], attributes: Attributes) -> Array | None:
    return np.take(inputs[0], inputs[1], attributes.get("axis", 0)) if inputs[0].size else None


_KERNELS: dict[str, Callable[[Sequence[Array], Attributes], Array | None]] = {
    "Abs": _of_doubles(np.abs),
    "Add": _of_numbers(np.add),
    "And": _compared(np.logical_and),
    "Concat": _concat,
    "Div": _div,
    "Equal": _compared(np.equal),
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Gemm": _gemm,
    "Greater": _compared(np.greater),
    "GreaterOrEqual": _compared(np.greater_equal),
    "IsNaN": _of_doubles(np.isnan),
    "Less": _compared(np.less),
    "LessOrEqual": _compared(np.less_equal),
    "MatMul": _of_doubles(np.matmul),
    "Mul": _of_numbers(np.multiply),
    "Neg": _of_doubles(np.negative),
    "Not": _compared(np.logical_not),
    "Or": _compared(np.logical_or),
    "Range": _range,
    "Reshape": _reshape,
    "Shape": _shape,
    "Slice": _slice,
    "Sqrt": _of_doubles(np.sqrt),
    "Squeeze": _squeeze,
    "Sub": _of_numbers(np.subtract),
    "Transpose": lambda inputs, attributes: np.transpose(inputs[0], attributes.get("perm")),
    "Unsqueeze": lambda inputs, attributes: np.expand_dims(inputs[0], _axes(inputs, attributes)),
    "Where": _where,
}
