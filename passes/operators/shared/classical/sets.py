"""Nodes that ask whether their feature is in a set of whole numbers, as trees split by categories.

LightGBM and XGBoost write a set as a chain of BRANCH_EQ. Where the numbers are few, a row looks up for all sets of a
feature at once whether it is in them, and a node compares what was found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.classical.forest import EQ, MEMBER, NEQ, Array, Forest
from opshift.passes.rewrite.builder import Builder

T = TensorProto
MOST_SETS = 8192  # a row of features takes four bytes for each


@dataclass
class Lookup:
    """A table of the sets of one feature: 0 where a number leads a node to its true branch, 1 where it does not."""

    feature: int
    least: int
    """The least number in any set."""
    table: Array
    """A row for each number from the least on, one for all other numbers, and one for NaN; a column for each set."""


def join_chains(forest: Forest) -> Forest:
    """Join chains of BRANCH_EQ on one feature that lead to the same node into one set each."""
    equal = (forest.modes == EQ) & ~np.isnan(forest.splits)
    following = np.where(equal & (forest.false >= 0), forest.false, 0)
    leading = np.concatenate([forest.true, forest.false, forest.roots])
    once = np.bincount(leading[leading >= 0], minlength=len(equal)) == 1
    linked = equal & (forest.false >= 0) & equal[following] & once[following]
    for column in (forest.features, forest.true, forest.tracks):
        linked &= column[following] == column
    if not linked.any():
        return forest
    joined = np.zeros(len(equal), bool)
    joined[following[linked]] = True
    modes, false, members = forest.modes.copy(), forest.false.copy(), dict(forest.members)
    for first in np.flatnonzero(linked & ~joined).tolist():
        chain = [first]
        while linked[chain[-1]]:
            chain.append(int(following[chain[-1]]))
        modes[first], false[first], members[first] = MEMBER, forest.false[chain[-1]], forest.splits[chain].tolist()
    kept = ~joined
    numbers = np.cumsum(kept) - 1

    def numbered(nodes: Array) -> Array:
        return np.where(nodes >= 0, numbers[np.maximum(nodes, 0)], nodes)

    return replace(
        forest,
        roots=numbered(forest.roots),
        features=forest.features[kept],
        modes=modes[kept],
        splits=forest.splits[kept],
        tracks=forest.tracks[kept],
        true=numbered(forest.true[kept]),
        false=numbered(false[kept]),
        members={int(numbers[at]): held for at, held in members.items()},
    )


def find_lookups(forest: Forest, most: int) -> tuple[list[Lookup], Array]:
    """Write sets as tables of `most` bytes together; returns these, and the column of each node (-1: it has none)."""
    exact = 2.0 ** (np.finfo(forest.splits.dtype).nmant + 1)
    sets: dict[int, dict[tuple[frozenset[float], bool, bool], list[int]]] = {}
    for at in np.flatnonzero(forest.modes >= EQ).tolist():
        values = frozenset(forest.members[at] if forest.modes[at] == MEMBER else [float(forest.splits[at])])
        if all(abs(value) < exact and value == int(value) for value in values):
            differs = bool(forest.modes[at] == NEQ)
            kind = values, differs, differs or bool(forest.tracks[at])  # NaN equals nothing
            sets.setdefault(int(forest.features[at]), {}).setdefault(kind, []).append(at)
    lookups, columns, taken = list[Lookup](), np.full(len(forest.modes), -1), 0
    for feature, (least, end) in sorted(_ranges(sets).items(), key=lambda item: item[1][1] - item[1][0]):
        held, rows = sets[feature], end - least + 2
        size = rows * len(held) * forest.splits.itemsize
        if size > most or rows > exact or taken + len(held) > MOST_SETS:
            continue
        most -= size
        table = np.ones((rows, len(held)), forest.splits.dtype)
        for column, ((values, differs, missing), nodes) in enumerate(held.items()):
            columns[nodes] = taken + column
            table[:, column] = not differs
            table[[int(value) - least for value in values], column] = differs
            table[-1, column] = not missing
        lookups.append(Lookup(feature, least, table))
        taken += len(held)
    return lookups, columns


def _ranges(sets: dict[int, dict[tuple[frozenset[float], bool, bool], list[int]]]) -> dict[int, tuple[int, int]]:
    """Find the least number in the sets of each feature, and the one behind the largest."""
    numbers = {feature: [value for values, _, _ in held for value in values] for feature, held in sets.items()}
    return {feature: (int(min(held)), int(max(held)) + 1) for feature, held in numbers.items()}


def look_up_sets(build: Builder, rows: str, elem_type: int, lookups: list[Lookup]) -> list[str]:
    """Add the Gathers that look up the sets of each feature; each yields a matrix with a column for each set."""
    sizes, leasts = (
        np.array([[held.table.shape[0] - 2 for held in lookups]]),
        np.array([[held.least for held in lookups]]),
    )
    x = build.Gather(rows, build.constant([held.feature for held in lookups], T.INT64), axis=1)
    least, end = build.constant(leasts, elem_type), build.constant(leasts + sizes, elem_type)
    inside = build.And(build.Not(build.Less(x, least)), build.Less(x, end))
    inside = build.And(inside, build.Not(build.Less(build.Floor(x), x)))
    places = build.Where(inside, build.Sub(x, least), build.constant(sizes, elem_type))
    if any((held.table[-1] != held.table[-2]).any() for held in lookups):
        places = build.Where(build.IsNaN(x), build.constant(sizes + 1, elem_type), places)
    places = build.Cast(places, to=T.INT32)
    return [
        build.Gather(build.constant(held.table, elem_type), build.Gather(places, at, axis=1), axis=0)
        for at, held in enumerate(lookups)
    ]
