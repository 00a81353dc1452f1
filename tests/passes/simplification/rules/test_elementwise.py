"""What is computed of each element is computed in the shape that there is."""

import numpy as np
import pytest

from tests.passes.simplification.rules.support import check_kept, check_optimized, optimized
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


def test_a_gemm_of_constants_is_computed():
    held = "float[2,2] a = {1, 2, 3, 4}, float[2,2] b = {1, 0, 1, 1}, float[2] c = {10, 20}"
    body = "t = Gemm<alpha=2.0, beta=0.5, transB=1>(a, b, c) y = Add(x, t)"
    source = model(body, 18, inputs="float[2,2] x", outputs="float[2,2] y", constants=held)
    made = optimized(source)
    assert [node.op_type for node in made.graph.node] == ["Add"], show(made)
    check_values(source, made, {"x": np.eye(2, dtype=np.float32)}, rtol=0, atol=0)


LOOPS = {"inputs": "float[N,3,4] x, float[N,1,4] k", "outputs": "float[A,B,C] y"}
"""Two Transposes turn [N,3,4] and [N,1,4] into [N,4,3] and [N,4,1], which go together as before."""


@pytest.mark.parametrize(
    ("between", "outputs", "after"),
    [
        ("s = Sqrt(r) y = Transpose<perm=[0,2,1]>(s)", "[A,B,C]", "y = Sqrt(x)"),
        (
            "s = Mul(r, r) y = Transpose<perm=[2,0,1]>(s)",
            "[A,B,C]",
            "t1 = Mul(x, x)\ny = Transpose<perm=[1, 0, 2]>(t1)",
        ),
        (
            "q = Transpose<perm=[0,2,1]>(k) p = Mul(q, q) s = Add(r, p) y = Transpose<perm=[1,2,0]>(s)",
            "[A,B,C]",
            "t1 = Mul(k, k)\nt2 = Add(x, t1)\ny = Transpose<perm=[2, 1, 0]>(t2)",
        ),
        (
            "s = Max(r, half) u = Unsqueeze(s, last) y = Transpose<perm=[0,3,1,2]>(u)",
            "[A,B,C,D]",
            "t1 = Max(x, 0.5)\nt2 = Unsqueeze(t1, [-1])\ny = Transpose<perm=[0, 3, 2, 1]>(t2)",
        ),
        (
            "s = Max(r, half) u = Unsqueeze(s, first) y = Transpose<perm=[3,0,1,2]>(u)",
            "[A,B,C,D]",
            "t1 = Max(x, 0.5)\nt2 = Unsqueeze(t1, [0])\ny = Transpose<perm=[2, 0, 1, 3]>(t2)",
        ),
    ],
)
def test_transposes_around_elementwise_nodes_are_one(between, outputs, after):
    constants = f"{SHAPES}, int64[1] last = {{-1}}, int64[1] first = {{0}}"
    io = LOOPS | {"outputs": f"float{outputs} y"}
    feeds = FEEDS | {"k": DATA[:, 1:2]}
    check_optimized(f"r = Transpose<perm=[0,2,1]>(x) {between}", after, constants=constants, feeds=feeds, **io)


@pytest.mark.parametrize(
    "nodes",
    [
        "s = Softmax(r) y = Transpose<perm=[0,2,1]>(s)",
        "s = Mul(r, k) y = Transpose<perm=[0,2,1]>(s)",
        "q = Transpose<perm=[0,1,2]>(k) s = Mul(r, each) y = Transpose<perm=[0,2,1]>(s)",
        "q = Transpose<perm=[2,1,0]>(k) s = Mul(r, q) y = Transpose<perm=[0,2,1]>(s)",  # another order
        "s = Relu(r) y = Transpose<perm=[0,2,1]>(s) z = ReduceMax<keepdims=0>(r)",
    ],
)
def test_transposes_around_other_nodes_stay(nodes):
    source = model(
        f"r = Transpose<perm=[0,2,1]>(x) {nodes}",
        18,
        constants="float[3] each = {1.0, 2.0, 3.0}",
        inputs="float[3,3,3] x, float[3,3,3] k",
        outputs="float[A,B,C] y" + (", float z" if "z =" in nodes else ""),
    )
    made = show(optimized(source))
    assert made.count("Transpose<") == (3 if "2,1,0" in nodes else 2), made
