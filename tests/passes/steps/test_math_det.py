"""Determinants by cofactors."""

import numpy as np
import pytest

from tests.support import check, check_computes, check_refused

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("kind", ["float", "double", "float16"])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_small_matrices(batch, size, kind):
    dtype = {"float": np.float32, "double": np.float64, "float16": np.float16}[kind]
    x = RNG.normal(size=(*batch, size, size)).astype(dtype)
    expected = np.asarray(np.linalg.det(x.astype(np.float64))).astype(dtype)
    rtol = {"float": 1e-5, "double": 1e-12, "float16": 2e-3}[kind]
    dims = f"[{','.join(map(str, batch))}]" if batch else ""
    check_computes(
        "y = Det(x)", 11, 10, expected, feeds={"x": x}, grade="close", rtol=rtol, atol=rtol,
        inputs=f"{kind}[{','.join(map(str, x.shape))}] x", outputs=f"{kind}{dims} y",
    )  # fmt: skip


def test_a_matrix_of_one_row():
    check(
        "y = Det(x)",
        22,
        "t1 = Gather<axis=1>(x, 0)\ny = Gather<axis=1>(t1, 0)",
        10,
        grade="close",
        inputs="float[N,1,1] x",
        outputs="float[N] y",
    )


@pytest.mark.parametrize(("dims", "why"), [("5,5", "a matrix of 5 rows; 1 to 4"), ("N,N", "a matrix of unknown size")])
def test_larger_matrices_are_refused(dims, why):
    check_refused("y = Det(x)", 11, 10, why, inputs=f"float[{dims}] x", outputs="float y")
