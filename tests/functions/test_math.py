"""The activations as functions of older operators."""

import math

import ml_dtypes
import numpy as np
import pytest

from tests.support import check, check_computes, check_refused, check_unchanged

X = np.array([0.0, -0.0, 1.5, -2.25, 0.5, -0.5, 30.0, -30.0, np.inf, np.nan, 1e-3, -4.0])
IO = {"inputs": "float[12] x", "outputs": "float[12] y"}
TYPES = {
    "float": (np.float32, 1e-5),
    "double": (np.float64, 1e-6),  # what runtimes compute of Erf, and alpha=1/6 in float32
    "float16": (np.float16, 2**-10),
    "bfloat16": (ml_dtypes.bfloat16, 2**-7),
}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x * math.sqrt(0.5)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


CASES = [
    ("Gelu", 20, gelu),
    ('Gelu<approximate="none">', 20, gelu),
    ('Gelu<approximate="tanh">', 20, gelu_tanh),
    ("Mish", 18, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    ("Swish", 24, lambda x: x * sigmoid(x)),
    ("Swish<alpha=0.5>", 24, lambda x: x * sigmoid(0.5 * x)),
    ("HardSwish", 14, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    ("Celu<alpha=2.0>", 12, lambda x: np.maximum(x, 0) + np.minimum(0, 2 * np.expm1(x / 2))),
]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("op", "first", "formula"), CASES)
def test_activations_by_their_formulas(op, first, formula, kind):
    dtype, rtol = TYPES[kind]
    x = X.astype(dtype)
    with np.errstate(all="ignore"):
        expected = formula(x.astype(np.float64)).astype(dtype)
    opset, target = (28, 13 if kind == "bfloat16" and first < 14 else first - 1) if first < 20 else (first, first - 1)
    io = {"inputs": f"{kind}[12] x", "outputs": f"{kind}[12] y"}
    check_computes(f"y = {op}(x)", opset, target, expected, feeds={"x": x}, grade="close", rtol=rtol, atol=rtol, **io)


@pytest.mark.parametrize("alpha", [1.0, -0.5])
def test_swiglu(alpha):
    a, b = X.astype(np.float32), np.resize([2.0, -3.0, 0.25], 12).astype(np.float32)
    with np.errstate(all="ignore"):
        expected = a * sigmoid(alpha * a.astype(np.float64)).astype(np.float32) * b
    check_computes(
        f"y = SwiGLU<alpha={alpha}>(a, b)", 28, 9, expected, feeds={"a": a, "b": b}, grade="close", rtol=1e-5, atol=1e-5,
        inputs="float[12] a, float[12] b", outputs="float[12] y",
    )  # fmt: skip


@pytest.mark.newest
def test_only_what_the_call_needs():
    check("y = Swish(x)", 24, "t1 = Sigmoid(x)\ny = Mul(x, t1)", 23, grade="close", rtol=1e-6, **IO)
    check(
        "y = Gelu(x)", 20, "t1 = Mul(0.707107, x)\nt2 = Erf(t1)\nt3 = Mul(0.5, x)\nt4 = Add(1.0, t2)\ny = Mul(t3, t4)", 19,
        grade="close", rtol=1e-6, atol=1e-7, **IO,
    )  # fmt: skip


@pytest.mark.parametrize(("op", "first"), [("Gelu", 20), ("Mish", 18), ("Swish", 24), ("HardSwish", 14)])
def test_nothing_changes_from_the_first_version_on(op, first):
    check_unchanged(f"y = {op}(x)", 28, max(first, 22), **IO)


def test_an_unknown_approximation_is_refused():
    check_refused('y = Gelu<approximate="sigmoid">(x)', 20, 19, "approximate='sigmoid'; supported: none or tanh", **IO)


def test_inside_a_branch():
    branch = "g{ z = Gelu(x) }"
    check_computes(
        f"y = If(c) <then_branch = then_{branch.replace('g{', ' () => (float[8] z) {')}, else_branch = other_ () => (float[8] w) {{ w = Neg(x) }}>",
        20, 13, gelu(X[:8]).astype(np.float32), feeds={"c": np.array(True), "x": X[:8].astype(np.float32)}, grade="close",
        rtol=3e-6, atol=1e-7, inputs="bool c, float[8] x", outputs="float[8] y",
    )  # fmt: skip
