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


@pytest.mark.parametrize("kind", ["double", "float16"])
def test_celu_of_other_floats_is_an_elu(kind):
    check(
        "y = Celu<alpha=2.0>(x)", 28, f"t1 = Div(x, {kind}:2.0)\nt2 = Elu<alpha=1>(t1)\ny = Mul({kind}:2.0, t2)".replace("double", "float64"),
        27, inputs=f"{kind}[12] x", outputs=f"{kind}[12] y", grade="close", rtol=1e-3,
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
