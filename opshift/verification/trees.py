"""Tree ensembles and SVMs: draw rows on and beside the thresholds of trees, and measure sums for tolerances."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.passes.model import tensors
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto, normalize_domain

Array = Any

ML = "ai.onnx.ml"
WHOLE_ROWS = 256
"""A whole model is run on so many random rows, so that labels differ among them."""
MOST_ROWS = 4096
_OPERATORS = ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor")
_THRESHOLDS = ("nodes_values", "nodes_values_as_tensor", "nodes_splits")


def is_tree_ensemble(node: NodeProto) -> bool:
    return normalize_domain(node.domain) == ML and node.op_type in _OPERATORS


def count_trees(node: NodeProto) -> int:
    """Count the trees of an ensemble, each of which adds a rounding to the sum; 0 for another node."""
    if not is_tree_ensemble(node):
        return 0
    return max(
        (len(set(held.ints)) for held in node.attribute if held.name in ("nodes_treeids", "tree_roots")), default=0
    )


def sum_coefficients(node: NodeProto) -> float:
    """Add up the magnitudes of an SVMRegressor's coefficients; 0 for another node.

    Its sum cancels: the result is often far smaller than what is added, but has the rounding of the large numbers.
    """
    if normalize_domain(node.domain) != ML or node.op_type != "SVMRegressor":
        return 0.0
    return float(sum(np.abs(held.floats).sum() for held in node.attribute if held.name == "coefficients"))


def draw_rows(node: NodeProto, features: int, dtype: Any, rng: np.random.Generator) -> Array:
    """Draw rows of thresholds, the numbers right beside them, and NaN; none if the attributes are no valid trees."""
    held = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    values = next((held[name] for name in _THRESHOLDS if name in held), ())
    splits = np.array(tensors.array(values) if isinstance(values, TensorProto) else values).reshape(-1).astype(dtype)
    places, modes = np.array(held.get("nodes_featureids", ())), held.get("nodes_modes", ())
    if isinstance(modes, list) and len(modes) == places.size:  # leaves have thresholds, too, that mean nothing
        places = np.where([mode == "LEAF" for mode in modes], -1, places)
    count = min(MOST_ROWS, 64 * splits.size) if splits.shape == places.shape else 0
    rows = np.zeros((count, features), dtype)
    for feature in range(features):
        at = splits[(places == feature) & np.isfinite(splits)] if count else splits
        near = np.concatenate([at, at, np.nextafter(at, dtype(np.inf)), np.nextafter(at, dtype(-np.inf))])
        rows[:, feature] = rng.permutation(np.resize(near, count))
    for row in rows[::4]:
        row[rng.integers(features)] = np.nan
    return rows


def is_classical(model: ModelProto) -> bool:
    return any(normalize_domain(node.domain) == ML for node in model.graph.node)
