"""Loop: what it must carry."""

import numpy as np
import onnx
import onnx.checker
import pytest
from opshift.passes.conversion import convert

from tests.support import check_unchanged, evaluate, model

LOOP = """
s = Loop (m, c) <body = b (int64 i, bool go) => (bool going, float[3] row) {
    going = Identity(go) f = Cast<to=1>(i) row = Add(x, f)
}>
"""


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_a_loop_that_carries_nothing_is_given_a_value_below_11(trips):
    io = {"inputs": "int64 m, bool c, float[3] x", "outputs": "float[T,3] s"}
    source = model(LOOP, 11, **io)
    result = convert.attempt(source, {"": 10}).model
    onnx.checker.check_model(result)
    node = result.graph.node[0]
    assert (len(node.input), len(node.output)) == (3, 2)
    assert len(node.attribute[0].g.input) == len(node.attribute[0].g.output) == 3
    feeds = {"m": np.array(trips), "c": np.array(True), "x": np.float32([-0.0, np.inf, np.nan])}
    np.testing.assert_array_equal(evaluate(result, feeds)[0], evaluate(source, feeds)[0])


def test_a_loop_without_any_input_is_given_a_value_below_11():
    body = """
    s = Loop () <body = b (int64 i, bool go) => (bool go2, int64 row) {
        go2 = Identity(go) row = Identity(i)
    }>
    """
    made = convert.attempt(model(body, 11, inputs="float x", outputs="int64[N] s"), {"": 8}).model
    assert list(made.graph.node[0].input[:2]) == ["", ""]
    assert len(made.graph.node[0].input) == 3


def test_a_loop_that_carries_a_value_stays():
    body = """
    v, s = Loop (m, c, x) <
        body = b (int64 i, bool go, float[3] old) => (bool go2, float[3] new, float[3] row) {
        go2 = Identity(go)
        new = Add(old, old) row = Neg(old)
    }>
    """
    io = {"inputs": "int64 m, bool c, float[3] x", "outputs": "float[3] v, float[N,3] s"}
    check_unchanged(body, 11, 8, **io)
