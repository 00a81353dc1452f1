"""What is computed of each element is computed in the shape that there is; factors become one."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.optimization import optimize

from tests.passes.optimization.rules.support import check_kept, check_optimized, optimized
from tests.support import check_values, model, show

DATA = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)
DATA[0, 0] = [0.0, -0.0, np.inf, np.nan]
FEEDS = {"x": DATA}
IO = {"inputs": "float[N,3,4] x", "outputs": "float[A,B,C] y"}
SHAPES = (
    "int64[2] a = {-1, 4}, int64[3] b = {-1, 3, 4}, int64[3] o = {-1, 4, 3}, float half = {0.5}, float[1] one = {1.0}"
)
SHAPES += ", float[4] each = {1.0, 2.0, 3.0, 4.0}"


@pytest.mark.parametrize(
    ("between", "after"),
    [
        ("s = Relu(r)", "y = Relu(x)"),
        ("s = Elu<alpha=0.5>(r)", "y = Elu<alpha=0.5>(x)"),
        ("p = Tanh(r) s = Mul(r, p)", "t1 = Tanh(x)\ny = Mul(x, t1)"),
        ("p = Mul(r, half) q = Pow(r, half) s = Add(p, q)", "t1 = Mul(x, 0.5)\nt2 = Pow(x, 0.5)\ny = Add(t1, t2)"),
        ("s = Clip(r, , half)", "y = Clip(x, _, 0.5)"),
        ("p = Tanh(r) q = Abs(p) s = Pow(q, p)", "t1 = Tanh(x)\nt2 = Abs(t1)\ny = Pow(t2, t1)"),
    ],
)
def test_what_is_between_two_reshapes_does_without_them(between, after):
    check_optimized(f"r = Reshape(x, a) {between} y = Reshape(s, b)", after, constants=SHAPES, feeds=FEEDS, **IO)


@pytest.mark.parametrize(
    "nodes",
    [
        "r = Reshape(x, a) s = Relu(r) y = Reshape(s, o)",  # another shape
        "r = Reshape(x, a) s = Softmax(r) y = Reshape(s, b)",
        "r = Reshape(x, a) s = Mul(r, each) y = Reshape(s, b)",
        "r = Reshape(x, a) p = Reshape(k, a) s = Mul(r, p) y = Reshape(s, b)",
        "r = Reshape(x, a) s = Add(r, f) y = Reshape(s, b)",
    ],
)
def test_other_nodes_between_stay(nodes):
    io = {"inputs": "float[N,3,4] x, float[N,3,4] k, float f", "outputs": "float[A,B,C] y"}
    check_kept(nodes, constants=SHAPES, **io)


def test_bounds_stay_scalars():
    constants = "int64[0] none = {}, int64[2] ones = {1, 1}, float two = {2.0}"
    body = "r = Reshape(x, none) s = Clip(two, r) y = Reshape(s, ones)"
    check_kept(body, constants=constants, inputs="float[1,1] x", outputs="float[1,1] y")


def test_what_is_read_elsewhere_stays_between():
    body = "r = Reshape(x, a) s = Relu(r) y = Reshape(s, b) z = ReduceMax<keepdims=0>(s)"
    check_kept(body, constants=SHAPES, inputs="float[N,3,4] x", outputs="float[A,B,C] y, float z")


def test_the_value_before_may_be_read_elsewhere():
    check_optimized(
        "r = Reshape(x, a) s = Relu(r) y = Reshape(s, b) z = Softmax(r)",
        "t1 = Reshape(x, [-1, 4])\ny = Relu(x)\nz = Softmax(t1)",
        constants=SHAPES,
        feeds=FEEDS,
        inputs="float[N,3,4] x",
        outputs="float[A,B,C] y, float[D,E] z",
    )


# --- factors ------------------------------------------------------------------------------------------------

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


def test_a_gemm_of_constants_is_computed():
    held = "float[2,2] a = {1, 2, 3, 4}, float[2,2] b = {1, 0, 1, 1}, float[2] c = {10, 20}"
    body = "t = Gemm<alpha=2.0, beta=0.5, transB=1>(a, b, c) y = Add(x, t)"
    source = model(body, 18, inputs="float[2,2] x", outputs="float[2,2] y", constants=held)
    made = optimized(source)
    assert [node.op_type for node in made.graph.node] == ["Add"], show(made)
    check_values(source, made, {"x": np.eye(2, dtype=np.float32)}, rtol=0, atol=0)
