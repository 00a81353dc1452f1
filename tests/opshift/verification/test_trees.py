"""Rows that are drawn for tree ensembles reach each leaf, from both sides of what is compared."""

import numpy as np
import pytest

import opshift
from opshift.verification.engines import OnnxRuntime
from opshift.verification.feeding.asked import read_options
from opshift.verification.feeding.inputs import running
from opshift.verification.side import Side
from opshift.verification.trees import MOST_ROWS, WHOLE_ROWS, draw_rows, is_tree_ensemble
from tests.classical import store
from tests.passes.operators.shared.classical.ensembles import Tree, apart, listed, model, stump
from tests.support import model as of_text

DECIDES = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}


def node_of(trees, op, dtype=np.float32):
    attributes = apart(trees, dtype) if op == "TreeEnsemble" else listed(trees, "target")
    return model(op, dtype, 3, {"n_targets": 1, **attributes}, 5 if op == "TreeEnsemble" else 3).graph.node[0]


def rows_of(trees, op="TreeEnsembleRegressor", dtype=np.float32):
    return draw_rows(node_of(trees, op, dtype), 3, dtype, np.random.default_rng(0))[0]


def leaf_of(tree, row):
    at = 0
    while not isinstance(tree.nodes[at], list):
        mode, feature, value, true, false, tracks = tree.nodes[at]
        is_true = DECIDES[mode](row[feature], row.dtype.type(value)) or (tracks and np.isnan(row[feature]))
        at = true if is_true else false
    return at


def deep(mode, value):
    """Eight leaves; one level tests the first feature, two the second one."""
    nodes = [(mode, 0, value, 1, 2, 0), ("BRANCH_LEQ", 1, 0.25, 3, 4, 0), ("BRANCH_GT", 1, -1.5, 5, 6, 0)]
    nodes += [(mode, 1, at, 7 + 2 * k, 8 + 2 * k, 1) for k, at in enumerate([-2.0, 7.0, 3.5, -8.25])]
    return Tree([*nodes, *([(0, float(k))] for k in range(8))])


@pytest.mark.parametrize("op", ["TreeEnsemble", "TreeEnsembleRegressor"])
@pytest.mark.parametrize("mode", DECIDES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_leaf_is_reached(op, mode, dtype):
    trees = [deep(mode, 0.125), deep(mode, 1e6)]
    rows = rows_of(trees, op, dtype)
    assert rows.dtype == dtype
    for tree in trees:
        whole = rows[~np.isnan(rows).any(axis=1)]
        assert {leaf_of(tree, row) for row in whole} == set(range(7, 15))


@pytest.mark.parametrize("mode", ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"])
def test_rows_lie_on_both_sides_of_a_threshold(mode):
    drawn = set(rows_of([stump([(0, 1.0)], [(0, 2.0)], mode, 0.1)])[:, 0].tolist())
    at = np.float32(0.1)
    beside = np.nextafter(at, np.float32(9 if mode in ("BRANCH_LEQ", "BRANCH_GT") else -9))
    assert {float(at), float(beside)} <= drawn


def test_a_feature_is_missing_in_some_rows():
    rows = rows_of([deep("BRANCH_LEQ", 0.1)])
    missing = np.isnan(rows)
    assert missing.any(axis=1).sum() == 8
    assert missing.sum(axis=1).max() == 1


def test_of_many_leaves_some_are_chosen_and_that_is_said():
    trees = [deep("BRANCH_LEQ", 0.1 * k) for k in range(400)]
    rows, why = draw_rows(node_of(trees, "TreeEnsembleRegressor"), 3, np.float32, np.random.default_rng(0))
    assert MOST_ROWS - 3 < len(rows) <= MOST_ROWS
    assert why == "rows were drawn for 1365 of 3200 leaves of its trees"


@pytest.mark.parametrize(
    "nodes",
    [
        [("BRANCH_LEQ", 0, 0.0, 0, 1, 0), [(0, 1.0)]],  # a circle
        [("BRANCH_LEQ", 0, 0.0, 1, 9, 0), [(0, 1.0)]],  # a node that is missing
        [("BRANCH_LEQ", 7, 0.0, 1, 2, 0), [(0, 1.0)], [(0, 2.0)]],  # a feature that is missing
        [[(0, 1.0)]],  # nothing that compares
    ],
)
def test_trees_that_are_none_end(nodes):
    assert rows_of([Tree(nodes)]).shape[1] == 3


def test_only_trees_of_ml_are_trees():
    node = node_of([deep("BRANCH_LEQ", 0.1)], "TreeEnsembleRegressor")
    assert is_tree_ensemble(node)
    node.domain = ""
    assert not is_tree_ensemble(node)


# --- whole models ----------------------------------------------------------------------------------------------


def fed(source, **options):
    return [one.given for one in running(Side(source), OnnxRuntime(source).run, read_options(**options))]


@pytest.mark.newest
@pytest.mark.usefixtures("in_this_process")
def test_classical_models_run_on_many_rows():
    source, _ = store.read("logistic_many")
    given = fed(source)
    assert [len(one["x"]) for one in given] == [1, 2, 3, WHOLE_ROWS]
    assert [len(one["x"]) for one in fed(source, runs=2)] == [1, 2], "as many as the user asks for"
    ranged = fed(store.read("tree_many")[0], val_range=(0, 1))[-1]["x"]
    assert 0 <= ranged.min() <= ranged.max() <= 1


@pytest.mark.newest
@pytest.mark.usefixtures("in_this_process")
def test_models_without_classical_operators_run_as_before():
    source = of_text("y = Relu(x)", 17, inputs="float[N,4] x", outputs="float[N,4] y")
    assert [len(one["x"]) for one in fed(source)] == [1, 2, 3]


@pytest.mark.parametrize("name", ["xgboost_binary", "words"])
@pytest.mark.newest
@pytest.mark.usefixtures("in_this_process")
def test_labels_differ_among_rows(name):
    """With the strings of its categories among what is drawn."""
    source, _ = store.read(name)
    assert opshift.verify(source, source).remarks == ()
