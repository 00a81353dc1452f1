"""All branch modes as one comparison: `x < threshold`, where `x <= t` asks for less than the next number.

A node reads its feature as it is, or its negative; or one of both with -infinity in the place of NaN. With `x < t`, a
NaN goes left in the first and right in the second: the two serve missing values either way, and with the children
swapped `x >= t`. As engines may take the number after 0 for 0, `x <= 0` asks whether the negative is less than 0.
Whether a feature is in a set is looked up before, where the set is of whole numbers; otherwise it is searched for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from opshift.passes.model.lazy_numpy import np
from opshift.passes.operators.shared.classical.forest import EQ, GT, GTE, LEQ, MEMBER, NEQ, Array, Forest
from opshift.passes.operators.shared.classical.sets import Lookup, find_lookups

LOWERED, NEGATIVE, LOOKED_UP = 1, 2, 4
"""Bits that say how a node reads its feature: with -infinity for NaN (1), negated (2), or from a table (4)."""


@dataclass
class Comparisons:
    """A node goes to `right` where the comparison holds, else to `left`; children are as in `Forest`."""

    features: Array
    forms: Array
    thresholds: Array
    left: Array
    right: Array
    lookups: list[Lookup]


@dataclass
class _Node:
    """One comparison."""

    feature: int
    form: int
    threshold: float
    left: int
    right: int


@dataclass
class _Draft:
    """Nodes that are added to those of the forest, and changes of these."""

    size: int
    nodes: dict[int, _Node] = field(default_factory=dict)

    def add(self, node: _Node, at: int | None = None) -> int:
        if at is None:
            at, self.size = self.size, self.size + 1
        self.nodes[at] = node
        return at


def read_comparisons(forest: Forest, most: int) -> Comparisons:
    """The forest's nodes as comparisons, sets in tables of `most` bytes at most; a node may become several of them."""
    modes, t = forest.modes, forest.splits
    infinity = np.array(np.inf, t.dtype)
    swapped = (modes == GTE) | (modes == GT)
    including = (modes == LEQ) | (modes == GT)
    forms = np.where(forest.tracks != swapped, LOWERED, 0)
    left: Array = np.where(swapped, forest.true, forest.false)
    right: Array = np.where(swapped, forest.false, forest.true)
    thresholds = np.where(including, np.nextafter(t, infinity), t)
    zero = including & (t == 0)  # which is at least the negative, so that all is the other way round
    forms, thresholds = np.where(zero, forms ^ LOWERED | NEGATIVE, forms), np.where(zero, np.zeros_like(t), thresholds)
    left, right = np.where(zero, right, left), np.where(zero, left, right)
    lowered = (forms & LOWERED) > 0
    lookups, columns = find_lookups(forest, most)
    found = columns >= 0
    special = (modes >= EQ) | np.isnan(t) | (including & (t == infinity)) | (lowered & (thresholds == -infinity))
    special &= ~found
    draft = _Draft(len(modes))
    for at in np.flatnonzero(special).tolist():
        _write_out(draft, forest, at)
    features, forms = np.where(found, columns, forest.features), np.where(found, LOOKED_UP, forms)
    thresholds = np.where(found, np.array(0.5, t.dtype), thresholds)
    grown = [_grow(column, draft.size) for column in (features, forms, thresholds, left, right)]
    for at, node in draft.nodes.items():
        for column, value in zip(grown, vars(node).values(), strict=True):
            column[at] = value
    return Comparisons(grown[0], grown[1], grown[2], grown[3], grown[4], lookups)


def _grow(column: Array, size: int) -> Array:
    return np.concatenate([column, np.zeros(size - len(column), column.dtype)])


def _write_out(draft: _Draft, forest: Forest, at: int) -> None:
    """Put several comparisons in the place of a node; the first stands where the node stood."""
    mode, feature, t = int(forest.modes[at]), int(forest.features[at]), float(forest.splits[at])
    true, false, tracks = int(forest.true[at]), int(forest.false[at]), bool(forest.tracks[at])
    if mode == NEQ:  # NaN equals nothing, whether it counts as missing or not
        true, false, tracks = false, true, False
    missing = true if tracks else false
    if mode == MEMBER:
        members = sorted(set(forest.members[at]))
        if tracks:
            _test_nan(draft, feature, missing, _search(draft, feature, members, true, false), at)
        else:
            _search(draft, feature, members, true, false, at)
    elif mode in (EQ, NEQ) and t == t:
        if tracks:
            above = draft.add(_Node(feature, NEGATIVE, -t, true, false))
            draft.add(_Node(feature, 0, t, above, false), at)
        else:
            _test_equal(draft, feature, t, true, false, at)
    else:  # all numbers go one way: by what is compared with NaN, or at one of the ends
        always = t == t and (mode in (LEQ, GTE))
        _test_nan(draft, feature, missing, true if always else false, at)


def _test_nan(draft: _Draft, feature: int, missing: int, otherwise: int, at: int) -> None:
    """What is less than infinity is a number, and what is negative less than infinity."""
    infinite = draft.add(_Node(feature, NEGATIVE, np.inf, missing, otherwise))
    draft.add(_Node(feature, 0, np.inf, infinite, otherwise), at)


def _test_equal(draft: _Draft, feature: int, t: float, true: int, false: int, at: int | None) -> int:
    """Not less than t, and then not more; NaN goes to `false`."""
    if t == np.inf:  # of which nothing is more: what is left are infinity and NaN
        above = draft.add(_Node(feature, NEGATIVE, np.inf, false, true))
    else:
        above = draft.add(_Node(feature, NEGATIVE | LOWERED, -t, true, false))
    return draft.add(_Node(feature, 0, t, above, false), at)


def _search(draft: _Draft, feature: int, members: list[float], true: int, false: int, at: int | None = None) -> int:
    """Look for the feature among sorted members, by halves; NaN goes to `false`."""
    if len(members) == 1:
        return _test_equal(draft, feature, members[0], true, false, at)
    middle = len(members) // 2
    right = _search(draft, feature, members[:middle], true, false)
    left = _search(draft, feature, members[middle:], true, false)
    return draft.add(_Node(feature, 0, members[middle], left, right), at)
