"""If, Loop and Scan: what their graphs may yield and carry."""

import numpy as np
import onnx
import onnx.checker
import pytest

from opshift.passes import convert
from tests.support import check_unchanged, check_values, evaluate, model

IF = """
y = If (c) <
    then_branch = t () => ({then}) {{ a = Abs(x) }},
    else_branch = e () => ({other}) {{ b = {made} }}
>
"""


def branches(then="float[3] a", other="float[3] b", made="Neg(x)"):
    return IF.format(then=then, other=other, made=made)


def test_an_if_of_one_shape_stays():
    check_unchanged(branches(), 11, 10, inputs="float[3] x, bool c", outputs="float[3] y")
    check_unchanged(branches("float[N] a", "float[N] b"), 12, 7, inputs="float[N] x, bool c", outputs="float[N] y")
    check_unchanged(branches("float[] a", "float[] b"), 8, 25, inputs="float[3] x, bool c", outputs="float[3] y")


@pytest.mark.parametrize(
    ("stated", "made"),
    [
        ("float[1,3] b", "Unsqueeze<axes=[0]>(x)"),
        ("float[6] b", "Concat<axis=0>(x, x)"),
        ("float[M] b", "Concat<axis=0>(x, x)"),
        ("float[] b", "Concat<axis=0>(x, x)"),
    ],
)
@pytest.mark.parametrize("target", [7, 10])
def test_an_if_of_two_shapes_becomes_two_loops_below_11(stated, made, target):
    body = branches("float[3] a", stated, made) + "z = Reshape(y, flat) s = Shape(y)"
    io = {"inputs": "float[3] x, bool c", "outputs": "float[A] z, int64[R] s"}
    source = model(body, 11, constants="int64[1] flat = {-1}", **io)
    result = convert.attempt(source, {"": target})
    assert result.grade == "exact"
    onnx.checker.check_model(result.model)
    assert [n.op_type for n in result.model.graph.node] == ["Not", "Cast", "Loop", "Cast", "Loop", "Reshape", "Shape"]
    for condition in (True, False):
        feeds = {"c": np.array(condition)}
        check_values(source, result.model, feeds, rtol=0, atol=0)


def test_only_the_chosen_branch_is_run():
    """The branch not taken would divide by zero, which integers do not survive."""
    source = model(
        """y = If (c) < then_branch = t () => (int64[3] a) { a = Identity(x) },
                        else_branch = e () => (int64[6] b) { d = Div(x, zero) b = Concat<axis=0>(d, d) } >""",
        11, inputs="int64[3] x, bool c, int64[1] zero", outputs="int64[] y",
    )  # fmt: skip
    result = convert.attempt(source, {"": 10}).model
    feeds = {"x": np.arange(3), "c": np.array(True), "zero": np.zeros(1, np.int64)}
    np.testing.assert_array_equal(evaluate(result, feeds)[0], [0, 1, 2])


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
