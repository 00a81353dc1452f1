"""Trees as tables: a slot for each node and leaf, level by level over all trees, the children side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opshift.passes.model.lazy_numpy import np
from opshift.passes.operators.shared.classical.comparisons import Comparisons
from opshift.passes.operators.shared.classical.forest import Array


@dataclass
class Tables:
    """The first slots hold the roots. A row of features at slot s goes to slot `following[s]`, or, where the comparison
    holds, to the one behind it. A leaf leads to itself.
    """

    nodes: Array
    """The node in a slot; -1 for a slot whose comparison never holds."""
    leaves: Array
    """The leaf in a slot; -1 for others."""
    trees: Array
    """The tree that a slot belongs to."""
    following: Array
    ends: list[int]
    """The number of slots of all levels down to each one."""
    depth: int
    """How many comparisons lead to the lowest leaf."""


def arrange(roots: Array, compared: Comparisons, order: Sequence[int] | Array) -> Tables:
    """The trees that begin at `roots[order]`.

    A node that several others of a tree lead to stands there once: the others lead to it through a slot of its own.
    """
    item = np.asarray(roots)[np.asarray(order, np.int64)]
    tree, count = np.arange(len(item)), len(compared.left)
    home = np.full((2, count), -1, np.int64)  # the tree and the slot that a node was put into last
    nodes, leaves, trees, ways, ends = [], [], [], [], [0]
    straight = True
    while len(item):
        slot, begin = ends[-1] + np.arange(len(item)), ends[-1] + len(item)
        inner = item >= 0
        again, target = np.zeros(len(item), bool), np.zeros(len(item), np.int64)
        if inner.any():
            again[inner] = home[0][item[inner]] == tree[inner]
            target[again] = home[1][item[again]]
            fresh = np.flatnonzero(inner & ~again)
            _, first, same = np.unique(tree[fresh] * count + item[fresh], return_index=True, return_inverse=True)
            placed = fresh[first]
            repeated = placed[same] != fresh
            again[fresh[repeated]], target[fresh[repeated]] = True, slot[placed[same]][repeated]
            home[:, item[placed]] = tree[placed], slot[placed]
        grown = inner & ~again
        straight = straight and not again.any()
        following = np.where(again, target, slot)
        following[grown] = begin + 2 * np.arange(grown.sum())
        nodes.append(np.where(grown, item, -1))
        leaves.append(np.where(inner, -1, -1 - item))
        trees.append(tree)
        ways.append(following)
        ends.append(begin)
        item, tree = (
            np.stack([compared.left[item[grown]], compared.right[item[grown]]], axis=1).ravel(),
            np.repeat(tree[grown], 2),
        )
    columns = [np.concatenate(column) for column in (nodes, leaves, trees, ways)]
    tables = Tables(columns[0], columns[1], columns[2], columns[3], ends[1:], len(ends) - 2)
    if not straight:
        tables.depth = _longest_way(tables)
    return tables


def _longest_way(tables: Tables) -> int:
    """The number of steps to the leaf that is farthest away, where slots lead back up."""
    inner, moves = tables.nodes >= 0, tables.following != np.arange(len(tables.nodes))
    behind = np.minimum(tables.following + 1, len(inner) - 1)
    height = np.zeros(len(inner), np.int64)
    while True:
        longest = np.where(inner, np.maximum(height[tables.following], height[behind]), height[tables.following])
        grown = np.where(moves, longest + 1, 0)
        if (grown == height).all():
            return int(height.max())
        height = grown
