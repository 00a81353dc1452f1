"""Erf from rational functions: float32 cannot tell the difference."""

import math

import numpy as np
import pytest

from tests.support import check_computes, check_refused, check_unchanged

X = np.concatenate([np.linspace(-6, 6, 4001), [0.0, -0.0, 1e-30, 0.5, -0.5, 4.0, np.inf, -np.inf, np.nan]])


@pytest.mark.parametrize(("kind", "dtype"), [("float", np.float32), ("float16", np.float16)])
def test_every_range(kind, dtype):
    x = X.astype(dtype)
    expected = np.array([math.erf(v) for v in x.astype(np.float64)]).astype(dtype)
    check_computes(
        "y = Erf(x)", 13, 8, expected, feeds={"x": x}, grade="close", inputs=f"{kind}[{len(x)}] x", outputs=f"{kind}[{len(x)}] y",
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["double", "int32"])
def test_other_types_are_refused(kind):
    check_refused("y = Erf(x)", 9, 8, "supported: float and float16", inputs=f"{kind}[2] x", outputs=f"{kind}[2] y")


def test_integer_erf_has_no_defined_rounding():
    check_refused("y = Erf(x)", 9, 13, "int32", inputs="int32[3] x", outputs="int32[3] y")
    check_unchanged("y = Erf(x)", 9, 13, inputs="float[3] x", outputs="float[3] y")
