"""What the leaves that rows of features come to add up to, for each target that has votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.classical.choices import Choices, is_faster
from opshift.passes.operators.shared.classical.comparisons import read_comparisons
from opshift.passes.operators.shared.classical.forest import Array, Forest
from opshift.passes.operators.shared.classical.sets import join_chains
from opshift.passes.operators.shared.classical.tables import Tables, arrange
from opshift.passes.operators.shared.classical.traversal import Rows, leaves_reached, look_up
from opshift.passes.rewrite.builder import Builder

T = TensorProto
SUM, AVERAGE, MIN, MAX = "SUM", "AVERAGE", "MIN", "MAX"
NOTHING = {MIN: np.inf, MAX: -np.inf}
"""What a missing vote counts as, where it is not 0."""


class Voted(Protocol):
    """Whether rows have votes for targets: True or False for all, else a matrix of booleans with a column for each.

    Nothing is looked up where it is only to be told that rows differ.
    """

    def __call__(self, asked: list[int], told: bool = False) -> str | bool: ...


@dataclass
class Totals:
    """The aggregated votes of rows of features."""

    targets: list[int]
    """The targets that leaves vote for, in order."""
    values: str
    """A matrix with a row for each row of features, a column for each of these targets."""
    voted: Voted
    """Whether rows have votes for targets."""


@dataclass
class _Votes:
    """The votes of all leaves, one at most for each leaf and target."""

    leaves: Array
    targets: Array
    """Positions among the targets that have votes."""
    weights: Array
    count: int


def totals(
    build: Builder,
    rows: str,
    elem_type: int,
    width: int | None,
    forest: Forest,
    aggregate: str,
    wide: int,
    most: int,
    *,
    elements: bool,
) -> Totals:
    """The totals of the rows: compared in the type `kind`, added up in `wide`, in tables of `most` bytes at most.

    `elements` tells that there is GatherElements to look them up with.
    """
    targets = np.unique(forest.vote_targets)
    if not len(targets):
        return Totals([], "", lambda asked, told=False: False)
    votes = _merge(forest, targets, aggregate)
    forest = join_chains(forest)
    nodes = read_comparisons(forest, max(most, 4096))
    order = np.arange(len(forest.roots))
    tables = arrange(forest.roots, nodes, order)
    owners = _targets_of_trees(tables, votes)
    if owners is not None:
        together = _order_of_trees(owners)
        if (np.diff(together) < 0).any():
            order, owners = together, owners[together]
            tables = arrange(forest.roots, nodes, order)
    if not elements and is_faster(len(nodes.left), len(forest.roots), tables.depth):
        roots = forest.roots[order]
        walk = _Reached(build, tables, "", Choices(build, rows, elem_type, width, roots, nodes))
    else:
        slots = leaves_reached(build, Rows(build, rows, elem_type, nodes, width), elem_type, nodes, tables)
        walk = _Reached(build, tables, slots)
    if owners is not None:
        values = _by_tree(walk, votes, owners, aggregate, wide)
    else:
        values = _by_leaf(walk, votes, aggregate, wide, most)
    if aggregate == AVERAGE:
        values = build.Div(values, build.constant(float(len(forest.roots)), wide))
    return Totals(targets.tolist(), values, lambda asked, told=False: _find_voted(walk, votes, targets, asked, told))


class _Reached:
    """Looks up what is held for the leaves that were reached."""

    def __init__(self, build: Builder, tables: Tables, slots: str, choices: Choices | None = None):
        self.build = build
        self.leaves = tables.leaves
        self.trees = tables.trees
        self.count = tables.ends[0]
        self._slots = slots
        self._choices = choices

    def look_up(self, values: Array, elem_type: int) -> str:
        """Of values for each slot, those of the leaves: a vector."""
        if self._choices is not None:
            held, real = np.zeros(int(self.leaves.max()) + 1, values.dtype), self.leaves >= 0
            held[self.leaves[real]] = values[real]
            return self._choices.choose(held, elem_type)
        return look_up(self.build, self.build.constant(values, elem_type), self._slots)

    def by_leaf(self, values: Array, other: float) -> Array:
        """Values for each leaf as values for each slot."""
        return np.where(self.leaves >= 0, values[np.maximum(self.leaves, 0)], np.array(other, values.dtype))


def _find_voted(walk: _Reached, votes: _Votes, targets: Array, asked: list[int], told: bool) -> str | bool:
    """Nothing is looked up for a target that each leaf of some tree votes for."""
    build, real = walk.build, walk.leaves >= 0
    casts = np.zeros((max(int(walk.leaves.max()), int(votes.leaves.max())) + 1, len(asked)), bool)
    for column, target in enumerate(asked):
        casts[votes.leaves[targets[votes.targets] == target], column] = True
    cast = casts[walk.leaves[real]]
    silent = np.zeros((walk.count, len(asked)), np.int64)
    np.add.at(silent, walk.trees[real], ~cast)
    always = (silent == 0).any(axis=0)
    if always.all() or not cast.any() or told:
        return bool(always.all()) if always.all() or not cast.any() else ""
    leaf = walk.look_up(np.maximum(walk.leaves, 0), T.INT32)
    found = build.Gather(build.constant(casts | always, T.FLOAT), leaf, axis=0)
    found = build.ReduceMax(build.Reshape(found, [-1, walk.count, len(asked)]), [1], keepdims=0)
    return str(build.Greater(found, build.constant(0.0, T.FLOAT)))


def _merge(forest: Forest, targets: Array, aggregate: str) -> _Votes:
    """Several votes of a leaf for one target as one."""
    places = np.searchsorted(targets, forest.vote_targets)
    keys, at = np.unique(forest.vote_leaves * len(targets) + places, return_inverse=True)
    weights = np.full(len(keys), NOTHING.get(aggregate, 0.0), forest.vote_weights.dtype)
    {MIN: np.minimum, MAX: np.maximum}.get(aggregate, np.add).at(weights, at, forest.vote_weights)
    return _Votes(keys // len(targets), keys % len(targets), weights, len(targets))


def _targets_of_trees(tables: Tables, votes: _Votes) -> Array | None:
    """The target of each tree, if each votes for one at most; else None."""
    if votes.count == 1:
        return np.zeros(tables.ends[0], np.int64)
    real = tables.leaves >= 0
    first = np.full(max(int(tables.leaves.max()), int(votes.leaves.max())) + 1, -1, np.int64)
    first[votes.leaves] = votes.targets
    if len(np.unique(votes.leaves)) < len(votes.leaves):
        return None
    target, tree = first[tables.leaves[real]], tables.trees[real]
    owners = np.full(tables.ends[0], -1, np.int64)
    owners[tree[target >= 0]] = target[target >= 0]
    return np.maximum(owners, 0) if (owners[tree][target >= 0] == target[target >= 0]).all() else None


def _order_of_trees(owners: Array) -> Array:
    """A tree for each target, then the next for each, if there are as many for all; else all of a target together."""
    order = np.argsort(owners, kind="stable")
    sizes = np.bincount(owners)
    return order.reshape(len(sizes), -1).T.ravel() if (sizes == sizes[0]).all() else order


def _by_tree(walk: _Reached, votes: _Votes, owners: Array, aggregate: str, wide: int) -> str:
    """Each tree votes for one target: what is looked up is added in turn, or in blocks."""
    build, nothing = walk.build, NOTHING.get(aggregate, 0.0)
    weights = np.full(max(int(walk.leaves.max()), int(votes.leaves.max())) + 1, nothing, votes.weights.dtype)
    weights[votes.leaves] = votes.weights
    cast = walk.look_up(walk.by_leaf(weights, 0.0), wide)
    sizes = np.bincount(owners, minlength=votes.count)
    if (sizes == sizes[0]).all():
        if votes.count == 1:
            return _reduce(build, aggregate, build.Reshape(cast, [-1, walk.count]), 1, keepdims=1)
        # the last axis is not the one to add along: OpenVINO 2026.4 then adds base values in the wrong places
        return _reduce(build, aggregate, build.Reshape(cast, [-1, int(sizes[0]), votes.count]), 1)
    cast = build.Reshape(cast, [-1, walk.count])
    if aggregate in (SUM, AVERAGE) and np.isfinite(weights).all():
        chosen = owners[:, None] == np.arange(votes.count)
        return str(build.MatMul(cast, build.constant(chosen.astype(weights.dtype), wide)))
    ends = np.cumsum(sizes).tolist()
    parts = [build.Slice(cast, [end - size], [end], [1]) for end, size in zip(ends, sizes.tolist(), strict=True)]
    return str(build.Concat(*(_reduce(build, aggregate, part, 1, keepdims=1) for part in parts), axis=1))


def _by_leaf(walk: _Reached, votes: _Votes, aggregate: str, wide: int, most: int) -> str:
    """A row of weights for each leaf; where too much of them would be empty, the votes alone."""
    build = walk.build
    count = max(int(walk.leaves.max()), int(votes.leaves.max())) + 1
    leaf = walk.look_up(np.maximum(walk.leaves, 0), T.INT32)
    per_leaf = int(np.bincount(votes.leaves).max())
    large = count * votes.count * 4 > max(most, 4096)
    if aggregate in (SUM, AVERAGE) and large and 3 * per_leaf < votes.count:
        return _scatter(walk, votes, leaf, count, per_leaf, wide)
    weights = np.full((count, votes.count), NOTHING.get(aggregate, 0.0), votes.weights.dtype)
    weights[votes.leaves, votes.targets] = votes.weights
    cast = build.Gather(build.constant(weights, wide), leaf, axis=0)
    return _reduce(build, aggregate, build.Reshape(cast, [-1, walk.count, votes.count]), 1)


def _scatter(walk: _Reached, votes: _Votes, leaf: str, count: int, per_leaf: int, wide: int) -> str:
    """The first vote of each leaf, the second, and so on, each added where it belongs."""
    build = walk.build
    order = np.argsort(votes.leaves, kind="stable")
    rank = np.arange(len(order)) - np.searchsorted(votes.leaves[order], votes.leaves[order])
    leaf = build.Reshape(leaf, [-1, walk.count])
    shape = build.Concat(build.Slice(build.Shape(leaf), [0], [1], [0]), [votes.count], axis=0)
    sums = build.Expand(build.constant(0.0, wide), shape)
    for turn in range(per_leaf):
        chosen = order[rank == turn]
        targets, weights = np.zeros(count, np.int64), np.zeros(count, votes.weights.dtype)
        targets[votes.leaves[chosen]] = votes.targets[chosen]
        weights[votes.leaves[chosen]] = votes.weights[chosen]
        at = build.Gather(build.constant(targets, T.INT32), leaf, axis=0)
        cast = build.Gather(build.constant(weights, wide), leaf, axis=0)
        sums = build.ScatterElements(sums, at, cast, axis=1, reduction="add")
    return str(sums)


def _reduce(build: Builder, aggregate: str, x: str, axis: int, keepdims: int = 0) -> str:
    op = {MIN: build.ReduceMin, MAX: build.ReduceMax}.get(aggregate, build.ReduceSum)
    return str(op(x, [axis], keepdims=keepdims))
