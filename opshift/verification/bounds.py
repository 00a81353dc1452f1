"""How far two forms of a model may be apart: the factors, each with its reason, and the two questions on an output.

The scale of an element is its magnitude, but at least the root of the mean square of its tensor: sums that cancel are
as inexact as what went into them. `u` is half a unit of the last place: 2^-53 for float64, 2^-24, 2^-11 and 2^-8 for
float32, float16 and bfloat16. In the first question, scales and errors are those of elements alike: what is far
larger says nothing of an element, but for what lies near 0 by chance.

1. *The same function?* The twins may differ by `ROUNDINGS[grade]` times 2^-53 of the scale, and as much again for each
   u that the run of the source in its own precision is away from its twin: the conditioning that the run shows. Forms
   of grade `close` may store constants that were rounded to the model's precision: their twins may be apart by
   `CONSTANTS` times what rounding did to the source, and four roundings. Nothing excuses more than `CAPS` of the scale,
   but what an engine's approximations do where nodes of a twin run in no more than its precision.
2. *As accurate?* Each form against its twin: the result may be `ANYWAY` times as far away as the source is; or
   `TIMES[grade]` times as far and `UNITS[grade]` times u of the scale, up to `CAPS` of it. Engines compute a Sigmoid to
   an absolute error: what that does to either form counts as the source's error where it is the larger one.

Without twins the forms are compared with each other: `UNITS[grade]` times u of the scale, up to `CAPS` of it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opshift.passes.records import dataclass, replace
from opshift.verification.judgement import DIRECT, TWINS, Judgement

Array = Any

ROUNDINGS = {"exact": 64, "close": 8192}
"""How many roundings of float64 two orders of adding, or two formulas, are apart."""

CONSTANTS = 8
"""A folded constant is rounded once more; through a network that does about what one more layer of rounding does."""

TIMES = {"exact": 4, "close": 16}
"""Errors of one run are a sample: the largest of another is a few times as large; other formulas round more often."""

ANYWAY = 2
"""Two samples of the same errors: their largest ones differ by less."""

UNITS = {"exact": 64, "close": 8192}
"""Roundings where the source happens to have none."""

CAPS = {
    "float16": {"exact": 0.01, "close": 0.02},
    "bfloat16": {"exact": 0.02, "close": 0.02},
    "float32": {"exact": 1e-4, "close": 1e-3},
}
"""As parts of the scale: no rounding excuses more, unless the source itself is as far away."""

FAR = 0.05
"""A source that is farther from its twin, and than approximations are, where the result is not, took another way: the
two are compared directly."""

WIDE, SINGLE = 2.0**-53, 2.0**-24


def half_unit(dtype: Any) -> float:
    """Half a unit of the last place of 1."""
    if dtype.isbuiltin == 1:
        return float(np.finfo(dtype).eps) / 2
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps) / 2  # type: ignore[no-untyped-call]


def cap(dtype: Any, grade: str) -> float:
    """The part of the scale that is excused at most; a unit of what is narrower than bfloat16."""
    u = half_unit(dtype)
    return 2 * u if u > 2.0**-8 else CAPS.get(dtype.name, CAPS["float32"])[grade]


def scale(values: Array) -> Array:
    """The scale of each element."""
    magnitude = np.where(np.isfinite(values), np.abs(values), 0.0)
    if magnitude.size < 2:
        return magnitude
    return np.maximum(magnitude, np.sqrt(np.mean(np.square(np.minimum(magnitude, 1e150)))))


@dataclass(frozen=True)
class Runs:
    """One output of both forms, in their own precision and in float64."""

    before: Array
    after: Array
    wide_before: Array
    wide_after: Array


def judge(
    name: str,
    runs: Runs,
    grade: str,
    *,
    unit: float = 0.0,
    narrow: Any = None,
    rounded: bool = False,
    noise: float = 0.0,
) -> Judgement | None:
    """Both questions about an output of floats; None where the twins cannot answer.

    `unit` is the rounding of those nodes of the twins that did not run in float64; `narrow` the precision that the
    forms compute in, where the output is wider; `rounded` says that they are written in different ones; `noise` is what
    the engine's approximations of functions do to either form.
    """
    a, b, x, y = runs.before, runs.after, runs.wide_before, runs.wide_after
    if not a.shape == b.shape == getattr(x, "shape", None) == getattr(y, "shape", None):
        return None
    narrow = max((dtype for dtype in (a.dtype, b.dtype, narrow) if dtype is not None), key=half_unit)
    u, most = half_unit(narrow), cap(narrow, grade)
    with np.errstate(all="ignore"):
        p, q = a.astype(x.dtype), b.astype(x.dtype)
        if one_sided(p, q).any():
            return Judgement(name, TWINS, why=told(a, b, one_sided(p, q)))
        if one_sided(x, y).any():
            return Judgement(name, TWINS, why=f"{told(x, y, one_sided(x, y))}, in float64")
        if (np.isfinite(p) & ~np.isfinite(x)).any():
            return None
        width = scale(x)
        apart = _gap(x, y)
        near, far = (np.where(np.isfinite(p), gap, 0.0) for gap in (_gap(p, x), _gap(q, y)))
        source, result = float(near.max(initial=0.0)), float(far.max(initial=0.0))
        if source > max(FAR * float(width.max(initial=0.0)), noise) and result * TIMES["close"] < source:
            return None
        limit = _alike(x)
        like, moved = _mean(x, limit), _largest(near, x, limit)
        same = (ROUNDINGS[grade] * WIDE + ROUNDINGS["exact"] * unit) * (like + moved / u)
        if grade == "close" or rounded:
            stored = moved + (_largest(far, x, limit) if rounded else 0.0)
            same = np.maximum(same, CONSTANTS * stored + 4 * u * like)
        same = np.maximum(np.minimum(same, most * like), noise if unit else 0.0)
        good = np.minimum(TIMES[grade] * source + UNITS[grade] * u * width, most * width)
        good = np.maximum(ANYWAY * max(source, noise), most * width if rounded else good)
    found = Judgement(name, TWINS, *nearest(apart, same), *nearest(far, good))
    if (apart > same).any():
        return replace(found, why=f"{told(x, y, apart > same)}, in float64")
    if (far > good).any():
        return replace(found, why=f"{told(y, q, far > good)}, of the second model in its own precision and in float64")
    return found


def _alike(values: Array) -> Array:
    """Up to which magnitude other elements tell how inexact an element is: beside huge ones, small ones are not.

    What lies near 0 by chance is among many that are not far larger; of 16 elements that are not 0, one is as small.
    """
    magnitude = np.where(np.isfinite(values), np.abs(values), 0.0)
    order = np.sort(magnitude[magnitude > 0], axis=None)
    few = order[order.size // 16] if order.size else 0.0
    return np.maximum(256 * magnitude, 32 * few)


def _largest(gap: Array, values: Array, limit: Array) -> Array:
    """For each element, the largest gap of the elements whose magnitude is not above its limit."""
    order, last = _below(values, limit)
    return np.maximum.accumulate(gap.reshape(-1)[order])[last].reshape(gap.shape)


def _mean(values: Array, limit: Array) -> Array:
    """For each element, its scale among the elements whose magnitude is not above its limit."""
    magnitude = np.where(np.isfinite(values), np.abs(values), 0.0)
    order, last = _below(values, limit)
    squares = np.cumsum(np.square(np.minimum(magnitude, 1e150)).reshape(-1)[order])
    return np.maximum(magnitude, np.sqrt(squares[last] / (last + 1)).reshape(values.shape))


def _below(values: Array, limit: Array) -> tuple[Array, Array]:
    """The elements by magnitude, and for each one the place in this order of the last that is not above its limit."""
    magnitude = np.where(np.isfinite(values), np.abs(values), 0.0).reshape(-1)
    order = np.argsort(magnitude)
    return order, np.maximum(np.searchsorted(magnitude[order], limit.reshape(-1), "right") - 1, 0)


def _gap(a: Array, b: Array) -> Array:
    return np.where(np.isfinite(a) & np.isfinite(b), np.abs(a - b), 0.0)


def distance(values: Array, others: Array) -> float:
    """How far apart two arrays are, at the element where they are farthest."""
    if values.shape != others.shape:
        return 0.0
    with np.errstate(all="ignore"):
        return float(_gap(values, others).max(initial=0.0))


def direct(name: str, a: Array, b: Array, grade: str) -> Judgement:
    """Two runs of the same shape compared with each other."""
    narrow = max((a.dtype, b.dtype), key=half_unit)
    with np.errstate(all="ignore"):
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        p, q = a.astype(wide), b.astype(wide)
        if one_sided(p, q).any():
            return Judgement(name, DIRECT, why=told(a, b, one_sided(p, q)))
        gap = np.where(np.isfinite(p), np.abs(p - q), 0.0)
        allowed = min(UNITS[grade] * half_unit(narrow), cap(narrow, grade)) * scale(p)
    found = Judgement(name, DIRECT, 0.0, 0.0, *nearest(gap, allowed))
    return replace(found, why=told(a, b, gap > allowed)) if (gap > allowed).any() else found


def apart(a: Array, b: Array) -> float:
    """How far two runs in float32 or double are apart, as a part of the scale; infinite where that cannot be said."""
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype.kind != "f" or half_unit(a.dtype) > SINGLE:
        return math.inf
    with np.errstate(all="ignore"):
        p, q = a.astype(np.float64), b.astype(np.float64)
        if one_sided(p, q).any():
            return math.inf
        gap, width = _gap(p, q), _mean(p, _alike(p))
        return float(np.where(gap > 0, gap / width, 0.0).max(initial=0.0))


def near(dtype: Any, seen: float) -> float:
    """How far apart two runs may be, as a part of the scale, of forms that twins showed to be the same function.

    Any form may be so far from its twin; and where runs that were judged by twins were `seen` to be apart, the largest
    errors of others are a few times as large.
    """
    return max(UNITS["exact"] * half_unit(dtype), min(TIMES["exact"] * seen, CAPS["float32"]["exact"]))


def one_sided(a: Array, b: Array) -> Array:
    """Where one is NaN or infinite and the other one is not the same."""
    finite = np.isfinite(a) & np.isfinite(b)
    return ~finite & ~((a == b) | (np.isnan(a) & np.isnan(b)))


def nearest(gap: Array, bound: Array) -> tuple[float, float]:
    """The difference that is the largest part of its bound, and that bound."""
    if not gap.size:
        return 0.0, 0.0
    with np.errstate(all="ignore"):
        parts = np.where(gap > 0, gap / bound, 0.0)
    at = np.unravel_index(int(np.argmax(parts)), gap.shape)
    return float(gap[at]), float(np.broadcast_to(bound, gap.shape)[at])


def told(a: Array, b: Array, wrong: Array) -> str:
    """The first element that is wrong, and how many there are."""
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = f" at {list(where)}" if where else ""
    return f"{b[where]} instead of {a[where]}{place}, {int(np.count_nonzero(wrong))} of {a.size} elements differ"


def is_float(value: Any) -> bool:
    """Whether a value is an array of floats, complex numbers included."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype.kind not in "fcV":
        return False
    return bool(dtype.kind != "V" or dtype.name == "bfloat16" or dtype.name.startswith("float8"))


def is_float8(value: Any) -> bool:
    return half_unit(value.dtype) > 2.0**-8
