"""Two multiplications by constants are one by their product."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.optimization import optimize

from tests.passes.simplification.rules.support import check_kept, check_optimized
from tests.support import check_values

DATA = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)
DATA[0, 0] = [0.0, -0.0, np.inf, np.nan]
FEEDS = {"x": DATA}
IO = {"inputs": "float[N,3,4] x", "outputs": "float[A,B,C] y"}

FACTORS = "float a = {0.5}, float b = {0.25}, float[4] w = {1.0, 2.0, 3.0, -0.0}, float z = {0.0}, float big = {1e38}, float endless = {inf}"
FACTORS += ", float[2,1,1,1] wide = {2.0, 2.0}, int64 i = {2}"


@pytest.mark.parametrize(
    ("nodes", "after"),
    [
        ("t = Mul(x, a) y = Mul(t, b)", "y = Mul(x, 0.125)"),
        ("t = Mul(w, x) y = Mul(b, t)", "y = Mul(x, [0.25, 0.5, 0.75, -0.0])"),
    ],
)
def test_two_factors_are_one(nodes, after):
    check_optimized(nodes, after, constants=FACTORS, feeds=FEEDS, grade="close", **IO)


@pytest.mark.parametrize(
    "nodes",
    [
        "t = Mul(x, big) y = Mul(t, big)",  # the product is none
        "t = Mul(x, a) y = Mul(t, z)",
        "t = Mul(x, w) y = Mul(t, endless)",  # 0 times infinity
        "t = Mul(x, a) y = Mul(t, wide)",  # another shape
        "t = Mul(x, k) y = Mul(t, a)",
        "t = Mul(x, a) y = Mul(t, w)",  # one for each column: the second is not one number
    ],
)
def test_other_factors_stay(nodes):
    check_kept(
        nodes,
        constants=FACTORS,
        inputs="float[N,3,4] x, float k",
        outputs=f"float[{'A,B,C,D' if 'wide' in nodes else 'A,B,C'}] y",
    )


def test_a_product_that_is_read_elsewhere_stays():
    body = "t = Mul(x, a) y = Mul(t, b)"
    check_kept(body, constants=FACTORS, inputs="float[N,3,4] x", outputs="float[A,B,C] y, float[A,B,C] t")


def test_integers_stay():
    check_kept("t = Mul(x, i) y = Mul(t, i)", constants=FACTORS, inputs="int64[N] x", outputs="int64[N] y")


MODEL = """
<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
g (float[2,3,4] x, bool c) => (float[2,3,4] y) <int64[2] a = {6, 4}, int64[3] b = {2, 3, 4}> {
  y = If (c) <
    then_branch = t () => (float[2,3,4] t_y) { r = Reshape(x, a) m = Relu(r) t_y = Reshape(m, b) },
    else_branch = f () => (float[2,3,4] f_y) { f_y = local.scaled(x) }
  >
}
<domain: "local", opset_import: ["" : 18]>
scaled (v) => (w) { a = Constant<value_float=0.5>() b = Constant<value_float=0.25>() t = Mul(v, a) w = Mul(t, b) }
"""


@pytest.mark.parametrize("condition", [True, False])
def test_in_a_branch_and_in_a_function(condition):
    before = onnx.parser.parse_model(MODEL)
    made = optimize.attempt(before).model
    (then,) = (a.g for a in made.graph.node[0].attribute if a.name == "then_branch")
    assert [node.op_type for node in then.node] == ["Relu"]
    assert [node.op_type for node in made.functions[0].node if node.op_type != "Constant"] == ["Mul"]
    check_values(before, made, {**FEEDS, "c": np.asarray(condition)}, rtol=0, atol=0)
