"""Trilu before it existed."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_down, check_values, model


@pytest.mark.parametrize("target", [13, 9, 8, 7])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 3, 0), (0, 0, 1, 3), (2, 0, 0), (0, 1, 1)])
def test_triangles_of_nothing(shape, known, target):
    dims = ",".join(map(str, shape) if known else "ABCD"[: len(shape)])
    io = {"inputs": f"float[{dims}] x", "outputs": f"float[{','.join('EFGH'[: len(shape)])}] y"}
    source = model("y = Trilu<upper=1>(x, k)", 14, constants="int64 k = {-10}", **io)
    result = convert.attempt(source, {"": target})
    check_values(source, result.model, {"x": np.zeros(shape, np.float32)}, rtol=0, atol=0)


NAN, INF = np.nan, np.inf
FURTHEST = pytest.mark.newest  # onnxruntime 1.23.2 ends the process there


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [-9, -1, 0, 2, 9, *(pytest.param(k, marks=FURTHEST) for k in (2**63 - 1, -(2**63) + 1))])
@pytest.mark.parametrize("shape", ["3,4", "N,M", "B,4,3", "2,0", "2,3,3"])
def test_trilu_becomes_a_mask_below_14(upper, k, shape):
    dims = [int(d) if d.isdigit() else 5 for d in shape.split(",")]
    x = np.resize(np.array([NAN, INF, -0.0, 2.0, -INF], np.float32), dims)
    io = {"inputs": f"float[{shape}] x, int64 k", "outputs": f"float[{shape}] y"}
    check_down(f"y = Trilu<upper={upper}>(x, k)", 14, 13, 10, 8, feeds={"x": x, "k": np.array(k)}, **io)
    io = {"inputs": f"float[{shape}] x", "outputs": f"float[{shape}] y", "constants": f"int64 k = {{{k}}}"}
    check_down(f"y = Trilu<upper={upper}>(x, k)", 14, 13, 9, feeds={"x": x}, **io)


@pytest.mark.parametrize("elem_type", ["int64", "double", "bool", "int8", "bfloat16"])
def test_trilu_of_other_types_below_14(elem_type):
    io = {"inputs": f"{elem_type}[2,3] x", "outputs": f"{elem_type}[2,3] y, {elem_type}[2,3] z"}
    check_down("y = Trilu(x) z = Trilu<upper=0>(x)", 14, 13, **io)


def test_trilu_masks_by_a_constant():
    mask = "bool:[[False, False, False], [True, False, False]]"
    check("y = Trilu(x)", 14, f"y = Where({mask}, 0.0, x)", 13, inputs="float[2,3] x", outputs="float[2,3] y")
    mask = "bool:[[False, True, True], [False, False, True]]"
    text = f"y = Where({mask}, object:, x)"
    check(
        "y = Trilu<upper=0>(x)", 14, text, 13, inputs="string[2,3] x", outputs="string[2,3] y", run=False
    )  # no engine
