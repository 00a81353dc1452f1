"""Ceil and Round: the sign of zero, halves, and bfloat16."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators.on_request import X, computed, same_bits
from tests.support import check, check_computes, evaluate, model


def test_rounding_bfloat16_is_exact_in_float():
    check("y = Round(x)", 22, "t1 = Cast<to=1>(x)\nt2 = Round(t1)\ny = Cast<to=16>(t2)", 21,
          inputs="bfloat16[6] x", outputs="bfloat16[6] y")  # fmt: skip


DTYPES = {"float": np.float32, "double": np.float64, "float16": np.float16}


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


def test_the_sign_of_zero_is_kept():
    x = np.array([0.0, -0.0, -0.25, 0.25], np.float32)
    source = model("y = Round(x)", 11, inputs="float[4] x", outputs="float[4] y")
    y = evaluate(convert.attempt(source, {"": 10}).model, {"x": x})[0]
    assert np.signbit(y).tolist() == [False, True, True, False]


@pytest.mark.parametrize("opset", [13, 22])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_ceilings(dtype, opset):
    x = X.astype(dtype)
    same_bits(computed("Ceil(x)", x, opset=opset, kind="float16" if dtype == np.float16 else None), np.ceil(x))
    same_bits(computed("Ceil(x)", np.array(-0.5, np.float32)), np.array(-0.0, np.float32))
