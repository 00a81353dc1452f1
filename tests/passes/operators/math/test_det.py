"""Determinants by cofactors, and by elimination."""

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


LARGE = [RNG.normal(size=(n, n)) for n in (5, 6, 9)]
LARGE += [np.eye(7)[RNG.permutation(7)] * [1, 2, 3, -1, 1, 0.5, 1], np.arange(36.0).reshape(6, 6), np.zeros((5, 5))]


@pytest.mark.parametrize("matrix", LARGE)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("kind", "rtol"), [("float", 1e-4), ("double", 1e-11)])
def test_large_matrices_are_eliminated(matrix, known, kind, rtol):
    for batch in ((), (2,), (2, 3)):
        x = np.stack([matrix, matrix[::-1], matrix * 2, matrix.T, -matrix, matrix[:, ::-1]][: int(np.prod(batch))])
        x = x.reshape(*batch, *matrix.shape).astype(np.float32 if kind == "float" else kind)
        expected = np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype)
        dims = ",".join(map(str, x.shape) if known else "ABCD"[: x.ndim])
        out = f"[{','.join('PQ'[: len(batch)])}]" if batch else ""
        io = {"inputs": f"{kind}[{dims}] x", "outputs": f"{kind}{out} y"}
        for target in (10, 9, 8):
            check_computes(
                "y = Det(x)", 11, target, expected, feeds={"x": x}, grade="close", rtol=rtol, atol=rtol, **io
            )


def test_rows_that_are_done_do_not_overflow():
    x = np.triu(np.full((5, 5), 1e30, np.float32))
    x[range(1, 5), range(1, 5)] = [1e-10, 1, 1, 1]
    x[1:, 2:] = np.triu(np.ones((4, 3)), -1)
    expected = np.asarray(np.linalg.det(x.astype(np.float64))).astype(np.float32)
    io = {"inputs": "float[5,5] x", "outputs": "float y"}
    check_computes("y = Det(x)", 11, 10, expected, feeds={"x": x}, grade="close", rtol=1e-5, **io)


@pytest.mark.parametrize("size", [0, 1, 2])
def test_a_size_that_is_known_only_at_run_time(size):
    x = RNG.normal(size=(3, size, size)).astype(np.float32)
    expected = np.linalg.det(x.astype(np.float64)).astype(np.float32)
    io = {"inputs": "float[B,N,N] x", "outputs": "float[B] y"}
    check_computes("y = Det(x)", 11, 10, expected, feeds={"x": x}, grade="close", rtol=1e-5, atol=1e-6, **io)


def test_a_matrix_of_unknown_rank_is_refused():
    io = {"inputs": "float[36] x, int64[P] s", "outputs": "float y"}
    check_refused("d = Reshape(x, s) y = Det(d)", 11, 10, 'the rank of "d" is unknown', **io)
    check_refused("y = Det(x)", 11, 10, "Det gets data of rank 1", inputs="float[3] x", outputs="float y")


@pytest.mark.parametrize(
    ("dims", "shape"),
    [
        ("0,0", (0, 0)),
        ("2,0,0", (2, 0, 0)),
        ("N,0,0", (2, 0, 0)),
        ("N,M,M", (0, 5, 5)),
        ("A,B,5,5", (2, 0, 5, 5)),
        ("N,M,M", (2, 1, 1)),
    ],
)
def test_matrices_of_no_size_and_no_matrices(dims, shape):
    x = np.full(shape, 3, np.float32)
    expected = np.linalg.det(x.astype(np.float64)).astype(np.float32)
    check_computes(
        "y = Det(x)", 11, 10, np.asarray(expected), feeds={"x": x}, grade="close", rtol=1e-5,
        inputs=f"float[{dims}] x", outputs=f"float[{','.join('PQ'[: len(shape) - 2])}] y" if len(shape) > 2 else "float y",
    )  # fmt: skip
