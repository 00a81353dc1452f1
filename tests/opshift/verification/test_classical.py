"""Models of ai.onnx.ml and their lowered forms are proved to compute the same, small probabilities included."""

import numpy as np
import onnx.helper
import pytest
from onnx import TensorProto

from opshift.verification.combined import verify_sides
from opshift.verification.side import Side
from tests import pairs
from tests.passes.operators.shared.classical.calls import call
from tests.passes.operators.shared.classical.ensembles import (
    ML,
    MODES,
    Tree,
    listed,
    lowered,
    model,
    random_tree,
    stump,
)

pytestmark = pytest.mark.usefixtures("in_this_process")


def test_small_probabilities_of_a_logistic_classifier_are_equal():
    """They come out of the kernel in float32, as 1 minus a number near 1, whatever its input is."""
    rng = np.random.default_rng(0)
    trees = [random_tree(rng, 3, 3, lambda: [(0, float(rng.normal() - 1))]) for _ in range(8)]
    attributes = {"classlabels_int64s": [0, 1], "post_transform": "LOGISTIC", **listed(trees, "class")}
    source = model("TreeEnsembleClassifier", np.float32, 3, attributes, 1)
    found = verify_sides(Side(source), Side(lowered(source)), grade="close")
    assert found.status == "equal", found.why


def complete_tree(rng):
    """Thirty-two leaves; each level compares another feature, so that each leaf is reached."""
    inner = [
        (MODES[at % 4], level, float(rng.normal()), 2 * at + 1, 2 * at + 2, at % 2)
        for level in range(5)
        for at in range(2**level - 1, 2 ** (level + 1) - 1)
    ]
    return Tree([*inner, *([(0, float(rng.normal()))] for _ in range(32))])


def forest(change="", scaled=False):
    """Forty trees, one of which has another leaf or feature, other thresholds, or sends missing values another way."""
    rng = np.random.default_rng(3)
    trees = [complete_tree(rng) for _ in range(40)]
    nodes = trees[23].nodes
    mode, _, value, true, false, tracks = nodes[22]
    if change == "leaf":
        nodes[true] = [(0, nodes[true][0][1] + 1.5)]
    elif change == "threshold":
        nodes[:31] = [
            (mode, feature, float(np.nextafter(np.float32(value), np.float32(9))), *rest)
            for mode, feature, value, *rest in nodes[:31]
        ]
    elif change == "feature":
        nodes[22] = mode, 0, value, true, false, tracks
    elif change == "missing":
        nodes[:31] = [(*rest, 1 - tracks) for *rest, tracks in nodes[:31]]
    made = model("TreeEnsembleRegressor", np.float32, 5, {"n_targets": 1, **listed(trees, "target")}, 3)
    if scaled:
        made.graph.node[0].input[0] = "s"
        held = {"offset": [0.5] * 5, "scale": [2.0] * 5}
        made.graph.node.insert(0, onnx.helper.make_node("Scaler", ["x"], ["s"], domain=ML, **held))
    return made


@pytest.mark.parametrize(
    ("change", "scaled"), pairs.in_turn(["", "leaf", "threshold", "feature", "missing"], [False, True])
)
def test_each_tree_of_a_forest_counts(change, scaled):
    found = verify_sides(
        Side(forest(scaled=scaled)), Side(lowered(forest(change, scaled))), grade="close", promise=True
    )
    assert found.status == ("different" if change else "equal"), found.why


@pytest.mark.long
def test_sums_of_many_trees_round_as_often_as_there_are_trees():
    """A thousand times 0.001, as pure leaves of a forest vote, is 160 roundings from 1 if added one after the other."""
    trees = [stump([(0, 0.001)], [(0, 0.0005)]) for _ in range(1000)]
    source = model("TreeEnsembleRegressor", np.float32, 1, {"n_targets": 1, **listed(trees, "target")}, 3)
    found = verify_sides(Side(source), Side(lowered(source)), grade="close")
    assert found.status == "equal", found.why


@pytest.mark.parametrize("change", [False, True])
def test_kernels_that_add_a_thousand_support_vectors_in_float32(change):
    """Where thousands of terms nearly cancel, the error is a rounding of the terms, not of the small sum."""
    rng = np.random.default_rng(0)
    vectors, weights = np.tile(rng.normal(size=(700, 10)), (2, 1)), np.repeat([10.0, -10.0], 700)
    vectors[700:] += rng.normal(size=(700, 10)) / 30
    held = {"kernel_type": "RBF", "kernel_params": [0.1, 0.0, 3.0], "rho": [0.05], "n_supports": 1400}
    source, other = (
        call(
            "SVMRegressor", [np.zeros((1, 10), np.float32)], [(TensorProto.FLOAT, 2)],
            support_vectors=vectors.ravel().tolist(), coefficients=coefficients.tolist(), **held,
        )
        for coefficients in (weights, np.where((np.arange(1400) == 700) & change, -9.5, weights))
    )  # fmt: skip
    found = verify_sides(Side(source), Side(lowered(other)), grade="close")
    assert found.status == ("different" if change else "equal"), found.why
