"""Matrix products of integers."""

import pytest

from tests.support import check, check_refused, check_unchanged


def product(kind, a, b, y):
    return {"inputs": f"{kind}[{a}] a, {kind}[{b}] b", "outputs": f"{kind}[{y}] y".replace("[]", "")}


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize(
    ("a", "b", "y", "after"),
    [
        ("2,3", "3,4", "2,4", ["t1 = Unsqueeze<axes=[2]>(a)", "t2 = Unsqueeze<axes=[0]>(b)", "t3 = Mul(t1, t2)", "y = ReduceSum<axes=[1], keepdims=0>(t3)"]),
        ("5,2,3", "3,4", "5,2,4", ["t1 = Unsqueeze<axes=[3]>(a)", "t2 = Unsqueeze<axes=[0]>(b)", "t3 = Mul(t1, t2)", "y = ReduceSum<axes=[2], keepdims=0>(t3)"]),
        ("2,3", "5,3,4", "5,2,4", ["t1 = Unsqueeze<axes=[2]>(a)", "t2 = Unsqueeze<axes=[1]>(b)", "t3 = Mul(t1, t2)", "y = ReduceSum<axes=[2], keepdims=0>(t3)"]),
        ("3", "5,3,4", "5,4", ["t1 = Unsqueeze<axes=[1]>(a)", "t2 = Mul(t1, b)", "y = ReduceSum<axes=[1], keepdims=0>(t2)"]),
        ("N,2,3", "3", "N,2", ["t1 = Mul(a, b)", "y = ReduceSum<axes=[2], keepdims=0>(t1)"]),
        ("3", "3", "", ["t1 = Mul(a, b)", "y = ReduceSum<axes=[0], keepdims=0>(t1)"]),
    ],
)  # fmt: skip
def test_products_of_integers_are_sums_below_9(kind, a, b, y, after):
    check("y = MatMul(a, b)", 9, "\n".join(after), 8, **product(kind, a, b, y))


def test_products_of_floats_stay():
    check_unchanged("y = MatMul(a, b)", 28, 1, **product("float", "2,3", "3,4", "2,4"))


def test_products_of_integers_need_ranks():
    check_refused("y = MatMul(a, b)", 9, 8, "rank", inputs="int32[] a, int32[3,4] b", outputs="int32[] y")
