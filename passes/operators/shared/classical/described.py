"""What a tree ensemble consists of, told of its attributes alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opshift.passes.model import tensors
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import NodeProto, TensorProto, normalize_domain

LISTED = ("TreeEnsembleClassifier", "TreeEnsembleRegressor")


@dataclass(frozen=True)
class Trees:
    """What a node of trees consists of.

    Attributes:
        trees: how many there are.
        depth: the most comparisons on the way to a leaf; None where trees lead in circles or to nodes that are missing.
        nodes, leaves: how many there are in all trees, leaves not among the nodes.
        features: how many of the features are compared.
    """

    trees: int
    depth: int | None
    nodes: int
    leaves: int
    features: int


def trees_of(node: NodeProto) -> Trees | None:
    """What a node consists of; None if it is no tree ensemble, or its lists do not fit each other."""
    if normalize_domain(node.domain) != "ai.onnx.ml" or node.op_type not in (*LISTED, "TreeEnsemble"):
        return None
    held = {attribute.name: attribute_value(attribute) for attribute in node.attribute if not attribute.ref_attr_name}
    try:
        return _list(held) if node.op_type in LISTED else _apart(held)
    except (ValueError, IndexError, KeyError, TypeError):
        return None


def _list(held: dict[str, Any]) -> Trees:
    trees, ids = np.asarray(held["nodes_treeids"], np.int64), np.asarray(held["nodes_nodeids"], np.int64)
    inner = np.array([mode != "LEAF" for mode in held["nodes_modes"]], bool)
    features = np.asarray(held["nodes_featureids"], np.int64)
    names, tree = np.unique(trees, return_inverse=True)
    numbers = np.unique(ids)
    keys = tree * len(numbers) + np.searchsorted(numbers, ids)
    order = np.argsort(keys, kind="stable")
    children = []
    for side in ("true", "false"):
        child = np.asarray(held[f"nodes_{side}nodeids"], np.int64)
        wanted = tree * len(numbers) + np.searchsorted(numbers, child).clip(max=len(numbers) - 1)
        at = order[np.searchsorted(keys[order], wanted).clip(max=len(keys) - 1)]
        children.append(np.where(inner, np.where((ids[at] == child) & (trees[at] == trees), at, -1), -1))
    _, roots = np.unique(trees, return_index=True)
    missing = inner & ((children[0] < 0) | (children[1] < 0))
    depth = None if missing.any() else _depth(roots, inner, children)
    leaves = int((~inner).sum())
    return Trees(len(names), depth, len(inner) - leaves, leaves, len(np.unique(features[inner])))


def _apart(held: dict[str, Any]) -> Trees:
    features = np.asarray(held["nodes_featureids"], np.int64)
    roots, count = np.asarray(held["tree_roots"], np.int64), len(features)
    children = []
    for side in ("true", "false"):
        at, leaf = np.asarray(held[f"nodes_{side}nodeids"], np.int64), np.asarray(held[f"nodes_{side}leafs"], bool)
        children.append(np.where(leaf, count, at))
    inner = np.append(np.ones(count, bool), False)
    children = [np.append(side, count) for side in children]
    inside = all(((side >= 0) & (side <= count)).all() for side in (*children, roots))
    weights = held["leaf_weights"]
    values = tensors.array(weights) if isinstance(weights, TensorProto) else None
    depth = _depth(roots, inner, children) if inside else None
    return Trees(len(roots), depth, count, 0 if values is None else int(values.size), len(np.unique(features)))


def _depth(roots: Any, inner: Any, children: list[Any]) -> int | None:
    """How many levels of nodes there are; None if it is more than there are nodes."""
    level, depth = roots[inner[roots]], 0
    while len(level):
        depth += 1
        if depth > len(inner):
            return None
        level = np.unique(np.concatenate([side[level] for side in children]))
        level = level[inner[level]]
    return depth
