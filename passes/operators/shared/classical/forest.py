"""What the attributes of a tree ensemble say: nodes, leaves and votes, read from any of the three operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from opshift.passes.model import tensors
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.validity import fault
from opshift.passes.rewrite.node import Node

Array = Any  # numpy arrays

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
ONLY_TARGET = "if a leaf has several votes for the only target, the first counts, as in onnxruntime"
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)


@dataclass
class Forest:
    """The inner nodes of all trees in one table, and their leaves in another.

    A child, as a root, is the position of an inner node, or -1 - l for the leaf l.
    """

    roots: Array
    features: Array
    modes: Array
    splits: Array
    """Of the type that the node compares in."""
    tracks: Array
    """Whether a missing value goes to the true branch."""
    true: Array
    false: Array
    members: dict[int, list[float]]
    """The set of each node of mode BRANCH_MEMBER."""
    leaves: int
    vote_leaves: Array
    """The leaf, the target and the weight of each vote."""
    vote_targets: Array
    vote_weights: Array


def read_listed(node: Node, side: str, count: int, dtype: Array) -> Forest:
    """The forest of a classifier or regressor, whose votes are listed as `side`_*, for `count` classes or targets.

    Raises:
        InvalidModel: the trees are no trees.
    """
    given = node.attributes
    trees = np.asarray(given.get("nodes_treeids", []), np.int64)
    columns = {
        "nodes_nodeids": given.get("nodes_nodeids", []),
        "nodes_featureids": given.get("nodes_featureids", []),
        "nodes_modes": given.get("nodes_modes", []),
        "nodes_values": parameter(node, "nodes_values"),
        "nodes_truenodeids": given.get("nodes_truenodeids", []),
        "nodes_falsenodeids": given.get("nodes_falsenodeids", []),
    }
    for name, column in columns.items():
        if len(column) != len(trees):
            raise fault(f"{name} has {len(column)} entries, nodes_treeids {len(trees)}", node.proto)
    if not len(trees):
        raise fault("it has no nodes", node.proto)
    numbers = {"LEAF": -1, **{name: number for number, name in enumerate(MODES[:MEMBER])}}
    unknown = sorted(set(columns["nodes_modes"]) - set(numbers))
    if unknown:
        raise fault(f"a node has mode {unknown[0]!r}; modes are {', '.join(numbers)}", node.proto)
    modes = np.array([numbers[mode] for mode in columns["nodes_modes"]], np.int64)
    tracks = given.get("nodes_missing_value_tracks_true", []) or np.zeros(len(trees), bool)
    if len(tracks) != len(trees):
        raise fault(f"nodes_missing_value_tracks_true has {len(tracks)} entries for {len(trees)} nodes", node.proto)
    places = _Places(node, trees, np.asarray(columns["nodes_nodeids"], np.int64))
    inner, leaf = np.flatnonzero(modes >= 0), np.flatnonzero(modes < 0)
    numbered = np.empty(len(trees), np.int64)
    numbered[inner], numbered[leaf] = np.arange(len(inner)), -1 - np.arange(len(leaf))
    true, false = (
        numbered[places.find(trees[inner], np.asarray(columns[name], np.int64)[inner], "child")]
        for name in ("nodes_truenodeids", "nodes_falsenodeids")
    )
    _, first = np.unique(trees, return_index=True)
    votes = _votes(node, side, count, places, numbered, dtype)
    forest = Forest(
        numbered[np.sort(first)], np.asarray(columns["nodes_featureids"], np.int64)[inner], modes[inner],
        np.asarray(columns["nodes_values"], dtype)[inner], np.asarray(tracks, bool)[inner], true, false,
        {}, len(leaf), *votes,
    )  # fmt: skip
    _check(node, forest)
    return forest


def read_ensemble(node: Node, count: int, dtype: Array) -> Forest:
    """The forest of TreeEnsemble; raises `InvalidModel` where its trees are no trees."""
    given = node.attributes
    features = np.asarray(given.get("nodes_featureids", []), np.int64)
    size = len(features)
    columns = {
        name: np.asarray(given.get(name, []), np.int64)
        for name in ("nodes_truenodeids", "nodes_trueleafs", "nodes_falsenodeids", "nodes_falseleafs")
    }
    modes, splits = np.asarray(_values(node, "nodes_modes"), np.int64), _values(node, "nodes_splits")
    targets, weights = np.asarray(given.get("leaf_targetids", []), np.int64), _values(node, "leaf_weights")
    tracks = given.get("nodes_missing_value_tracks_true", []) or np.zeros(size, bool)
    lists = {**columns, "nodes_modes": modes, "nodes_splits": splits, "nodes_missing_value_tracks_true": tracks}
    for name, column in lists.items():
        if len(column) != size:
            raise fault(f"{name} has {len(column)} entries, nodes_featureids {size}", node.proto)
    if len(targets) != len(weights):
        raise fault(f"{len(weights)} leaf_weights for {len(targets)} leaf_targetids", node.proto)
    if modes.size and (modes.min() < 0 or modes.max() > MEMBER):
        raise fault(f"a node has mode {int(modes.max())}; modes are 0 to {MEMBER}", node.proto)
    roots = np.asarray(given.get("tree_roots", []), np.int64)
    _check_range(node, roots, size, "tree_roots name node")
    children = {}
    for side in ("true", "false"):
        at, is_leaf = columns[f"nodes_{side}nodeids"], columns[f"nodes_{side}leafs"] != 0
        _check_range(node, at[is_leaf], len(targets), f"nodes_{side}nodeids name leaf")
        _check_range(node, at[~is_leaf], size, f"nodes_{side}nodeids name node")
        children[side] = np.where(is_leaf, -1 - at, at)
    _check_range(node, targets, count, "leaf_targetids name target")
    leaves = np.arange(len(targets))
    forest = Forest(
        roots=roots,
        features=features,
        modes=modes,
        splits=np.asarray(splits, dtype),
        tracks=np.asarray(tracks, bool),
        true=children["true"],
        false=children["false"],
        members=_members(node, modes),
        leaves=len(targets),
        vote_leaves=leaves,
        vote_targets=targets,
        vote_weights=np.asarray(weights, dtype),
    )
    _check(node, forest)
    return forest


class _Places:
    """Finds entries of nodes_* by tree and node id."""

    def __init__(self, node: Node, trees: Array, ids: Array):
        self._node = node
        self._trees, at = np.unique(trees, return_inverse=True)
        self._ids, named = np.unique(ids, return_inverse=True)
        keys = at * len(self._ids) + named
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        twice = np.flatnonzero(self._keys[1:] == self._keys[:-1])
        if len(twice):
            entry = self._order[twice[0]]
            raise fault(f"tree {trees[entry]} has two nodes {ids[entry]}", node.proto)

    def find(self, trees: Array, ids: Array, what: str) -> Array:
        """The entries; raises `InvalidModel` for a tree or a node that is missing."""
        tree = np.searchsorted(self._trees, trees).clip(max=len(self._trees) - 1)
        name = np.searchsorted(self._ids, ids).clip(max=len(self._ids) - 1)
        key = tree * len(self._ids) + name
        at = np.searchsorted(self._keys, key).clip(max=len(self._keys) - 1)
        found = (self._trees[tree] == trees) & (self._ids[name] == ids) & (self._keys[at] == key)
        if not found.all():
            lost = int(np.flatnonzero(~found)[0])
            raise fault(f"node {ids[lost]} of tree {trees[lost]} is missing; a {what} refers to it", self._node.proto)
        return self._order[at]


def _votes(
    node: Node, side: str, count: int, places: _Places, numbered: Array, dtype: Array
) -> tuple[Array, Array, Array]:
    """The leaf, the target and the weight of each vote; those for inner nodes count for nothing.

    Of several for the only target, the first counts, as in onnxruntime: skl2onnx numbers leaves so.
    """
    given = node.attributes
    trees, ids, targets = (
        np.asarray(given.get(f"{side}_{name}", []), np.int64) for name in ("treeids", "nodeids", "ids")
    )
    weights = np.asarray(parameter(node, f"{side}_weights"), dtype)
    for name, column in (("nodeids", ids), ("ids", targets), ("weights", weights)):
        if len(column) != len(trees):
            raise fault(f"{side}_{name} has {len(column)} entries, {side}_treeids {len(trees)}", node.proto)
    _check_range(node, targets, count, f"{side}_ids name {side}")
    leaves = -1 - numbered[places.find(trees, ids, "vote")] if len(trees) else trees
    kept = leaves >= 0
    if count == 1:
        first = np.zeros(len(leaves), bool)
        first[np.unique(leaves, return_index=True)[1]] = True
        if (kept & ~first).any():
            node.remarks.append(ONLY_TARGET)
        kept &= first
    return leaves[kept], targets[kept], weights[kept]


def _check_range(node: Node, values: Array, count: int, what: str) -> None:
    outside = (values < 0) | (values >= count)
    if outside.any():
        raise fault(f"{what} {int(values[outside][0])}, but there are {count}", node.proto)


def _members(node: Node, modes: Array) -> dict[int, list[float]]:
    """The members of each set; NaN ends one."""
    sets: list[list[float]] = [[]]
    for value in _values(node, "membership_values"):
        if value == value:
            sets[-1].append(value)
        else:
            sets.append([])
    holders = np.flatnonzero(modes == MEMBER).tolist()
    sets = sets if sets[-1] else sets[:-1]
    if len(sets) != len(holders) or not all(sets):
        raise fault(f"membership_values hold {len(sets)} sets for {len(holders)} nodes of mode 6", node.proto)
    return dict(zip(holders, sets, strict=True))


def _check(node: Node, forest: Forest) -> None:
    """Raise `InvalidModel` for a feature that does not exist, and for a tree that leads back to a node above."""
    if forest.features.size and forest.features.min() < 0:
        raise fault(f"a node tests feature {int(forest.features.min())}", node.proto)
    width = node.scope.size(node.input(0), -1) if node.scope.rank(node.input(0)) else None
    if width is not None and forest.features.size and forest.features.max() >= width:
        raise fault(f"a node tests feature {int(forest.features.max())} of {width}", node.proto)
    # Nodes without a child that is left are taken away, until none is left or all that are lead on in circles.
    waiting = (forest.true >= 0).astype(np.int64) + (forest.false >= 0)
    children = np.concatenate([forest.true, forest.false])
    parents = np.tile(np.arange(len(waiting)), 2)[children >= 0]
    order = np.argsort(children[children >= 0], kind="stable")
    above, starts = parents[order], np.searchsorted(children[children >= 0][order], np.arange(len(waiting) + 1))
    ready, done = np.flatnonzero(waiting == 0), 0
    while len(ready):
        done += len(ready)
        counts = starts[ready + 1] - starts[ready]
        offsets = np.repeat(starts[ready] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        touched = above[offsets + np.arange(counts.sum())]
        np.subtract.at(waiting, touched, 1)
        ready = np.unique(touched[waiting[touched] == 0])
    if done < len(waiting):
        raise fault("a tree has a cycle", node.proto)


def parameter(node: Node, name: str) -> Sequence[float]:
    """The numbers of an attribute that is a list, or a tensor under the name with _as_tensor."""
    return _values(node, name) or _values(node, f"{name}_as_tensor")


def has_doubles(node: Node) -> bool:
    """Whether a parameter is given as a tensor of doubles."""
    held = (node.attributes.find(name) for name in node.attributes if name.endswith("_as_tensor"))
    return any(found is not None and found.t.data_type == TensorProto.DOUBLE for found in held)


def _values(node: Node, name: str) -> list[float]:
    held = node.attributes.get(name, [])
    if not isinstance(held, TensorProto):
        return list(held)
    values = tensors.array(held)
    if values is None:
        raise fault(f"{name} holds no values that fit its shape", node.proto)
    return list(values.ravel().tolist())
