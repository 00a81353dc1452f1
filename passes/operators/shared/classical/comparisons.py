"""All branch modes as one comparison: `x <= threshold`, or `x < threshold` where no node needs the other.

A node reads its feature as it is, or a copy with -infinity in the place of NaN. With `x <= t`, a NaN goes left in the
first and right in the second: the two serve missing values either way, and with the children swapped `x > t`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from opshift.passes.model.lazy_numpy import np
from opshift.passes.operators.shared.classical.forest import EQ, GT, GTE, LT, MEMBER, NEQ, Array, Forest


@dataclass
class Comparisons:
    """A node goes to `right` where the comparison holds, else to `left`; children are as in `Forest`."""

    strict: bool
    """Whether nodes ask for less, else for less or equal."""
    features: Array
    lowered: Array
    """Whether a node reads the copy of its feature in which NaN is -infinity."""
    thresholds: Array
    left: Array
    right: Array


@dataclass
class _Draft:
    """Nodes that are added to those of the forest, and changes of these."""

    size: int
    rows: dict[int, tuple[int, bool, bool, float, int, int]] = field(default_factory=dict)
    """Feature, lowered, strict, threshold, left, right."""

    def add(self, row: tuple[int, bool, bool, float, int, int], at: int | None = None) -> int:
        if at is None:
            at, self.size = self.size, self.size + 1
        self.rows[at] = row
        return at


def compared(forest: Forest) -> Comparisons:
    """The forest's nodes as comparisons; a node of another mode becomes several of them."""
    dtype, modes, t = forest.splits.dtype, forest.modes, forest.splits
    swapped = (modes == GTE) | (modes == GT)
    strict = (modes == LT) | (modes == GTE)
    lowered = forest.tracks != swapped
    left, right = np.where(swapped, forest.true, forest.false), np.where(swapped, forest.false, forest.true)
    draft = _Draft(len(modes))
    special = (modes >= EQ) | np.isnan(t) | (strict & lowered & np.isneginf(t))
    for at in np.flatnonzero(special).tolist():
        _write_out(draft, forest, at)
    size = draft.size
    features = _grown(forest.features, size)
    lowered, strict, t = _grown(lowered, size), _grown(strict, size), _grown(t, size)
    left, right = _grown(left, size), _grown(right, size)
    for at, row in draft.rows.items():
        features[at], lowered[at], strict[at], t[at], left[at], right[at] = row
    if not strict.all() and strict.any():
        never = strict & np.isneginf(t)
        below = np.nextafter(t, np.array(-np.inf, dtype))
        t = np.where(never, np.array(np.nan, dtype), np.where(strict, below, t))
        strict[:] = False
    return Comparisons(bool(size and strict.all()), features, lowered, t, left, right)


def _grown(column: Array, size: int) -> Array:
    return np.concatenate([column, np.zeros(size - len(column), column.dtype)])


def _write_out(draft: _Draft, forest: Forest, at: int) -> None:
    """Put several comparisons in the place of a node; the first stands where the node stood."""
    mode, feature, t = int(forest.modes[at]), int(forest.features[at]), float(forest.splits[at])
    true, false, tracks = int(forest.true[at]), int(forest.false[at]), bool(forest.tracks[at])
    if mode == NEQ:  # NaN equals nothing, whether it counts as missing or not
        true, false, tracks = false, true, False
    if mode == MEMBER:
        members = sorted(set(forest.members[at]))
        if tracks:
            _test_nan(draft, feature, true, _search(draft, feature, members, true, false), at)
        else:
            _search(draft, feature, members, true, false, at)
    elif t != t or (mode < EQ and np.isneginf(t)):
        otherwise = true if mode in (GTE, GT) and t == t else false
        _test_nan(draft, feature, true if tracks else false, otherwise, at)
    elif tracks:
        draft.add((feature, False, True, t, draft.add((feature, True, False, t, false, true)), false), at)
    else:
        _test_equal(draft, feature, t, true, false, at)


def _test_nan(draft: _Draft, feature: int, missing: int, otherwise: int, at: int) -> None:
    draft.add((feature, False, False, np.inf, missing, otherwise), at)


def _test_equal(draft: _Draft, feature: int, t: float, true: int, false: int, at: int | None) -> int:
    """At most t, and then not less than t; NaN goes to `false`."""
    return draft.add((feature, False, False, t, false, draft.add((feature, False, True, t, true, false))), at)


def _search(draft: _Draft, feature: int, members: list[float], true: int, false: int, at: int | None = None) -> int:
    """Look for the feature among sorted members, by halves; NaN goes to `false`."""
    if len(members) == 1:
        return _test_equal(draft, feature, members[0], true, false, at)
    middle = len(members) // 2
    right = _search(draft, feature, members[:middle], true, false)
    left = _search(draft, feature, members[middle:], true, false)
    return draft.add((feature, False, True, members[middle], left, right), at)
