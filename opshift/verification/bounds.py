"""The tolerances: how far apart two forms of a computation may be, each factor with its reason.

The scale of an element is its magnitude, but at least the root of the mean square of its tensor: sums that cancel are
as inexact as what went into them. `u` is half a unit of the last place: 2^-53 for float64, 2^-24, 2^-11 and 2^-8 for
float32, float16 and bfloat16. Noise is how far the first form moves when its inputs move by u: the second form may be
as far away.

Two forms may differ by `UNITS[grade]` times u of the scale, plus `TIMES[grade]` times the noise, but at most by `CAPS`
times the scale; by `ANYWAY` times the noise in any case. Where noise is known, `UNITS["exact"]` is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np
from onnx import numpy_helper

from opshift.passes.model import tensor_data
from opshift.passes.model.messages import GraphProto, ModelProto, TensorProto, copy_model
from opshift.passes.model.traversal import bodies
from opshift.passes.records import dataclass, replace
from opshift.verification.precision import unit
from opshift.verification.tolerances import Tolerance

Array = Any

TIMES = {"exact": 4, "close": 16}
"""The noise is one sample: another may be a few times as large; `close` formulas also round more often."""

ANYWAY = 2
"""The largest errors of two samples differ by less than this factor."""

FAR, MOST = 0.05, 0.5
"""Two values are unrelated if more than half (`MOST`) of the elements differ by more than 5 % of the scale (`FAR`)."""

MASKS = 1000
"""They are also unrelated if the largest numbers differ by this factor, such as masks of -1e9 and of -3e38."""

UNITS = {"exact": 64, "close": 8192}
"""So many roundings are always allowed, even if the source happens to have no noise."""

CAPS = {
    "float16": {"exact": 0.01, "close": 0.02},
    "bfloat16": {"exact": 0.02, "close": 0.02},
    "float32": {"exact": 1e-4, "close": 1e-3},
}
"""The largest differences, relative to the scale, unless the source itself has more noise."""

FLIPS = 0.05
"""The share of integers, booleans and strings that may differ if rounding decides them."""

NARROW = ("int2", "uint2", "int4", "uint4")
"""Integer types that numpy does not have."""


@dataclass(frozen=True)
class Closeness:
    """How close two values are, and what is allowed.

    Attributes:
        why: what is wrong; empty if they agree.
        difference: the difference at the element that is closest to its bound.
        allowed: the bound there.
        is_same: whether they are the same, bit for bit.
        is_other: whether they are unrelated: most elements are far apart.
        part: the share of elements that are wrong.
        place: which of several values it is.
        counted: whether both are numbers of elements: of integers, those that are other ones.
    """

    why: str = ""
    difference: float = 0.0
    allowed: float = 0.0
    is_same: bool = True
    is_other: bool = False
    part: float = 0.0
    place: int = 0
    counted: bool = False

    @property
    def share(self) -> float:
        """How much of the allowance is used."""
        return self.difference / self.allowed if self.allowed else float(self.difference > 0)

    def worse(self, other: Closeness) -> Closeness:
        """Combine two results into the worse one: the wrong one, or the one closer to its bound."""
        worst = self if self.why or (self.share >= other.share and not other.why) else other
        is_same, is_other = self.is_same and other.is_same, self.is_other or other.is_other
        return replace(worst, is_same=is_same, is_other=is_other, part=max(self.part, other.part))


SAME = Closeness()


@dataclass(frozen=True)
class Runs:
    """The results of one value in two forms, and how much rounding may move it.

    Attributes:
        before, after: the results, in their own precision.
        moved: results of the first form on inputs that were moved by one rounding.
        step: the quantization step, if both forms compute the value from quantized integers.
        summed: the sum of the magnitudes that the source adds, which may cancel; 0 if unknown.
        added: how many numbers the source adds, each with a rounding; 0 if unknown.
        anyway: this many times the noise is allowed whatever the cap.
    """

    before: Any
    after: Any
    moved: tuple[Any, ...] = ()
    step: float = 0.0
    summed: float = 0.0
    added: int = 0
    anyway: int = ANYWAY


def compare(a: Any, b: Any, grade: str = "exact") -> Closeness:
    """Compare two values without knowing their noise."""
    return judge(Runs(a, b), grade)


def identical(a: Any, b: Any) -> bool:
    """Whether two values are equal bit for bit. Every comparison begins with this."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(identical, a, b))
    if not isinstance(a, (np.ndarray, np.generic)) or not isinstance(b, (np.ndarray, np.generic)):
        return type(a) is type(b) and bool(a == b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "OSU":
        return bool(a.tolist() == b.tolist())
    whole = f"u{a.itemsize}" if a.itemsize in (1, 2, 4, 8) else "u1"
    one, other = (np.ascontiguousarray(value).reshape(-1).view(whole) for value in (a, b))
    return bool(np.array_equal(one, other))


def judge(runs: Runs, grade: str) -> Closeness:
    """Compare the results of two forms of one computation, within what the grade allows.

    The proof calls this for each output of a region. Floats are judged by the bounds above; everything else is equal,
    or decided otherwise by rounding.
    """
    a, b = runs.before, runs.after
    if identical(a, b):
        return SAME
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        worst = SAME
        for one, other in zip(a, b, strict=True):
            worst = worst.worse(judge(Runs(one, other), grade))
        return worst
    if why := _is_other_kind(a, b):
        return Closeness(why, is_same=False, is_other=True)
    if not is_float(a):
        return _judge_decisions(runs)
    found = _judge_floats(runs, grade)
    if found.why and a.size:
        least, most = sorted(float(np.abs(value).max()) for value in (a, b))
        found = replace(found, is_other=found.is_other or most > MASKS * least)
    return found


def _is_other_kind(a: Any, b: Any) -> str:
    """Say why two values cannot be compared element by element; empty if they can."""
    if a is None or b is None:
        return "only one model returns a value"
    if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
        both = isinstance(a, (list, tuple)) and isinstance(b, (list, tuple))
        return f"{len(b)} elements instead of {len(a)}" if both else "only one model returns a sequence"
    if isinstance(a, dict) or isinstance(b, dict):
        return "the maps differ"
    if a.shape != b.shape:
        return f"shape {list(b.shape)} instead of {list(a.shape)}"
    is_same_type = a.dtype == b.dtype or (a.dtype.kind in "OSU" and b.dtype.kind in "OSU")
    return "" if is_same_type else f"type {b.dtype} instead of {a.dtype}"


def _judge_decisions(runs: Runs) -> Closeness:
    """Compare integers, booleans and strings: they must be equal, except where rounding decides.

    Runs for outputs that are no floats.
    """
    a, b = runs.before, runs.after
    apart = np.asarray(a != b)
    if not apart.any():
        return SAME
    why, is_other = describe_first_wrong(a, b, apart), float(np.mean(apart)) > MOST
    if a.dtype.kind in "OSU":
        return Closeness(why, is_same=False, is_other=is_other)
    others = [np.asarray(a != one) for one in runs.moved if getattr(one, "shape", None) == a.shape]
    allowed = TIMES["close"] * float(max(map(np.count_nonzero, others), default=0))
    if runs.step:
        allowed = max(allowed, 1.0, FLIPS * a.size)
    gap = np.abs(a.astype(np.float64) - b.astype(np.float64)) if a.dtype.kind != "b" else apart
    if runs.step and (float(np.max(gap)) > 1 or _leans(a, b)):
        return Closeness(why, is_same=False, is_other=is_other)
    count = float(np.count_nonzero(apart))
    part = count / a.size
    why = "" if count <= allowed else why
    return Closeness(why, count, allowed, is_same=False, is_other=is_other, part=part, counted=True)


def _leans(a: Array, b: Array) -> bool:
    """Whether the quantization steps that differ in one channel all go one way.

    Asked if quantized outputs differ by single steps.

    Rounding goes both ways, so that is an error.
    """
    signs = np.sign(b.astype(np.float64) - a.astype(np.float64))
    rows = np.moveaxis(signs, 1, 0).reshape(signs.shape[1], -1) if signs.ndim > 1 else signs.reshape(1, -1)
    up, down = (np.count_nonzero(rows == sign, axis=1) for sign in (1, -1))
    return bool(((np.maximum(up, down) >= _LEANING) & (np.minimum(up, down) * 20 <= np.maximum(up, down))).any())


_LEANING = 12


def _judge_floats(runs: Runs, grade: str) -> Closeness:
    """Compare floats by the bounds above. Runs where they are not the same."""
    a, b = runs.before, runs.after
    with np.errstate(all="ignore"):
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        p, q = a.astype(wide), b.astype(wide)
        if grade == "close":
            p, q = _with_infinities(a, p), _with_infinities(b, q)
        sides = one_sided(p, q)
        if sides.any():
            return Closeness(describe_first_wrong(a, b, sides), is_same=False)
        width, gap = scale(p), _gap(p, q)
        narrow = _narrowest(runs)
        most = cap(narrow, grade) * width
        noise = max((_apart(p, one) for one in runs.moved), default=0.0)
        units = max(UNITS["exact" if runs.moved else grade], runs.added)
        allowed = np.minimum(units * half_unit(narrow) * width + TIMES[grade] * noise, most)
        allowed = np.maximum(allowed, runs.anyway * noise)
        allowed = np.maximum(allowed, half_unit(narrow) * runs.summed)
        if runs.step:
            allowed = np.maximum(allowed, runs.step * (1 + 2.0**-10))
        wrong = gap > allowed
    return _closeness(describe_first_wrong(a, b, wrong) if wrong.any() else "", gap, allowed, width, wrong)


def _closeness(why: str, gap: Array, allowed: Array, width: Array, wrong: Array) -> Closeness:
    """Make the result of a comparison: the element closest to its bound, and how many are wrong.

    Every comparison ends with this.
    """
    shown = np.minimum(gap, allowed)  # what is excused otherwise uses up no more than that
    shown = np.where(wrong, gap, shown) if wrong.any() else shown
    part = float(np.mean(wrong)) if wrong.size else 0.0
    is_other = bool(np.count_nonzero(gap > FAR * width) > MOST * gap.size)
    return Closeness(why, *nearest(shown, allowed), is_same=False, is_other=is_other, part=part)


def judge_outputs(before: Any, after: Any, grade: str, moved: tuple[Any, ...] = ()) -> Closeness:
    """Compare outputs of whole models, where the rounding of many regions may add up. Runs for each output.

    `moved` are the same output of the first model, with inputs and weights changed by one rounding each. The second
    model may be `TIMES["close"]` times as far away as these are.
    """
    closeness = judge(Runs(before, after), grade)
    if not closeness.why or not moved:
        return closeness
    return judge(Runs(before, after, moved=moved, anyway=TIMES["close"]), grade)


def judge_by_user(a: Any, b: Any, tolerance: Tolerance) -> Closeness:
    """Compare an output by the user's tolerance (`--rtol`, `--atol`); integers, NaN and infinities must be equal."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        worst = SAME
        for one, other in zip(a, b, strict=True):
            worst = worst.worse(judge_by_user(one, other, tolerance))
        return worst
    if not (_is_numbers(a) and _is_numbers(b)) or a.shape != b.shape or _is_whole(a) != _is_whole(b):
        return Closeness(compare(a, b).why, is_same=False)
    with np.errstate(all="ignore"):
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        p, q = a.astype(wide), b.astype(wide)
        sides = one_sided(p, q)
        gap = np.where(np.isfinite(p) & np.isfinite(q), np.abs(p - q), 0.0)
        if _is_whole(a):
            gap = np.maximum(gap, a != b)  # integers that differ by less than float64 shows
        allowed = np.where(np.isfinite(p), tolerance.atol + tolerance.rtol * np.abs(p), tolerance.atol)
    wrong = sides | (gap > allowed)
    why = f"{describe_first_wrong(a, b, wrong)} by more than {tolerance}" if wrong.any() else ""
    return Closeness(why, *nearest(gap, allowed), is_same=False)


def measure(a: Any, b: Any) -> tuple[float, float]:
    """Measure the largest difference of two values, absolute and as a part of the first one. Reports show it."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return max(map(measure, a, b), default=(0.0, 0.0))
    if not (_is_numbers(a) and _is_numbers(b)) or a.shape != b.shape or not a.size:
        return 0.0, 0.0
    with np.errstate(all="ignore"):
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        p = a.astype(wide)
        gap, magnitude = _gap(p, b.astype(wide)), np.abs(p)
        magnitude = np.maximum(magnitude, 1) if _is_whole(a) else magnitude
        return float(gap.max()), float(np.where(magnitude > 0, gap / magnitude, 0.0).max())


def _is_whole(value: Any) -> bool:
    return value.dtype.kind in "iu" or value.dtype.name in NARROW


def _is_numbers(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is not None and (dtype.kind in "fciuV" or dtype.name in NARROW)


def _narrowest(runs: Runs) -> Any:
    return max(runs.before.dtype, runs.after.dtype, key=half_unit)


def half_unit(dtype: Any) -> float:
    """Half a unit in the last place of 1."""
    return unit(dtype) / 2


def cap(dtype: Any, grade: str) -> float:
    """The largest difference that is allowed whatever the noise, relative to the scale. No tolerance goes beyond it."""
    u = half_unit(dtype)
    return 2 * u if u > 2.0**-8 else CAPS.get(dtype.name, CAPS["float32"])[grade]


def scale(values: Array) -> Array:
    """The scale of each element: its magnitude, but at least the root mean square of the array.

    Tolerances are relative to it.
    """
    magnitude = np.abs(values)
    if not (most := magnitude.max(initial=0.0)) <= 1e150:
        magnitude = np.where(np.isfinite(magnitude), magnitude, 0.0)
    if magnitude.size < 2:
        return magnitude
    return np.maximum(
        magnitude, np.sqrt(np.mean(np.square(magnitude if most <= 1e150 else np.minimum(magnitude, 1e150))))
    )


def _gap(a: Array, b: Array) -> Array:
    gap = np.abs(a - b)
    return gap if np.isfinite(gap).all() else np.where(np.isfinite(a) & np.isfinite(b), gap, 0.0)


def _apart(a: Array, b: Any) -> float:
    """Compute the largest difference of two values; 0 if they cannot be compared.

    Measures the noise of a run.
    """
    if getattr(b, "shape", None) != a.shape or not is_float(b):
        return 0.0
    return float(_gap(a, b.astype(a.dtype)).max(initial=0.0))


def one_sided(a: Array, b: Array) -> Array:
    """Mark elements where one array is NaN or infinite and the other differs.

    Such elements are wrong in every comparison.
    """
    finite = np.isfinite(a) & np.isfinite(b)
    if finite.all():
        return np.zeros(finite.shape, bool)
    return ~finite & ~((a == b) | (np.isnan(a) & np.isnan(b)))


def _with_infinities(values: Array, wide: Array) -> Array:
    """Replace numbers within two roundings of the largest of their type by infinity, which they mean.

    onnxruntime masks scores with them, and adds scores to them. They are no scale.
    """
    if values.dtype.kind != "f" or values.dtype.itemsize < 2:
        return wide
    limits = np.finfo(values.dtype)
    largest = float(limits.max) * (1 - 2 * float(limits.eps))
    if wide.max(initial=0.0) < largest and wide.min(initial=0.0) > -largest:
        return wide
    return np.where(np.abs(wide) >= largest, np.copysign(np.inf, wide), wide)


def is_only_one_infinite(a: Any, b: Any) -> bool:
    """Check if one array has an infinity where the other has a number, which a tolerance may accept.

    Called for values inside a model. The outputs may still be the same, so the proof then compares more nodes at once.
    """
    return is_float(a) and is_float(b) and a.shape == b.shape and bool((np.isinf(a) != np.isinf(b)).any())


def nearest(gap: Array, allowed: Array) -> tuple[float, float]:
    """Find the difference that uses most of its allowance; returns both. Reports show this pair."""
    if not gap.size:
        return 0.0, 0.0
    with np.errstate(all="ignore"):
        parts = np.divide(gap, allowed, out=np.zeros(gap.shape), where=gap > 0)
    at = np.unravel_index(int(np.argmax(parts)), gap.shape)
    return float(gap[at]), float(np.broadcast_to(allowed, gap.shape)[at])


def describe_first_wrong(a: Array, b: Array, wrong: Array) -> str:
    """Describe the first wrong element, and count them."""
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = f" at {list(where)}" if where else ""
    return f"{b[where]} instead of {a[where]}{place}, {int(np.count_nonzero(wrong))} of {a.size} elements differ"


def is_float(value: Any) -> TypeGuard[Array]:
    """Whether a value is an array of floats, complex numbers included."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype.kind not in "fcV":
        return False
    return bool(dtype.kind != "V" or dtype.name == "bfloat16" or dtype.name.startswith("float8"))


def is_all_nan(values: Iterable[Any]) -> bool:
    """Whether there are floats, and all of them are NaN. A run that yields this proves nothing."""
    floats = [value for value in values if is_float(value) and value.size]
    floats = [value if value.dtype.kind in "fc" else value.astype(np.float32) for value in floats]
    return bool(floats) and all(np.isnan(value.flat[0]) and np.isnan(value).all() for value in floats)


def move_by_rounding(value: Any, seed: int) -> Any:
    """Move each float of a value by up to one rounding, up or down at random.

    Shows how much rounding alone moves an output.
    """
    if not is_float(value) or not value.size:
        return value
    rng = np.random.default_rng(seed)
    unit = 2 * half_unit(value.dtype)
    with np.errstate(all="ignore"):
        moved = value * (1 + unit * rng.choice([-1.0, 1.0], value.shape))
    return np.asarray(moved, value.dtype)  # also of a single number, of which numpy makes no array


_WIDEST = 1 << 26
"""Elements of weights that are moved by a rounding, at most."""


def move_weights(model: ModelProto, seed: int) -> ModelProto:
    """Copy a model with its float weights moved by one rounding, as far as they are in memory.

    Runs if outputs differ by more than rounding of their type.
    """
    moved = copy_model(model)
    for body in bodies(moved):
        constants = (attribute.t for node in body.node if node.op_type == "Constant" for attribute in node.attribute)
        for tensor in (*(body.initializer if isinstance(body, GraphProto) else ()), *constants):
            floats = (TensorProto.FLOAT, TensorProto.FLOAT16)
            is_here = tensor.data_type in floats and not tensor_data.is_stored(tensor)
            if is_here and 4 < math.prod(tensor.dims) < _WIDEST:
                value = move_by_rounding(numpy_helper.to_array(tensor), seed)
                tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    return moved
