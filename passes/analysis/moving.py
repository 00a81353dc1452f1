"""Compute operators that only move values, in numpy, such as Slice and Transpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opshift.passes.model import installed
from opshift.passes.model.lazy_numpy import np

Array = Any
Attributes = Mapping[str, Any]


def axes_of(inputs: Sequence[Array], attributes: Attributes, position: int = 1) -> list[int] | None:
    if len(inputs) > position and inputs[position] is not None:
        return [int(axis) for axis in inputs[position].reshape(-1)]
    return list(attributes["axes"]) if "axes" in attributes else None


def reshape(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    value, shape = inputs[0], [int(dim) for dim in inputs[1]]
    if not attributes.get("allowzero", 0):
        shape = [value.shape[i] if dim == 0 else dim for i, dim in enumerate(shape)]
    return value.reshape(shape)


def squeeze(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    axes = axes_of(inputs, attributes)
    if axes == []:
        return None  # engines disagree
    return np.squeeze(inputs[0], axis=None if axes is None else tuple(axes))


def unsqueeze(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    axes = axes_of(inputs, attributes)
    return None if axes is None else np.expand_dims(inputs[0], tuple(axes))


def cut_out(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    value = inputs[0]
    if opset < 10:
        starts, ends = list(attributes["starts"]), list(attributes["ends"])
        axes, steps = list(attributes.get("axes", range(len(starts)))), [1] * len(starts)
    else:
        starts, ends = inputs[1].tolist(), inputs[2].tolist()
        axes = axes_of(inputs, {}, 3) or list(range(len(starts)))
        steps = inputs[4].tolist() if len(inputs) > 4 and inputs[4] is not None else [1] * len(starts)
    cut: list[slice] = [slice(None)] * value.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        cut[axis] = bound_slice(start, end, step, value.shape[axis])
    return value[tuple(cut)]


def bound_slice(start: int, end: int, step: int, size: int) -> slice:
    """Write the part of an axis that Slice takes as a slice of Python."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start, end = (at + size if at < 0 else at for at in (start, end))
    start, end = min(max(start, 0), size if step > 0 else size - 1), min(max(end, low), high)
    return slice(start, None if end < 0 else end, step)


def gather(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    axis = int(attributes.get("axis", 0))
    size = inputs[0].shape[axis]
    if not ((inputs[1] >= -size) & (inputs[1] < size)).all():
        return None
    return np.take(inputs[0], inputs[1], axis=axis)


def gather_elements(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    value, places = inputs
    axis = int(attributes.get("axis", 0)) % value.ndim
    if not ((places >= 0) & (places < value.shape[axis])).all():
        return None
    whole = [slice(None) if at == axis else slice(size) for at, size in enumerate(places.shape)]
    return np.take_along_axis(value[tuple(whole)], places, axis)


def concat(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    return np.concatenate(inputs, axis=int(attributes["axis"]))


def split(inputs: Sequence[Array], attributes: Attributes, opset: int) -> list[Array] | None:
    sizes = inputs[1].tolist() if len(inputs) > 1 and inputs[1] is not None else attributes.get("split")
    axis = int(attributes.get("axis", 0))
    if not sizes or sum(sizes) != inputs[0].shape[axis]:
        return None
    return list(np.split(inputs[0], np.cumsum(sizes)[:-1], axis=axis))


def transpose(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    return np.transpose(inputs[0], attributes.get("perm"))


def expand(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    return np.broadcast_to(inputs[0], np.broadcast_shapes(inputs[0].shape, tuple(inputs[1].tolist())))


def constant_of_shape(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    import onnx.numpy_helper

    held = attributes.get("value")
    if held is not None:
        installed.check_type(held.data_type)
    value = np.zeros(1, np.float32) if held is None else onnx.numpy_helper.to_array(held)
    return np.broadcast_to(value.reshape(()), tuple(inputs[0].tolist()))


def count_up(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    start, limit, delta = (value.item() for value in inputs)
    return np.arange(start, limit, delta).astype(inputs[0].dtype) if inputs[0].dtype.kind in "iu" and delta else None


def dims_of(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    dims = list(inputs[0].shape)
    return np.asarray(dims[attributes.get("start", 0) : attributes.get("end", len(dims))], np.int64)


def unique(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    """Compute only the first output of Unique; None if there is a NaN, on which engines differ."""
    if inputs[0].dtype.kind in "fV" and np.isnan(inputs[0]).any():
        return None
    found, first = np.unique(inputs[0], return_index=True, axis=attributes.get("axis"))
    return found if attributes.get("sorted", 1) else np.take(found, np.argsort(first), attributes.get("axis", 0))


def trilu(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array:
    k = int(inputs[1].reshape(-1)[0]) if len(inputs) > 1 and inputs[1] is not None else 0
    return (np.triu if attributes.get("upper", 1) else np.tril)(inputs[0], k)
