"""Max and Min: operands of different shapes, integers, and minima as maxima."""

import numpy as np
import pytest

from tests.passes.operators.elements import CODE
from tests.passes.operators.on_request import X, Y, computed
from tests.support import check

MANY = {"inputs": "float[2,3] a, float[3] b, float c", "outputs": "float[2,3] y"}


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_extremes_are_taken_of_operands_made_of_one_shape_below_8(op):
    check(f"y = {op}(a, b)", 8, f"t1 = Pow(a, const)\nt2 = Mul(b, t1)\ny = {op}(a, t2)", 7, **MANY)
    check(
        f"y = {op}(b, a, c)", 8, f"t1 = Pow(a, const)\nt2 = Mul(b, t1)\nt3 = Mul(c, t1)\ny = {op}(t2, a, t3)", 7, **MANY
    )
    both = {"inputs": "float[2,1] a, float[1,3] b", "outputs": "float[2,3] y"}
    after = (
        f"t1 = Pow(a, const)\nt2 = Pow(b, const)\nt3 = Mul(t1, t2)\nt4 = Mul(a, t3)\nt5 = Mul(b, t3)\ny = {op}(t4, t5)"
    )
    special = {"a": np.array([[np.nan], [np.inf]], np.float32), "b": np.array([[-np.inf, 0.0, 1.0]], np.float32)}
    check(f"y = {op}(a, b)", 8, after, 7, feeds=special, **both)
    unknown = {"inputs": "float[N] a, float[M] b", "outputs": "float[K] y"}
    check(
        f"y = {op}(a, b)",
        8,
        after,
        7,
        feeds={"a": np.array([1, 5, 2], np.float32), "b": np.array([3], np.float32)},
        **unknown,
    )


EXTREMES = {
    "int8": "float",
    "uint8": "float",
    "int16": "float",
    "uint16": "float",
    "int32": "double",
    "uint32": "double",
}


@pytest.mark.parametrize("op", ["Max", "Min"])
@pytest.mark.parametrize("kind", EXTREMES)
def test_extremes_of_integers_that_a_float_holds(op, kind):
    ends = np.iinfo(kind)
    wide = CODE[EXTREMES[kind]]
    check(
        f"y = {op}(a, b)", 12, f"t1 = Cast<to={wide}>(a)\nt2 = Cast<to={wide}>(b)\nt3 = {op}(t1, t2)\ny = Cast<to={CODE[kind]}>(t3)",
        11, inputs=f"{kind}[3] a, {kind}[3] b", outputs=f"{kind}[3] y",
        feeds={"a": np.array([ends.min, ends.max, 1], kind), "b": np.array([ends.min + 1, ends.max - 1, 1], kind)},
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["int64", "uint64"])
@pytest.mark.parametrize(("op", "beaten"), [("Max", "Less"), ("Min", "Greater")])
def test_extremes_of_64_bits_are_picked_pair_by_pair(op, beaten, kind):
    ends = np.iinfo(kind)
    check(
        f"y = {op}(a, b, c)", 12,
        f"t1 = {beaten}(a, b)\nt2 = Where(t1, b, a)\nt3 = {beaten}(t2, c)\ny = Where(t3, c, t2)", 11,
        inputs=f"{kind}[3] a, {kind}[3] b, {kind} c", outputs=f"{kind}[3] y",
        feeds={"a": np.array([ends.min, ends.max, 2**53 + 1], kind), "b": np.array([ends.min + 1, ends.max - 1, 2**53], kind)},
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64])
def test_minima(dtype):
    if np.dtype(dtype).kind == "f":
        x, y = X.astype(dtype), Y.astype(dtype)
    else:
        info = np.iinfo(dtype)
        x, y = np.array([[info.min, info.max, 3, 0]], dtype), np.array([[info.max], [info.min], [2]], dtype)
    np.testing.assert_array_equal(computed("Min(x, y)", x, y), np.minimum(x, y), strict=True)
    np.testing.assert_array_equal(computed("Min(x)", x), x, strict=True)
