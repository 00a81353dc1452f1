"""Conv, pooling and Resize in numpy: onnxruntime lacks them in double, and onnx.reference takes minutes.

What has an attribute that is not provided for is left to onnx.reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np

_COPIED = 1 << 21
"""Elements of windows that are copied at a time."""

Array = Any
Attributes = Mapping[str, Any]


@cache
def reference_kernels() -> tuple[type[Any], ...]:
    """Wrap the numpy kernels for onnx.reference; they fall back on its own."""
    return tuple(_as_reference(op, kernel) for op, kernel in _KERNELS.items())


def _as_reference(op: str, kernel: Callable[..., Array | None]) -> type[Any]:
    from onnx.reference import ops

    base = ops.load_op("", op, None)

    def run(self: Any, *inputs: Array, **attributes: Any) -> tuple[Array, ...]:
        given = {name: value for name, value in attributes.items() if value is not None}
        if all(value is None or value.dtype in (np.float64, np.int64) for value in inputs):
            found = kernel(inputs, given, self.run_params["opsets"][""])
            if found is not None:
                return (found,)
        return base._run(self, *inputs, **attributes)  # type: ignore[no-any-return]

    return type(op, (base,), {"op_domain": "", "_run": run})


def _pads(attributes: Attributes, sizes: Sequence[int], spans: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Compute where windows begin before the data and end behind them, for each axis."""
    rank, auto = len(sizes), attributes.get("auto_pad", "NOTSET")
    if auto == "NOTSET":
        return list(attributes.get("pads") or [0] * 2 * rank)
    if auto == "VALID":
        return [0] * 2 * rank
    missing = [max((-(-n // s) - 1) * s + span - n, 0) for n, span, s in zip(sizes, spans, strides, strict=True)]
    small, large = [m // 2 for m in missing], [m - m // 2 for m in missing]
    return [*small, *large] if auto == "SAME_UPPER" else [*large, *small]


def _windows(attributes: Attributes, kernel: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Read strides and dilations, and compute the extent of a window."""
    strides = list(attributes.get("strides") or [1] * len(kernel))
    dilations = list(attributes.get("dilations") or [1] * len(kernel))
    return strides, dilations, [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]


def _padded(x: Array, pads: Sequence[int], value: float = 0.0) -> Array:
    rank = x.ndim - 2
    width = [(0, 0), (0, 0), *((pads[i], pads[i + rank]) for i in range(rank))]
    if min(pads, default=0) < 0:
        raise ValueError("negative pads")
    return np.pad(x, width, constant_values=value) if any(pads) else x


def _place(at: Sequence[int], strides: Sequence[int], dilations: Sequence[int], sizes: Sequence[int]) -> Any:
    """Select what one element of a window sees, over all windows."""
    spots = zip(at, strides, dilations, sizes, strict=True)
    return (..., *(slice(i * d, i * d + (n - 1) * s + 1, s) for i, s, d, n in spots))


def _at(place: Sequence[int]) -> Any:
    return (..., *place)


def _conv(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array | None:
    x, w, bias = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None
    group, kernel = int(attributes.get("group", 1)), w.shape[2:]
    strides, dilations, spans = _windows(attributes, kernel)
    x = _padded(x, _pads(attributes, x.shape[2:], spans, strides))
    sizes = [(n - span) // s + 1 for n, span, s in zip(x.shape[2:], spans, strides, strict=True)]
    batch, made = x.shape[0], w.shape[0]
    if min(sizes, default=0) < 1 or 0 in x.shape or 0 in w.shape:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(x, spans, tuple(range(2, x.ndim)))
    whole = slice(None)
    windows = windows[(whole, whole, *(slice(None, None, step) for step in (*strides, *dilations)))]
    total = np.empty((batch, made, *sizes))
    weights = w.reshape(group, made // group, -1)
    longest = max(range(len(sizes)), key=lambda axis: sizes[axis])
    step = max(1, _COPIED * sizes[longest] // (batch * math.prod(w.shape[1:]) * group * math.prod(sizes)))
    for begin in range(0, sizes[longest], step):
        part: Any = (whole, whole, *[whole] * longest, slice(begin, begin + step))
        held = windows[part]
        axes = (0, 1, *range(2 + len(sizes), held.ndim), *range(2, 2 + len(sizes)))
        columns = held.transpose(axes).reshape(batch, group, weights.shape[-1], -1)
        total[part] = np.matmul(weights, columns).reshape(batch, made, *held.shape[2 : 2 + len(sizes)])
    return total if bias is None else total + bias.reshape(-1, *[1] * len(sizes))


def _conv_transpose(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array | None:
    x, w, bias = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None
    if attributes.get("auto_pad", "NOTSET") != "NOTSET" or attributes.get("output_shape") or 0 in x.shape:
        return None
    group, kernel = int(attributes.get("group", 1)), w.shape[2:]
    strides, dilations, spans = _windows(attributes, kernel)
    pads = list(attributes.get("pads") or [0] * 2 * len(kernel))
    more = list(attributes.get("output_padding") or [0] * len(kernel))
    sizes, batch, channels, made = x.shape[2:], x.shape[0], x.shape[1], w.shape[1]
    whole = [
        (n - 1) * s + span + p if p > 0 else (n - 1) * s + span
        for n, s, span, p in zip(sizes, strides, spans, more, strict=True)
    ]
    total = np.zeros((batch, group * made, *whole))
    weights = w.reshape(group, channels // group, made, *kernel)
    parts = x.reshape(batch, group, channels // group, -1)
    for at in product(*map(range, kernel)):
        part = np.matmul(np.swapaxes(weights[_at(at)], -1, -2), parts)
        total[_place(at, strides, dilations, sizes)] += part.reshape(batch, group * made, *sizes)
    ends = [n - pads[i + len(kernel)] for i, n in enumerate(whole)]
    inside: Any = (..., *(slice(pads[i], end) for i, end in enumerate(ends)))
    total = total[inside]
    return total if bias is None else total + bias.reshape(-1, *[1] * len(sizes))


def _average_pool(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array | None:
    (x,) = inputs
    kernel = attributes["kernel_shape"]
    strides, dilations, spans = _windows(attributes, kernel)
    pads = _pads(attributes, x.shape[2:], spans, strides)
    if attributes.get("ceil_mode") or 0 in x.shape:
        return None
    counts = np.pad(np.ones(x.shape[2:]), list(zip(pads[: len(kernel)], pads[len(kernel) :], strict=True)))
    if attributes.get("count_include_pad"):
        counts[...] = 1
    x = _padded(x, pads)
    sizes = [(n - span) // s + 1 for n, span, s in zip(x.shape[2:], spans, strides, strict=True)]
    total, held = np.zeros((*x.shape[:2], *sizes)), np.zeros(sizes)
    for at in product(*map(range, kernel)):
        place = _place(at, strides, dilations, sizes)
        total += x[place]
        held += counts[place]
    return total / held


def _resize(inputs: Sequence[Array], attributes: Attributes, opset: int) -> Array | None:
    """Resize by nearest or linear interpolation, one axis at a time."""
    x, given = inputs[0], [*inputs[1:], None, None, None]
    scales, sizes = (given[0], None) if opset < 11 else (given[1], given[2])
    mode = attributes.get("mode", "nearest")
    unusual = ("antialias", "axes", "exclude_outside", "keep_aspect_ratio_policy")
    if mode not in ("nearest", "linear") or any(attributes.get(name) for name in unusual) or 0 in x.shape:
        return None
    way = attributes.get("coordinate_transformation_mode", "half_pixel") if opset >= 11 else "asymmetric"
    rounding = attributes.get("nearest_mode", "round_prefer_floor") if opset >= 11 else "floor"
    if sizes is not None and sizes.size:
        after = [int(size) for size in sizes]
        scales = [b / a for a, b in zip(x.shape, after, strict=True)]
    elif scales is not None and scales.size:
        after = [math.floor(n * float(s)) for n, s in zip(x.shape, scales, strict=True)]
    else:
        return None
    for axis, (size, scale) in enumerate(zip(after, map(float, scales), strict=True)):
        if scale == 1 and size == x.shape[axis]:
            continue
        at = _coordinates(way, size, x.shape[axis], scale)
        if at is None:
            return None
        last = x.shape[axis] - 1
        if mode == "nearest":
            x = np.take(x, np.clip(_NEAREST[rounding](at), 0, last).astype(np.int64), axis)
            continue
        below = np.floor(at)
        share = (at - below).reshape(-1, *[1] * (x.ndim - axis - 1))
        low, high = (np.clip(below + step, 0, last).astype(np.int64) for step in (0, 1))
        x = np.take(x, low, axis) * (1 - share) + np.take(x, high, axis) * share
    return x


def _coordinates(way: str, size: int, before: int, scale: float) -> Array | None:
    at = np.arange(size, dtype=np.float64)
    if way == "asymmetric":
        return at / scale
    if way == "align_corners":
        return at * ((before - 1) / (size - 1)) if size > 1 else at * 0
    if way == "pytorch_half_pixel" and size == 1:
        return at * 0
    return (at + 0.5) / scale - 0.5 if way in ("half_pixel", "pytorch_half_pixel") else None


_NEAREST: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
}


_KERNELS: dict[str, Callable[..., Array | None]] = {
    "AveragePool": _average_pool,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Resize": _resize,
}
