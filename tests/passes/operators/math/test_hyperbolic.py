"""Hyperbolic functions, Sign, Round and ThresholdedRelu, at every kind of number."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_computes, evaluate, model

DTYPES = {"float": np.float32, "double": np.float64, "float16": np.float16}
VALUES = [
    0.0,
    -0.0,
    1e-30,
    -1e-8,
    1e-4,
    -0.3,
    0.5,
    1.0,
    -1.0,
    1.0000001,
    2.5,
    -9.0,
    88.0,
    710.0,
    -1e10,
    1e300,
    np.inf,
    -np.inf,
    np.nan,
]
NUMPY = {"Sinh": np.sinh, "Cosh": np.cosh, "Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh}


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("op", NUMPY)
def test_hyperbolic_functions(op, kind):
    with np.errstate(all="ignore"):
        x = np.array(VALUES).astype(DTYPES[kind])
        expected = NUMPY[op](x.astype(np.float64)).astype(x.dtype)
    rtol = 4e-15 if kind == "double" else np.finfo(x.dtype).eps
    n = len(VALUES)
    made = check_computes(
        f"y = {op}(x)", 9, 8, expected, feeds={"x": x}, grade="close", rtol=rtol, inputs=f"{kind}[{n}] x", outputs=f"{kind}[{n}] y",
    )  # fmt: skip
    assert all(node.op_type not in NUMPY for node in made.graph.node)


def lowered(op, x):
    source = model(f"y = {op}(x)", 11, inputs=f"float[{len(x)}] x", outputs=f"float[{len(x)}] y")
    return evaluate(convert.attempt(source, {"": 10 if op == "Round" else 8}).model, {"x": x})[0]


@pytest.mark.parametrize("op", ["Asinh", "Atanh", "Round"])
def test_the_sign_of_zero(op):
    x = np.array([0.0, -0.0, -0.25, 0.25] if op == "Round" else [0.0, -0.0, -1.0, 1.0], np.float32)
    assert np.signbit(lowered(op, x)).tolist() == [False, True, True, False]


@pytest.mark.parametrize("kind", DTYPES)
def test_halves_are_rounded_to_even(kind):
    x = np.array(
        [
            -2.5,
            -1.5,
            -0.5,
            0.5,
            1.5,
            2.5,
            0.49999997,
            -0.49999997,
            0.50000006,
            2047.5,
            8388607.5,
            -7.7,
            1e30,
            np.inf,
            -np.inf,
            np.nan,
        ]
    )
    with np.errstate(all="ignore"):
        x = x.astype(DTYPES[kind])
    check_computes("y = Round(x)", 11, 10, np.round(x), feeds={"x": x}, inputs=f"{kind}[16] x", outputs=f"{kind}[16] y")


@pytest.mark.parametrize("kind", [*DTYPES, "int8", "int64", "uint8", "uint64"])
def test_signs(kind):
    dtype = DTYPES.get(kind, kind)
    x = np.array(
        [0, 1, 2, 100, np.iinfo(kind).max, np.iinfo(kind).min]
        if kind not in DTYPES
        else [0, -0.0, np.nan, np.inf, -np.inf, -3],
        dtype,
    )
    check_computes("y = Sign(x)", 9, 8, np.sign(x), feeds={"x": x}, inputs=f"{kind}[6] x", outputs=f"{kind}[6] y")


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
