"""Draw rows that reach each leaf of a tree ensemble, right beside its thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from opshift.passes.model import tensors
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import NodeProto, TensorProto, default_domain
from opshift.passes.records import dataclass

Array = Any

MOST_ROWS = 4096
_PER_LEAF = 3
_Box = dict[int, tuple[Any, Any]]
"""The least and the largest number of each feature that is compared."""
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_OPERATORS = ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor")


@dataclass(frozen=True)
class _Trees:
    """The nodes of all trees; a child is the index of a node, or -1 for a leaf."""

    roots: Sequence[int]
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
    return default_domain(node.domain) == "ai.onnx.ml" and node.op_type in _OPERATORS


def draw_rows(node: NodeProto, features: int, dtype: Any, rng: np.random.Generator) -> Array:
    """Draw rows for each leaf: just above and just below the thresholds on its path, and one with NaN.

    Used for classical models, and for regions with trees.

    There are at most `MOST_ROWS`, in any order. If there are more leaves, half of the rows go where chance leads them,
    and the others to leaves that these have not reached. There are none where the attributes are no trees.
    """
    dtype = np.dtype(dtype)
    try:
        trees = _read(node, dtype)
        is_large = _count_leaves(trees) * _PER_LEAF > MOST_ROWS
        boxes = (
            _walk_to_leaves(trees, dtype, rng, MOST_ROWS // 2 // _PER_LEAF)
            if is_large
            else _compute_boxes(trees, dtype)
        )
        found = [row for box in boxes if box for row in _draw_rows_in(box, trees, features, rng)]
        if is_large:
            reached = _mark_reached(trees, np.array(found, dtype).reshape(-1, features))
            missing = rng.permutation(np.flatnonzero(_mark_leaves(trees) & ~reached))[: MOST_ROWS - len(found)]
            near = [_compute_box(trees, int(leaf), dtype) for leaf in missing]
            found += [next(_draw_rows_in(box, trees, features, rng)) for box in near if box]
    except (IndexError, KeyError, TypeError, ValueError):
        found = []
    rows = np.array(found, dtype).reshape(-1, features)
    return rng.permutation(rows)[:MOST_ROWS]


def count_unreached(node: NodeProto, rows: Array) -> tuple[int, int]:
    """Count the leaves that no row reaches, and all leaves; rows with a NaN do not count. Reports tell it as a remark.

    Leaves to which no number leads are left out, unless there are too many to tell.
    """
    try:
        trees = _read(node, rows.dtype)
        if "BRANCH_MEMBER" in trees.modes:
            return 0, 0
        leaves = _mark_leaves(trees)
        missing = np.flatnonzero(leaves & ~_mark_reached(trees, rows))
        dead = sum(_compute_box(trees, int(leaf), rows.dtype) is None for leaf in missing[:MOST_ROWS])
    except (IndexError, KeyError, TypeError, ValueError):
        return 0, 0
    return len(missing) - dead, int(leaves.sum()) - dead


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
        return _Trees(
            attributes["tree_roots"], features, _numbers(attributes["nodes_splits"]).astype(dtype), modes, true, false
        )
    keys = list(zip(attributes["nodes_treeids"], attributes["nodes_nodeids"], strict=True))
    places = {key: place for place, key in enumerate(keys)}
    modes = [mode.decode() if isinstance(mode, bytes) else mode for mode in attributes["nodes_modes"]]
    inner = [mode != "LEAF" for mode in modes]
    roots = {tree: place for place, (tree, _) in reversed(list(enumerate(keys)))}
    children = [
        [
            places[tree, child] if inner[place] and inner[places[tree, child]] else -1
            for place, ((tree, _), child) in enumerate(zip(keys, attributes[f"nodes_{side}nodeids"], strict=True))
        ]
        for side in ("true", "false")
    ]
    values = attributes.get("nodes_values") or _numbers(attributes["nodes_values_as_tensor"])
    splits = np.array(values, np.float64).astype(dtype)
    return _Trees([place for place in roots.values() if inner[place]], features, splits, modes, *children)


def _numbers(value: Any) -> Array:
    return np.array(tensors.array(value) if isinstance(value, TensorProto) else value).reshape(-1)


def _compute_boxes(trees: _Trees, dtype: Any) -> Iterator[_Box]:
    """For each leaf (of very many, for some), compute the range of each feature that leads there. Part of
    `draw_rows`.
    """
    most, visited = 2 * len(trees.features), 0
    waiting: list[tuple[int, _Box]] = [(root, {}) for root in trees.roots]
    while waiting and visited <= most:
        place, box = waiting.pop()
        visited += 1
        for child, inside in _list_branches(trees, place, box, dtype):
            if child < 0:
                yield inside
            else:
                waiting.append((child, inside))


def _count_leaves(trees: _Trees) -> int:
    return int(_mark_leaves(trees).sum())


def _mark_leaves(trees: _Trees) -> Array:
    """Mark on which sides of nodes there are leaves: the true sides, then the false sides. Part of `draw_rows`."""
    inner = np.array([mode != "LEAF" for mode in trees.modes])
    return np.concatenate([inner & (np.asarray(side, np.int64) < 0) for side in (trees.true, trees.false)])


def _mark_reached(trees: _Trees, rows: Array) -> Array:
    """Mark the leaves that any of these rows comes to. Part of `draw_rows`."""
    count, rows = len(trees.features), rows[~np.isnan(rows).any(axis=1)]
    reached = np.zeros(2 * count, bool)
    modes = np.array([_MODES.index(mode) if mode != "LEAF" else 0 for mode in trees.modes])
    features, true, false = (np.asarray(column, np.int64) for column in (trees.features, trees.true, trees.false))
    for root in trees.roots:
        at, here = np.full(len(rows), root), np.arange(len(rows))
        for _ in range(count):
            x, split, mode = rows[here, features[at]], trees.splits[at], modes[at]
            holds = np.choose(mode, [x <= split, x < split, x >= split, x > split, x == split, x != split])
            after = np.where(holds, true[at], false[at])
            reached[(at + np.where(holds, 0, count))[after < 0]] = True
            at, here = after[after >= 0], here[after >= 0]
            if not len(at):
                break
    return reached


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


def _walk_to_leaves(trees: _Trees, dtype: Any, rng: np.random.Generator, count: int) -> Iterator[_Box]:
    """Walk to random leaves, beginning at each root in turn. Part of `draw_rows`."""
    roots = rng.permutation(trees.roots)
    yield from (_walk(trees, roots[turn % len(roots)], dtype, rng) for turn in range(count))


def _walk(trees: _Trees, root: int, dtype: Any, rng: np.random.Generator) -> _Box:
    """Follow a random path from a root to a leaf. Part of `draw_rows`."""
    place, box = root, _Box()
    for _ in trees.features:
        branches = _list_branches(trees, place, box, dtype)
        if not branches:  # it compares with NaN
            break
        place, box = branches[rng.integers(len(branches))]
        if place < 0:
            break
    return box


def _list_branches(trees: _Trees, place: int, box: _Box, dtype: Any) -> list[tuple[int, _Box]]:
    """List the children that a range of values can reach, with the part of the range that does. Part of `draw_rows`."""
    feature, branches = trees.features[place], list[tuple[int, _Box]]()
    for child, ends in zip(
        (trees.true[place], trees.false[place]), _split_range(trees.modes[place], trees.splits[place]), strict=True
    ):
        least, largest = box.get(feature, (dtype.type(-np.inf), dtype.type(np.inf)))
        least, largest = max(least, ends[0]), min(largest, ends[1])
        if least <= largest:
            branches.append((child, {**box, feature: (least, largest)}))
    return branches


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


def _draw_rows_in(box: _Box, trees: _Trees, features: int, rng: np.random.Generator) -> Iterator[Array]:
    """Draw rows at both ends of a range, and one with NaN; other features are random thresholds. Part of
    `draw_rows`.
    """
    for end in range(2):
        row = rng.choice(trees.splits, features)
        for feature, ends in box.items():
            row[feature] = ends[end] if np.isfinite(ends[end]) else ends[1 - end]
        row = np.where(np.isfinite(row), row, 0)
        yield row.copy()
    row[rng.choice(list(box))] = np.nan
    yield row
