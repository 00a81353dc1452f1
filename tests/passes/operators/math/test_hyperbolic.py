"""Hyperbolic functions, at every kind of number."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check_computes, evaluate, model

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


@pytest.mark.parametrize("op", ["Asinh", "Atanh"])
def test_the_sign_of_zero(op):
    x = np.array([0.0, -0.0, -1.0, 1.0], np.float32)
    source = model(f"y = {op}(x)", 9, inputs="float[4] x", outputs="float[4] y")
    y = evaluate(convert.attempt(source, {"": 8}).model, {"x": x})[0]
    assert np.signbit(y).tolist() == [False, True, True, False]
