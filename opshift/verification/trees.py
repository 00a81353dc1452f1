"""Draw rows for classical models: those that reach the leaves of trees, right beside their thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from opshift.passes.model import tensors
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, normalize_domain
from opshift.passes.records import dataclass

Array = Any

ML = "ai.onnx.ml"
WHOLE_ROWS = 256
"""Random rows that a whole model is run on: labels are to differ among them."""
MOST_ROWS = 4096
_PER_LEAF = 3
_Box = dict[int, tuple[Any, Any]]
"""The least and the largest number of each feature that is compared."""
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_OPERATORS = ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor")


@dataclass(frozen=True)
class _Trees:
    """The nodes of all trees; a child is the index of a node, or -1 for a leaf."""

    features: Sequence[int]
    splits: Array
    modes: Sequence[str]
    true: Sequence[int]
    false: Sequence[int]

    @cached_property
    def parents(self) -> dict[int, tuple[int, bool]]:
        """Find the node above each node, and whether it is on its true side. Used to walk from a leaf to its root."""
        sides = [(self.true, True), (self.false, False)]
        return {child: (place, holds) for side, holds in sides for place, child in enumerate(side) if child >= 0}


def is_tree_ensemble(node: NodeProto) -> bool:
    return normalize_domain(node.domain) == ML and node.op_type in _OPERATORS


def count_trees(node: NodeProto) -> int:
    """Count the trees of an ensemble, whose leaves are added one after the other; 0 for another node."""
    if not is_tree_ensemble(node):
        return 0
    return max(
        (len(set(held.ints)) for held in node.attribute if held.name in ("nodes_treeids", "tree_roots")), default=0
    )


def sum_coefficients(node: NodeProto) -> float:
    """Sum the sizes of what SVMRegressor adds in float32, often far more than what is left; 0 for another node."""
    if normalize_domain(node.domain) != ML or node.op_type != "SVMRegressor":
        return 0.0
    return float(sum(np.abs(held.floats).sum() for held in node.attribute if held.name == "coefficients"))


def draw_rows(node: NodeProto, features: int, dtype: Any, rng: np.random.Generator) -> tuple[Array, str]:
    """Draw rows for each leaf: at both ends of the numbers that lead there, and one with NaN.

    Used for changed parts with trees. There are at most `MOST_ROWS`, in any order: of more leaves,
    some are chosen, and the text says so. There are no rows where the attributes are no trees.
    """
    dtype, found, why = np.dtype(dtype), list[Array](), ""
    try:
        trees = _read(node, dtype)
        inner = np.array([mode != "LEAF" for mode in trees.modes])
        sides = [inner & (np.asarray(side, np.int64) < 0) for side in (trees.true, trees.false)]
        leaves = rng.permutation(np.flatnonzero(np.concatenate(sides)))
        for leaf in leaves[: MOST_ROWS // _PER_LEAF]:
            box = _compute_box(trees, int(leaf), dtype)
            is_first = leaf < len(inner)
            found += _draw_rows_in(box, trees, features, rng, is_first) if box else []
        if len(leaves) > MOST_ROWS // _PER_LEAF:
            why = f"rows were drawn for {MOST_ROWS // _PER_LEAF} of {len(leaves)} leaves of its trees"
    except (IndexError, KeyError, TypeError, ValueError):
        found = []
    return rng.permutation(np.array(found, dtype).reshape(-1, features)), why


def _read(node: NodeProto, dtype: Any) -> _Trees:
    """Read the nodes of a tree ensemble from any of the three operators that ONNX has for it.

    Runs first, for each tree ensemble.
    """
    attributes = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    features = attributes["nodes_featureids"]
    if node.op_type == "TreeEnsemble":
        true, false = (
            [-1 if leaf else child for child, leaf in zip(attributes[f"nodes_{side}nodeids"], leaves, strict=True)]
            for side, leaves in (("true", attributes["nodes_trueleafs"]), ("false", attributes["nodes_falseleafs"]))
        )
        modes = [_MODES[int(mode)] for mode in _numbers(attributes["nodes_modes"])]
        return _Trees(features, _numbers(attributes["nodes_splits"]).astype(dtype), modes, true, false)
    keys = list(zip(attributes["nodes_treeids"], attributes["nodes_nodeids"], strict=True))
    places = {key: place for place, key in enumerate(keys)}
    modes = [mode.decode() if isinstance(mode, bytes) else mode for mode in attributes["nodes_modes"]]
    inner = [mode != "LEAF" for mode in modes]
    children = [
        [
            places[tree, child] if inner[place] and inner[places[tree, child]] else -1
            for place, ((tree, _), child) in enumerate(zip(keys, attributes[f"nodes_{side}nodeids"], strict=True))
        ]
        for side in ("true", "false")
    ]
    values = attributes.get("nodes_values") or _numbers(attributes["nodes_values_as_tensor"])
    splits = np.array(values, np.float64).astype(dtype)
    return _Trees(features, splits, modes, *children)


def _numbers(value: Any) -> Array:
    return np.array(tensors.array(value) if isinstance(value, TensorProto) else value).reshape(-1)


def _compute_box(trees: _Trees, leaf: int, dtype: Any) -> _Box | None:
    """Compute for a leaf the range of each feature that leads there; None if no number does. Part of `draw_rows`."""
    count = len(trees.features)
    way = [(leaf % count, leaf < count)]
    while way[-1][0] in trees.parents and len(way) <= count:
        way.append(trees.parents[way[-1][0]])
    box = _Box()
    for place, holds in reversed(way):
        ends = _split_range(trees.modes[place], trees.splits[place])[0 if holds else 1]
        least, largest = box.get(trees.features[place], (dtype.type(-np.inf), dtype.type(np.inf)))
        box[trees.features[place]] = max(least, ends[0]), min(largest, ends[1])
        if not box[trees.features[place]][0] <= box[trees.features[place]][1]:
            return None
    return box


def _split_range(mode: str, split: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Split a range by a comparison: the values that go to the true branch, and to the false one. Part of
    `draw_rows`.
    """
    low, high = type(split)(-np.inf), type(split)(np.inf)
    if mode in ("BRANCH_LEQ", "BRANCH_GT"):
        sides = (low, split), (np.nextafter(split, high), high)
    elif mode in ("BRANCH_LT", "BRANCH_GTE"):
        sides = (low, np.nextafter(split, low)), (split, high)
    elif mode in ("BRANCH_EQ", "BRANCH_NEQ"):
        sides = (split, split), (low, high)
    else:
        sides = (low, high), (low, high)
    return sides if mode not in ("BRANCH_GTE", "BRANCH_GT", "BRANCH_NEQ") else (sides[1], sides[0])


def _draw_rows_in(box: _Box, trees: _Trees, features: int, rng: np.random.Generator, is_first: bool) -> Iterator[Array]:
    """Draw rows at both ends of a range, and one with NaN; other features are random thresholds. Part of
    `draw_rows`.

    NaN is what the node above the leaf compares, or for the second of its leaves any node on the path.
    """
    for end in range(2):
        row = rng.choice(trees.splits, features)
        for feature, ends in box.items():
            row[feature] = ends[end] if np.isfinite(ends[end]) else ends[1 - end]
        row = np.where(np.isfinite(row), row, 0)
        yield row.copy()
    row[list(box)[-1] if is_first else rng.choice(list(box))] = np.nan
    yield row


def is_classical(model: ModelProto) -> bool:
    return any(normalize_domain(node.domain) == ML for node in model.graph.node)
