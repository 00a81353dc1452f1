"""The values of the leaves that rows of features come to, chosen node by node from the leaves up to the roots.

For opsets without GatherElements, as onnxruntime's Gather takes five times as long. Values are matrices with a row for
each node and a column for each row of features: Gather copies whole rows, and a Where chooses for many nodes at once.
"""

from __future__ import annotations

from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.classical.comparisons import Comparisons
from opshift.passes.operators.shared.classical.forest import Array
from opshift.passes.operators.shared.classical.traversal import read_in_forms
from opshift.passes.rewrite.builder import Builder

T = TensorProto

# Seconds for a row of features, measured in onnxruntime 1.32 with models of LightGBM at opset 9.
CHOICE = 5.5e-9  # a node that is compared and chosen by
LEVEL = 45e-9  # a level of a tree that is looked up by Gather
MOST_NODES = 16_384  # a row of features takes about four bytes for each
MOST_LEVELS = 64


def is_faster(nodes: int, trees: int, depth: int) -> bool:
    """Whether to choose by all nodes takes less time than to look up one level after the other."""
    return 0 < nodes <= MOST_NODES and depth <= MOST_LEVELS and nodes * CHOICE < trees * depth * LEVEL


class Choices:
    """Chooses among values of leaves by the comparisons of all nodes."""

    def __init__(
        self, build: Builder, rows: str, elem_type: int, width: int | None, roots: Array, compared: Comparisons
    ):
        self._build = build
        self._roots = roots
        self._compared = compared
        levels, self._last_level = _levels(roots, compared)
        self._groups = [_groups(level, compared) for level in levels]
        features, rows, _ = read_in_forms(build, rows, elem_type, compared, width)
        columns = build.Transpose(rows, perm=[1, 0])
        self._holds = [self._compare(columns, elem_type, features, groups) for groups in self._groups]

    def _compare(self, columns: str, elem_type: int, features: Array, groups: list[Array]) -> list[str]:
        """Whether the comparisons of each group hold."""
        build, nodes = self._build, np.concatenate(groups)
        values = build.Gather(columns, build.constant(features[nodes], T.INT64), axis=0)
        holds = build.Less(values, build.constant(self._compared.thresholds[nodes][:, None], elem_type))
        if len(groups) == 1:
            return [holds]
        sizes = build.constant([len(group) for group in groups], T.INT64)
        return list(build.emit("Split", [holds, sizes], {"axis": 0}, outputs=len(groups)))

    def choose(self, values: Array, elem_type: int) -> str:
        """Of values for each leaf, those that the first row comes to in all trees, then those of the next: a vector."""
        build, pool = self._build, _Pool(self._build, values, elem_type)
        for level in reversed(range(len(self._groups))):
            chosen = []
            for group, holds in zip(self._groups[level], self._holds[level], strict=True):
                right, left = (pool.read(side[group]) for side in (self._compared.right, self._compared.left))
                chosen.append(build.Where(holds, right, left))
            later = [node for node in pool.places if self._last_level[node] < level]
            pool.replace(chosen, np.concatenate(self._groups[level]).tolist(), later)
        return str(build.Reshape(build.Transpose(pool.read_all(self._roots, self._holds[0][0]), perm=[1, 0]), [-1]))


class _Pool:
    """The values that nodes have, a row for each; those of leaves are constants."""

    def __init__(self, build: Builder, leaves: Array, elem_type: int):
        self._build = build
        self._leaves = leaves
        self._elem_type = elem_type
        self._rows = ""
        self.places: dict[int, int] = {}

    def read(self, children: Array) -> str:
        """The values of nodes, or of leaves."""
        if children[0] < 0:
            return self._build.constant(self._leaves[-1 - children][:, None], self._elem_type)
        places = [self.places[node] for node in children.tolist()]
        if places == list(range(len(self.places))):
            return self._rows
        return str(self._build.Gather(self._rows, self._build.constant(places, T.INT64), axis=0))

    def read_all(self, roots: Array, condition: str) -> str:
        """The values of nodes and leaves; `condition` tells how many columns there are."""
        leaves = np.unique(roots[roots < 0])
        if len(leaves):
            build, column = self._build, self.read(leaves)
            first = build.Slice(condition, [0], [1], [0])
            self.replace([build.Where(first, column, column)], leaves.tolist(), list(self.places))
        places = [self.places[root] for root in roots.tolist()]
        return str(self._build.Gather(self._rows, self._build.constant(places, T.INT64), axis=0))

    def replace(self, made: list[str], nodes: list[int], kept: list[int]) -> None:
        """Hold what was made of nodes, and of what was held no more than is kept."""
        build = self._build
        if kept:
            made = [*made, self.read(np.array(kept))]
        self._rows = build.Concat(*made, axis=0) if len(made) > 1 else made[0]
        self.places = {node: place for place, node in enumerate([*nodes, *kept])}


def _levels(roots: Array, compared: Comparisons) -> tuple[list[Array], Array]:
    """The nodes by their longest way from a root, and for each node the first level that reads it; -1 for a root."""
    count = len(compared.left)
    level, read = np.full(count, -1), np.full(count, count)
    nodes, depth = np.unique(roots[roots >= 0]), 0
    read[nodes] = -1
    while len(nodes):
        level[nodes] = depth
        children = np.unique(np.concatenate([compared.left[nodes], compared.right[nodes]]))
        nodes, depth = children[children >= 0], depth + 1
    for side in (compared.left, compared.right):
        inner = (side >= 0) & (level >= 0)
        np.minimum.at(read, side[inner], level[inner])
    return [np.flatnonzero(level == at) for at in range(depth)], read


def _groups(level: Array, compared: Comparisons) -> list[Array]:
    """The nodes of a level by which of their children are leaves."""
    kinds = 2 * (compared.left[level] >= 0) + (compared.right[level] >= 0)
    return [level[kinds == elem_type] for elem_type in range(4) if (kinds == elem_type).any()]
