"""A classical model runs on many rows, which reach the leaves of its trees."""

import numpy as np
import onnx
import pytest

import opshift
from opshift.verification.engines import OnnxRuntime
from opshift.verification.feeding.asked import read_options
from opshift.verification.feeding.inputs import running
from opshift.verification.side import Side
from opshift.verification.trees import OTHER_ROWS, draw_inputs, is_tree_ensemble
from tests.classical import store
from tests.support import model

pytestmark = [pytest.mark.usefixtures("in_this_process"), pytest.mark.newest]


def fed(source, **options):
    return [one.given for one in running(Side(source), OnnxRuntime(source).run, read_options(**options))]


def trees_of(source):
    return next(node for node in source.graph.node if is_tree_ensemble(node))


def count_thresholds(source, rows):
    """How many of the numbers that trees compare with are among the features that they compare."""
    held = {a.name: a for a in trees_of(source).attribute}
    inner = [mode != b"LEAF" for mode in held["nodes_modes"].strings]
    features, values = held["nodes_featureids"].ints, held["nodes_values"].floats
    pairs = {(at, value) for at, value, kept in zip(features, values, inner, strict=True) if kept}
    return sum(np.float32(value) in rows[:, at].astype(np.float32) for at, value in pairs) / len(pairs)


@pytest.mark.parametrize("name", ["xgboost_binary", "lightgbm_many", "forest_zipmap", "forest_double"])
def test_rows_lie_on_thresholds(name):
    source, _ = store.read(name)
    given = fed(source)
    assert [len(one["x"]) for one in given[:3]] == [1, 2, 3]
    assert count_thresholds(source, given[-1]["x"]) > 0.9 > count_thresholds(source, given[-1]["x"][:5])


def test_columns_that_are_put_side_by_side():
    source, _ = store.read("forest_many")
    node = trees_of(source)
    node.input[0] = "joined"
    source.graph.node.insert(0, onnx.helper.make_node("Concat", ["a", "b"], ["joined"], axis=1))
    del source.graph.input[:]
    for name, width in (("a", 2), ("b", 4)):
        source.graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", width]))
    last = fed(source)[-1]
    rows = np.concatenate([last["a"], last["b"]], axis=1)
    assert count_thresholds(source, rows) > 0.9


def test_other_classical_models_run_on_many_rows():
    source, _ = store.read("logistic_many")
    given = fed(source)
    assert [len(one["x"]) for one in given] == [1, 2, 3, OTHER_ROWS]
    assert [len(one["x"]) for one in fed(source, runs=2)] == [1, 2], "as many as the user asks for"
    ranged = fed(store.read("tree_many")[0], val_range=(0, 1))[-1]["x"]
    assert 0 <= ranged.min() <= ranged.max() <= 1


def test_models_without_classical_operators_run_as_before():
    source = model("y = Relu(x)", 17, inputs="float[N,4] x", outputs="float[N,4] y")
    assert [len(one["x"]) for one in fed(source)] == [1, 2, 3]
    assert draw_inputs(source, {value.name: value.type for value in source.graph.input}, 0) == {}


@pytest.mark.parametrize("name", ["xgboost_binary", "words"])
def test_labels_differ_among_rows(name):
    """With the strings of its categories among what is drawn."""
    source, _ = store.read(name)
    assert opshift.verify(source, source).remarks == ()
