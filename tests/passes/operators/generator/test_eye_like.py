"""EyeLike before it existed."""

import pytest

from tests.support import check_down


@pytest.mark.parametrize("shape", ["2,3", "N,3", "N,M", "0,2", "70,80"])
@pytest.mark.parametrize("k", [-1, 0, 1, 9])
@pytest.mark.parametrize(("dtype", "elem_type"), [("", "float"), (", dtype=7", "int64"), (", dtype=9", "bool")])
def test_eye_like_below_9(shape, k, dtype, elem_type):
    io = {"inputs": f"float[{shape}] x", "outputs": f"{elem_type}[{shape}] y"}
    check_down(f"y = EyeLike<k={k}{dtype}>(x)", 9, 8, 7, **io)
