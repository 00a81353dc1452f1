"""CumSum and CumProd before they existed: scans along constant and computed axes."""

import numpy as np
import pytest

from tests.passes.operators.elements import CODE, array
from tests.support import check, check_computes, check_refused, evaluate

X = np.array([[1.5, -2.0, 3.0, 0.5], [2.0, np.inf, -1.0, 4.0], [-3.0, 1.0, np.nan, 2.0]], np.float32)


def cumulated(op, x, axis, exclusive, reverse):
    x = np.flip(x, axis) if reverse else x
    y = (np.cumsum if op == "CumSum" else np.cumprod)(x, axis=axis, dtype=x.dtype)
    if exclusive:
        first = np.full_like(np.take(y, [0], axis), 0 if op == "CumSum" else 1)
        y = np.concatenate([first, np.delete(y, -1, axis)], axis)
    return np.flip(y, axis) if reverse else y


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(("op", "first"), [("CumSum", 11), ("CumProd", 26)])
def test_constant_axes(op, first, axis, exclusive, reverse):
    made = check_computes(
        f"y = {op}<exclusive={exclusive}, reverse={reverse}>(x, a)", first, 10, cumulated(op, X, axis, exclusive, reverse),
        feeds={"x": X}, inputs="float[3,4] x", outputs="float[3,4] y", constants=f"int32 a = {{{axis}}}",
    )  # fmt: skip
    assert [node.op_type for node in made.graph.node] == ["Scan"]


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_axes_known_at_run_time(axis):
    x = np.arange(24, dtype=np.int64).reshape(2, 3, 4) - 7
    made = check_computes(
        "y = CumSum(x, a)", 14, 10, np.cumsum(x, axis=axis), feeds={"x": x, "a": np.array([axis])},
        inputs="int64[N,3,M] x, int64[1] a", outputs="int64[N,3,M] y",
    )  # fmt: skip
    assert sum(node.op_type == "If" for node in made.graph.node) == 1


def test_empty_data():
    """Empty across the axis; along it onnxruntime runs no Scan."""
    shape = (3, 0)
    made = check_computes(
        "y = CumSum(x, a)", 11, 10, np.zeros(shape, np.float32), feeds={"x": np.zeros(shape, np.float32)},
        inputs="float[N,M] x", outputs="float[N,M] y", constants="int64 a = {0}",
    )  # fmt: skip
    assert evaluate(made, {"x": X})[0].shape == X.shape


def test_integers_wrap():
    x = np.array([2**31 - 1, 2, 3], np.int32)
    check_computes(
        "y = CumProd(x, a)", 26, 13, np.cumprod(x, dtype=np.int32), feeds={"x": x}, inputs="int32[3] x", outputs="int32[3] y",
        constants="int64 a = {0}",
    )  # fmt: skip


def test_an_axis_outside_is_refused():
    check_refused(
        "y = CumSum(x, a)", 11, 10, "axis 2 is out of range for rank 2", inputs="float[3,4] x", outputs="float[3,4] y", constants="int64 a = {2}",
    )  # fmt: skip


@pytest.mark.parametrize("taken", [True, False])
def test_inside_a_branch(taken):
    branches = [
        "t () => (float[3,4] z) { a = Constant<value_int = 1>() z = CumSum(x, a) }",
        "e () => (float[3,4] w) { w = Round(x) }",
    ]
    check_computes(
        f"y = If(c) <then_branch = {branches[0]}, else_branch = {branches[1]}>", 20, 9,
        np.cumsum(X, axis=1, dtype=np.float32) if taken else np.round(X), feeds={"c": np.array(taken), "x": X},
        inputs="bool c, float[3,4] x", outputs="float[3,4] y",
    )  # fmt: skip


@pytest.mark.parametrize("target", [10, 9, 8])
@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (0, 0), (1, 2)])
@pytest.mark.parametrize("dims", ["static", "N,M"])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_what_has_no_element_has_no_sums(axis, dims, shape, target):
    dims = ",".join(map(str, shape)) if dims == "static" else dims
    given, constants = ("", f"int64 a = {{{axis}}}") if axis is not None else (", int64 a", "")
    feeds = {"x": np.ones(shape, np.float32)} | ({} if axis is not None else {"a": np.array(0)})
    check_computes(
        "y = CumSum(x, a)", 11, target, np.cumsum(feeds["x"], axis or 0), feeds=feeds, inputs=f"float[{dims}] x{given}",
        outputs="float[A,B] y", constants=constants,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_sums_of_16_bit_floats_are_taken_in_float(kind):
    check(
        "y = CumSum<reverse=1>(x, a)", 14, f"t1 = Cast<to=1>(x)\nt2 = CumSum<reverse=1>(t1, 0)\ny = Cast<to={CODE[kind]}>(t2)",
        13, inputs=f"{kind}[4] x", outputs=f"{kind}[4] y", constants="int64 a = {0}", grade="close",
        feeds={"x": array(kind, [1.0, 2.0, -3.0, 0.5])},
    )  # fmt: skip


def test_data_of_unknown_sizes():
    """Of which the graph tells nothing but how many there are: onnxruntime asks for the ranks in a Scan."""
    check_computes(
        "a = Reshape(x, s) b = Transpose<perm=[1,0]>(a) y = CumSum(b, k)", 14, 10, np.cumsum(X[1:].T, axis=1),
        feeds={"x": X[1:].reshape(-1), "s": np.array([2, 4])}, inputs="float[8] x, int64[N] s", outputs="float[P,Q] y",
        constants="int64 k = {1}",
    )  # fmt: skip
