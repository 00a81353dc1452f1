"""ArgMax and ArgMin: which of equal elements, and places of minima."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators.on_request import INF, computed, same_bits
from tests.support import check, check_unchanged, evaluate, model, show


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("dims", ["2,4", "N,M"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_the_last_of_equals(op, dims, keepdims):
    source = model(
        f"t = {op}<axis=1, select_last_index=1, keepdims={keepdims}>(x) y = Reshape(t, flat)", 13,
        inputs=f"float[{dims}] x", outputs="int64[L] y", constants="int64[1] flat = {-1}",
    )  # fmt: skip
    result = convert.attempt(source, {"": 11})
    assert result.grade == "exact"
    assert "select_last_index" not in show(result.model)
    x = np.array([[1, 2, 2, 0], [0, 0, 3, 3]], np.float32)
    expected = [2, 3] if op == "ArgMax" else [3, 1]
    np.testing.assert_array_equal(evaluate(result.model, {"x": x})[0], expected)


def test_the_first_of_equals_needs_nothing_but_the_attribute_gone():
    io = {"inputs": "float[2,4] x", "outputs": "int64[1,4] y"}
    check("y = ArgMax<select_last_index=0>(x)", 13, "y = ArgMax(x)", 11, **io)
    check_unchanged("y = ArgMax<axis=1>(x)", 13, 7, inputs="float[2,4] x", outputs="int64[2,1] y")


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_places_of_minima(dtype, last):
    x = np.array([[3, -2, -2, 5], [np.iinfo(np.int32).min if dtype == np.int32 else -INF, 0, 1, 1]], dtype)
    expected = np.array([[2 if last else 1], [0]])
    same_bits(computed(f"ArgMin<axis = -1, select_last_index = {last}>(x)", x, kind="int64"), expected)
    flat = np.array([1, 1, 1, 1]) * [1, 0, 0, 1]
    same_bits(computed("ArgMin<keepdims = 0>(x)", x, kind="int64", rank=1), flat)
