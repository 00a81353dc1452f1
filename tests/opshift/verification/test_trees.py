"""Rows that are drawn for tree ensembles are their thresholds and the numbers beside them."""

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


def node_of(trees, op, dtype=np.float32):
    attributes = apart(trees, dtype) if op == "TreeEnsemble" else listed(trees, "target")
    return model(op, dtype, 3, {"n_targets": 1, **attributes}, 5 if op == "TreeEnsemble" else 3).graph.node[0]


def rows_of(trees, op="TreeEnsembleRegressor", dtype=np.float32):
    return draw_rows(node_of(trees, op, dtype), 3, dtype, np.random.default_rng(0))


def deep(value):
    """Eight leaves; one level tests the first feature, two the second one."""
    nodes = [("BRANCH_LT", 0, value, 1, 2, 0), ("BRANCH_LEQ", 1, 0.25, 3, 4, 0), ("BRANCH_GT", 1, -1.5, 5, 6, 0)]
    nodes += [("BRANCH_LT", 1, at, 7 + 2 * k, 8 + 2 * k, 1) for k, at in enumerate([-2.0, 7.0, 3.5, np.inf])]
    return Tree([*nodes, *([(0, float(k))] for k in range(8))])


@pytest.mark.parametrize("op", ["TreeEnsemble", "TreeEnsembleRegressor"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_the_thresholds_and_the_numbers_beside_them(op, dtype):
    rows = rows_of([deep(0.125), deep(1e6)], op, dtype)
    assert rows.dtype == dtype
    for feature, splits in enumerate([[0.125, 1e6], [0.25, -1.5, -2, 7, 3.5], []]):
        at = np.array(splits, dtype)
        near = {*at, *np.nextafter(at, dtype(np.inf)), *np.nextafter(at, dtype(-np.inf))} or {0}
        assert set(rows[:, feature][~np.isnan(rows[:, feature])]) == near


def test_a_feature_is_missing_in_each_fourth_row():
    missing = np.isnan(rows_of([deep(0.1)])).sum(axis=1)
    assert set(missing[::4]) == {1}
    assert missing.sum() == len(missing[::4])


def test_there_are_not_too_many_rows():
    assert len(rows_of([deep(0.1 * k) for k in range(400)])) == MOST_ROWS
    assert len(rows_of([stump([(0, 1.0)], [(0, 2.0)])])) == 3 * 64


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
    node = node_of([deep(0.1)], "TreeEnsembleRegressor")
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
