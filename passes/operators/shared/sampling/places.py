"""Which elements a Resize reads for each element that it writes, and how much each of them counts.

Coordinates are computed the way runtimes do, in float32, and for weights of data in float64, for which runtimes have
no kernel, in float64. Where the widths choose another nearest element, rounding decides what the operator computes, and
there is no one form to give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opshift.passes.model.lazy_numpy import np

Array = Any  # numpy arrays of floats


class Undecided(Exception):
    """The texts do not settle what is computed; says why."""


@dataclass(frozen=True)
class Axis:
    """One axis, resized from `size` to `result` elements; `start` and `end` bound its region of interest."""

    axis: int
    size: int
    result: int
    scale: float
    start: float = 0.0
    end: float = 1.0
    asked: bool = False  # the result was asked for by its size

    @property
    def whole(self) -> bool:
        """Whether the scale leads to the size of the result without cutting anything off."""
        return bool(np.float32(self.scale) * np.float32(self.size) == self.result)


@dataclass(frozen=True)
class Sampling:
    """The attributes of a Resize."""

    mode: str
    coordinates: str
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


def output_size(size: int, scale: float) -> int:
    """floor(size * scale); onnxruntime computes it in float32, onnx.reference in float64."""
    single = int(np.floor(np.float32(size) * np.float32(scale)))
    if single != int(np.floor(size * float(np.float32(scale)))):
        raise Undecided(f"floor({size} * {scale}) depends on the width of the arithmetic")
    return single


def size_by_ratio(size: int, ratio: float) -> int:
    """floor(size * ratio + 0.5), which onnxruntime computes in float32, too."""
    single = int(np.floor(np.float32(size) * np.float32(ratio) + np.float32(0.5)))
    if single != int(np.floor(size * ratio + 0.5)):
        raise Undecided(f"floor({size} * {ratio} + 0.5) depends on the width of the arithmetic")
    return single


def _half_pixel(x: Array, along: Axis, f: Any) -> Array:
    return (x + f(0.5)) / f(along.scale) - f(0.5)


def _pytorch_half_pixel(x: Array, along: Axis, f: Any) -> Array:
    return _half_pixel(x, along, f) if along.result > 1 else x * f(0)


def _half_pixel_symmetric(x: Array, along: Axis, f: Any) -> Array:
    adjustment = f(along.result) / (f(along.scale) * f(along.size))
    return f(along.size) / f(2) * (f(1) - adjustment) + _half_pixel(x, along, f)


def _align_corners(x: Array, along: Axis, f: Any) -> Array:
    length = f(along.result) if along.whole or along.asked else f(along.scale) * f(along.size)
    return x * f(along.size - 1) / (length - f(1)) if along.result > 1 else x * f(0)


def _asymmetric(x: Array, along: Axis, f: Any) -> Array:
    return x / f(along.scale)


def _tf_half_pixel_for_nn(x: Array, along: Axis, f: Any) -> Array:
    return (x + f(0.5)) / f(along.scale)


def _tf_crop_and_resize(x: Array, along: Axis, f: Any) -> Array:
    start, end, last = f(along.start), f(along.end), f(along.size - 1)
    if along.result == 1:
        return x * f(0) + f(0.5) * (start + end) * last
    return start * last + x * (end - start) * last / f(along.result - 1)


COORDINATES: dict[str, Callable[[Array, Axis, Any], Array]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "tf_half_pixel_for_nn": _tf_half_pixel_for_nn,
    "tf_crop_and_resize": _tf_crop_and_resize,
}
NEAREST: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - x.dtype.type(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x + x.dtype.type(0.5)),
}
MODES = ("nearest", "linear", "cubic")


def positions(along: Axis, coordinates: str, width: Any = np.float32) -> Array:
    """Where each element of the result lies on the axis of the data."""
    return COORDINATES[coordinates](np.arange(along.result).astype(width), along, width)


def nearest(along: Axis, how: Sampling) -> list[int]:
    """The one element that each element of the result repeats."""
    single, double = (
        np.clip(NEAREST[how.nearest_mode](positions(along, how.coordinates, width)), 0, along.size - 1)
        for width in (np.float32, np.float64)
    )
    if not np.array_equal(single, double):
        raise Undecided(f"rounding decides which element of axis {along.axis} is the nearest")
    return [int(index) for index in single]


def taps(along: Axis, how: Sampling, width: Any = np.float32) -> tuple[Array, Array]:
    """What each element of the result is a weighted sum of: indices and weights, one column a tap."""
    x = positions(along, how.coordinates, width).astype(np.float64)
    if how.mode == "linear" and not how.antialias:
        x = np.clip(x, 0, along.size - 1)
    base = np.floor(x)
    stretch = min(along.scale, 1.0) if how.antialias else 1.0
    reach = (1 if how.mode == "linear" else 2) / stretch
    first = int(np.floor(-reach)) + 1
    where = base[:, None] + np.arange(first, 2 - first)
    weights = _filter((where - x[:, None]) * stretch, how)
    if how.exclude_outside:
        weights = np.where((where < 0) | (where > along.size - 1), 0.0, weights)
    weights /= weights.sum(axis=1, keepdims=True)
    counting = weights.any(axis=0)
    return np.clip(where, 0, along.size - 1).astype(np.int64)[:, counting], weights[:, counting]


def _filter(distance: Array, how: Sampling) -> Array:
    d, a = np.abs(distance), how.cubic_coeff_a
    if how.mode == "linear":
        return np.clip(1 - d, 0, None)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def outside(along: Axis) -> Array:
    """Which elements of the result lie beyond the data."""
    x = positions(along, "tf_crop_and_resize")
    return (x < 0) | (x > along.size - 1)
