"""Activations: integers, thresholds, defaults that were settled, and Celu of other types."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_computes, check_unchanged, model, show

IO = {"inputs": "float[3] x", "outputs": "float[3] y"}


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64"])
def test_relu_of_integers_is_a_maximum_below_14(kind):
    check(
        "y = Relu(x)",
        14,
        f"y = Max(x, {kind}:0)".replace("int64:", ""),
        13,
        inputs=f"{kind}[3] x",
        outputs=f"{kind}[3] y",
    )


def test_relu_of_floats_stays():
    check_unchanged("y = Relu(x)", 14, 7, inputs="float[3] x", outputs="float[3] y")


def test_celu_of_doubles_is_an_elu():
    check(
        "y = Celu<alpha=2.0>(x)", 28,
        """t1 = Min(x, float64:0.0)
t2 = Div(t1, float64:2.0)
t3 = Elu<alpha=1>(t2)
t4 = Mul(float64:2.0, t3)
t5 = Max(x, float64:0.0)
        y = Add(t5, t4)""",
        27, inputs="double[12] x", outputs="double[12] y", grade="close", rtol=1e-6,
    )  # fmt: skip


def test_celu_of_float16_is_an_elu_of_floats():
    check(
        "y = Celu<alpha=2.0>(x)", 28,
        """t1 = Cast<to=1>(x)
t2 = Min(t1, 0.0)
t3 = Div(t2, 2.0)
t4 = Elu<alpha=1>(t3)
t5 = Mul(2.0, t4)
t6 = Max(t1, 0.0)
        t7 = Add(t6, t5)
y = Cast<to=10>(t7)""",
        27, inputs="float16[12] x", outputs="float16[12] y", grade="close", rtol=1e-3,
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "dtype", "alpha"), [("float16", np.float16, 1e-5), ("double", np.float64, 1e-38)])
def test_celu_of_a_small_alpha_does_not_overflow(kind, dtype, alpha):
    x = np.array([0, 1, 5, 6e4, -1], dtype)
    expected = np.array([0, 1, 5, 6e4, -alpha], dtype)
    check_computes(
        f"y = Celu<alpha={alpha}>(x)", 28, 27, expected, feeds={"x": x}, grade="close", rtol=1e-2,
        inputs=f"{kind}[5] x", outputs=f"{kind}[5] y",
    )  # fmt: skip


def test_celu_of_floats_stays():
    check_unchanged("y = Celu(x)", 28, 12, inputs="float[3] x", outputs="float[3] y")


@pytest.mark.parametrize(
    ("kind", "opset", "target"),
    [("float", 13, 11), ("float", 12, 7), ("double", 28, 27), ("double", 28, 10), ("float16", 28, 11)],
)
def test_celu_with_a_negative_alpha(kind, opset, target):
    dtype = {"float": np.float32, "double": np.float64, "float16": np.float16}[kind]
    x = np.array([-2, -0.5, -0.0, 0.0, 0.5, 2, np.inf, -np.inf, np.nan], dtype)
    wide, alpha = x.astype(np.float64), np.float64(np.float32(-0.3))
    with np.errstate(all="ignore"):
        expected = (np.maximum(wide, 0) + np.minimum(0, alpha * (np.exp(wide / alpha) - 1))).astype(dtype)
    check_computes(
        "y = Celu<alpha=-0.3>(x)", opset, target, expected, feeds={"x": x}, grade="close", rtol=2e-2 if kind == "float16" else 1e-5,
        inputs=f"{kind}[9] x", outputs=f"{kind}[9] y",
    )  # fmt: skip


def test_defaults_of_selu_are_written_out():
    up = convert.attempt(model("y = Selu(x)", 1, **IO), {"": 6}).model
    assert show(up) == "y = Selu<alpha=1.6732, gamma=1.0507>(x)"
    down = convert.attempt(model("y = Selu(x)", 6, **IO), {"": 1}).model
    assert show(down) == "y = Selu<alpha=1.67326, gamma=1.0507>(x)"
    ((alpha, gamma),) = [[a.f for a in n.attribute] for n in down.graph.node]
    assert (alpha, gamma) == (1.67326319217681884765625, 1.05070102214813232421875)
    check_unchanged("y = Selu<alpha=1.0, gamma=2.0>(x)", 1, 22, **IO)


def test_a_threshold_keeps_infinity_and_drops_nan():
    x = np.array([0.5, 1.0, 1.5, np.inf, -np.inf, np.nan], np.float32)
    check_computes(
        "y = ThresholdedRelu(x)", 10, 9, np.array([0, 0, 1.5, np.inf, 0, 0], np.float32), feeds={"x": x},
        inputs="float[6] x", outputs="float[6] y",
    )  # fmt: skip
    check(
        "y = ThresholdedRelu<alpha=-0.5>(x)", 10, "t1 = Greater(x, -0.5)\ny = Where(t1, x, 0.0)", 9,
        inputs="float[6] x", outputs="float[6] y",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("alpha", "expected"), [("0.3", [0.30004883, 0, np.inf]), ("1e6", [0, 0, np.inf]), ("-1e6", [0.30004883, -65504, np.inf])]
)  # fmt: skip
def test_a_threshold_between_two_float16_is_none_of_them(alpha, expected):
    check_computes(
        f"y = ThresholdedRelu<alpha={alpha}>(x)", 10, 9, np.array(expected, np.float16), feeds={"x": np.array([0.30004883, -65504, np.inf], np.float16)},
        inputs="float16[3] x", outputs="float16[3] y",
    )  # fmt: skip
