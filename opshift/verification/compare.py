"""Compare the outputs of two runs."""

from __future__ import annotations

from typing import Any

from opshift.passes.records import dataclass
from opshift.verification.precision import unit

# How many units of the type's precision, at the scale of the tensor, two runs may be apart. `exact` leaves room
# for kernels of different versions that add in another order; `close` for another formula of the same function.
ULPS = {"exact": 32, "close": 4096}
NARROW = ("int2", "uint2", "int4", "uint4")  # integers that numpy knows as no kind


@dataclass(frozen=True)
class Difference:
    """How far two values are apart. `why` is empty if they agree."""

    why: str = ""
    absolute: float = 0.0
    relative: float = 0.0

    @property
    def equal(self) -> bool:
        return not self.why


def compare(expected: Any, actual: Any, grade: str = "exact") -> Difference:
    """Compare two outputs of the same name by a fixed tolerance of their type, without a look at what rounding does to
    them.

    Floats agree within `ULPS[grade]` units of their type's precision, relative to the largest finite magnitude of the
    slice they are compared in; NaN agrees with NaN, infinities with themselves. Numbers that are no whole ones and
    stand in strings are as close as in float32. Everything else is equal or not.
    """
    import numpy as np

    if expected is None or actual is None:
        return Difference("" if expected is actual else "only one model returns a value")
    if isinstance(expected, (list, tuple)) or isinstance(actual, (list, tuple)):
        return _compare_sequences(expected, actual, grade)
    if isinstance(expected, dict) or isinstance(actual, dict):
        both = isinstance(expected, dict) and isinstance(actual, dict)  # an array is not compared as a whole
        return Difference("" if both and expected == actual else "the maps differ")
    a, b = np.asarray(expected), np.asarray(actual)
    if a.shape != b.shape:
        return Difference(f"shape {list(b.shape)} instead of {list(a.shape)}")
    if a.dtype != b.dtype and not (a.dtype.kind in "OSU" and b.dtype.kind in "OSU"):
        return Difference(f"type {b.dtype} instead of {a.dtype}")
    if a.dtype.kind in "OSUb":
        if np.array_equal(a, b) or (grade == "close" and _spell_the_same(a, b)):
            return Difference()
        return Difference(_describe_first(a, b, a != b))
    if a.dtype.kind in "iu" or a.dtype.name in NARROW:
        wrong = a != b
        if not wrong.any():
            return Difference()
        gap = np.abs(a.astype(np.float64) - b.astype(np.float64))
        return Difference(
            _describe_first(a, b, wrong),
            float(gap.max()),
            float((gap / np.maximum(np.abs(a.astype(np.float64)), 1)).max()),
        )
    return _compare_floats(a, b, grade)


def identical(a: Any, b: Any) -> bool:
    """Whether two values are equal bit for bit. Every comparison begins with this."""
    import numpy as np

    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(identical, a, b))
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return type(a) is type(b) and not compare(a, b).why
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "OSU":
        return bool(a.tolist() == b.tolist())
    whole = f"u{a.itemsize}" if a.itemsize in (1, 2, 4, 8) else "u1"
    one, other = (np.ascontiguousarray(value).reshape(-1).view(whole) for value in (a, b))
    return bool(np.array_equal(one, other))


def _compare_sequences(expected: Any, actual: Any, grade: str) -> Difference:
    """Compare two sequences element by element; returns the largest difference. Used by `compare` for sequence
    outputs.
    """
    if not isinstance(expected, (list, tuple)) or not isinstance(actual, (list, tuple)):
        return Difference("only one model returns a sequence")
    if len(expected) != len(actual):
        return Difference(f"{len(actual)} elements instead of {len(expected)}")
    differences = [compare(a, b, grade) for a, b in zip(expected, actual, strict=True)]
    return max(differences, key=lambda d: (bool(d.why), d.absolute), default=Difference())


def _spell_the_same(a: Any, b: Any) -> bool:
    """Whether two arrays of strings differ only in numbers, by float32 rounding. Used by `compare` for string
    outputs.
    """
    import numpy as np

    fractions = [
        [text, other]
        for text, other in zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True)
        if text != other and not (_is_whole(text) and _is_whole(other))
    ]
    if len(fractions) < np.count_nonzero(a != b):
        return False
    try:
        read = np.array(fractions, np.float32)
    except ValueError:
        return False
    return not _compare_floats(read[:, 0], read[:, 1], "close").why


def _is_whole(text: Any) -> bool:
    return str(text).lstrip("+-").isdigit()


def _compare_floats(a: Any, b: Any, grade: str) -> Difference:
    """Compare two arrays of floats within the tolerance of the grade. Used by `compare` for float outputs."""
    import numpy as np

    precision = unit(a.dtype)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        x, y = a.astype(wide), b.astype(wide)
        finite = np.isfinite(x) & np.isfinite(y)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        gap = np.where(finite, np.abs(x - y), 0.0)
        magnitude = np.where(finite, np.abs(x), 0.0)
        scale = magnitude.max(initial=0.0) if a.ndim == 0 or a.size < 2 else _scale(magnitude)
        allowed = ULPS[grade] * precision * np.maximum(magnitude, scale)
        wrong = ~same & (~finite | (gap > allowed))
        relative = np.divide(gap, magnitude, out=np.zeros_like(gap), where=magnitude > 0)
    worst = float(gap.max(initial=0.0)), float(relative.max(initial=0.0))
    return Difference(_describe_first(a, b, wrong) if wrong.any() else "", *worst)


def _scale(magnitude: Any) -> Any:
    """Compute a typical magnitude, since sums that cancel are as inexact as their terms."""
    import numpy as np

    return np.sqrt(np.mean(np.square(np.minimum(magnitude, 1e150))))


def _describe_first(a: Any, b: Any, wrong: Any) -> str:
    """Describe the first element that differs, and count them all."""
    import numpy as np

    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    count = int(np.count_nonzero(wrong))
    place = f" at {list(where)}" if where else ""
    return f"{b[where]} instead of {a[where]}{place}, {count} of {a.size} elements differ"


def flat(value: Any) -> list[Any] | None:
    """List the arrays of a value, those of sequences too; None if an element is missing. Used where noise is
    measured.
    """
    if isinstance(value, list):
        inner = [flat(item) for item in value]
        return None if any(item is None for item in inner) else [leaf for item in inner for leaf in item or ()]
    return None if getattr(value, "dtype", None) is None else [value]
