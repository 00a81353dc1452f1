"""Two nodes that bound a value become one Clip."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.optimization import optimize

from tests.passes.simplification.rules.support import check_kept, check_optimized
from tests.support import check_values

SPECIAL = [[0.0, -0.0, np.inf], [-np.inf, np.nan, 7.0], [1.0, -1.0, 6.0]]
FEEDS = {"x": np.asarray(SPECIAL, np.float32)}
IO = {"inputs": "float[N,3] x", "outputs": "float[N,3] y"}
BOUNDS = "float lo = {-1.0}, float hi = {6.0}, float zero = {0.0}, float minus = {-0.0}, float bad = {nan}, float[1] six = {6.0}"
BOUNDS += ", float[3] each = {1.0, 2.0, 3.0}, float[3] alike = {6.0, 6.0, 6.0}, float[2,1,1] wide = {6.0, 6.0}"


@pytest.mark.parametrize(
    ("nodes", "after"),
    [
        ("t = Max(x, lo) y = Min(t, hi)", "y = Clip(x, -1.0, 6.0)"),
        ("t = Max(lo, x) y = Min(hi, t)", "y = Clip(x, -1.0, 6.0)"),
        ("t = Min(x, hi) y = Max(t, lo)", "y = Clip(x, -1.0, 6.0)"),
        ("t = Min(x, six) y = Max(alike, t)", "y = Clip(x, 6.0, 6.0)"),
        ("t = Relu(x) y = Min(t, hi)", "y = Clip(x, 0.0, 6.0)"),
        ("t = Relu(x) y = Clip(t, zero, hi)", "y = Clip(x, 0.0, 6.0)"),
    ],
)
@pytest.mark.parametrize("opset", [11, 12, 13, 18])
def test_two_bounds_are_one_clip(nodes, after, opset):
    check_optimized(nodes, after, opset, constants=BOUNDS, feeds=FEEDS, **IO)


def test_doubles_have_double_bounds():
    io = {"inputs": "double[N,3] x", "outputs": "double[N,3] y", "constants": "double a = {0.0}, double b = {6.0}"}
    feeds = {"x": np.asarray(SPECIAL)}
    check_optimized("t = Max(x, a) y = Min(t, b)", "y = Clip(x, float64:0.0, float64:6.0)", feeds=feeds, **io)


@pytest.mark.parametrize("nodes", ["t = Max(x, a) y = Min(t, b)", "t = Min(b, x) y = Max(t, a)"])
def test_doubles_stay_where_no_runtime_clips_them(nodes):
    """onnxruntime has kernels of Max and Min of doubles at 11, but none of Clip."""
    io = {"inputs": "double[N,3] x", "outputs": "double[N,3] y", "constants": "double a = {0.0}, double b = {6.0}"}
    check_kept(nodes, 11, **io)
    check_optimized(nodes, "y = Clip(x, float64:0.0, float64:6.0)", 12, feeds={"x": np.asarray(SPECIAL)}, **io)


def test_integers_stay():
    io = {"inputs": "int64[N,3] x", "outputs": "int64[N,3] y", "constants": "int64 a = {0}, int64 b = {6}"}
    check_kept("t = Max(x, a) y = Min(t, b)", **io)


@pytest.mark.parametrize(
    "nodes",
    [
        "t = Max(x, hi) y = Min(t, lo)",  # bounds that cross
        "t = Max(x, each) y = Min(t, hi)",
        "t = Max(x, lo, zero) y = Min(t, hi)",
        "t = Max(x, bad) y = Min(t, hi)",
        "t = Max(x, lo) y = Min(t, wide)",
        "t = Max(x, x) y = Min(t, hi)",
        "t = Relu(x) y = Min(t, lo)",
        "t = Relu(x) y = Clip(t, lo, hi)",
        "t = Relu(x) y = Clip(t, , hi)",
        "t = Relu(x) y = Clip(t, minus, hi)",  # of what is negative, 0.0 is left
        "t = Relu(x) y = Clip(t, minus)",
        "t = Relu(x) y = Min(t, minus)",
        "t = Max(x, zero) y = Min(t, minus)",
        "t = Min(x, zero) y = Max(t, minus)",
    ],
)
def test_other_bounds_stay(nodes):
    check_kept(
        nodes, constants=BOUNDS, inputs="float[N,3] x", outputs=f"float[{'A,B,C' if 'wide' in nodes else 'A,B'}] y"
    )


def test_before_clip_took_its_bounds_as_inputs_they_stay():
    check_kept("t = Max(x, lo) y = Min(t, hi)", 10, constants="float lo = {-1.0}, float hi = {6.0}", **IO)


def test_what_is_read_elsewhere_stays():
    check_optimized(
        "t = Max(x, lo) y = Min(t, hi)",
        "t = Max(x, -1.0)\ny = Clip(x, -1.0, 6.0)",
        constants=BOUNDS,
        feeds=FEEDS,
        inputs="float[N,3] x",
        outputs="float[N,3] t, float[N,3] y",
    )


MODEL = """
<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
g (float[N,3] x, bool c) => (float[N,3] y) <float a = {0.0}, float b = {6.0}> {
  y = If (c) <
    then_branch = t () => (float[N,3] t_y) { p = Max(x, a) t_y = Min(p, b) },
    else_branch = f () => (float[N,3] f_y) { f_y = local.bounded(x) }
  >
}
<domain: "local", opset_import: ["" : 18]>
bounded (v) => (w) { a = Constant<value_float=0.0>() b = Constant<value_float=6.0>() r = Relu(v) w = Clip(r, a, b) }
"""


@pytest.mark.parametrize("condition", [True, False])
def test_in_a_branch_and_in_a_function(condition):
    before = onnx.parser.parse_model(MODEL)
    made = optimize.attempt(before).model
    (then,) = (a.g for a in made.graph.node[0].attribute if a.name == "then_branch")
    assert [node.op_type for node in then.node] == ["Clip"]
    assert [node.op_type for node in made.functions[0].node if node.op_type != "Constant"] == ["Clip"]
    check_values(before, made, {**FEEDS, "c": np.asarray(condition)}, rtol=0, atol=0)
