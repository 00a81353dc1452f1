"""ReverseSequence before it existed."""

import numpy as np
import pytest

from tests.support import check_down


@pytest.mark.newest
@pytest.mark.parametrize(("time", "batch"), [(0, 1), (1, 0)])
@pytest.mark.parametrize("shape", ["4,3", "4,3,2", "N,M", "N,M,K,L"])
def test_reverse_sequence_below_10(time, batch, shape):
    rank = shape.count(",") + 1
    x = np.arange(4 * 3 * 4, dtype=np.float32).reshape(4, 3, 2, 2)[(..., *[0] * (4 - rank))].copy()
    lengths = np.array([4, 0, 3]) if batch else np.array([3, 1, 2, 0])
    io = {"inputs": f"float[{shape}] x, int64[B] l", "outputs": f"float[{shape}] y"}
    body = f"y = ReverseSequence<time_axis={time}, batch_axis={batch}>(x, l)"
    check_down(body, 10, 9, 8, 7, feeds={"x": x, "l": lengths}, **io)


@pytest.mark.parametrize("dims", ["static", "A,B,C", "A,B,C,D"])
@pytest.mark.parametrize(
    "shape", [(4, 2, 0), (0, 2, 3), (2, 0, 3), (4, 2, 3), (4, 2, 0, 3), (4, 2, 3, 0), (4, 2, 3, 1)]
)
def test_sequences_of_nothing_are_reversed(shape, dims):
    if dims != "static" and len(shape) != dims.count(",") + 1:
        return
    out = ",".join("EFGH"[: len(shape)])
    dims = ",".join(map(str, shape)) if dims == "static" else dims
    io = {"inputs": f"float[{dims}] x, int64[N] l", "outputs": f"float[{out}] y"}
    feeds = {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape), "l": np.array([shape[0]] * shape[1], int)}
    check_down("y = ReverseSequence<batch_axis=1, time_axis=0>(x, l)", 13, 9, 8, 7, feeds=feeds, **io)
