"""The reduce family: axes from attribute to input and back, types that came and went."""

import numpy as np
import pytest

from tests.support import check, check_refused, check_unchanged, evaluate, model, sample_feeds

ROWS = {"inputs": "float[N,3] x", "outputs": "float[N,1] y"}
AXES_SINCE_18 = [
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
    "ReduceProd", "ReduceSumSquare",
]  # fmt: skip


@pytest.mark.parametrize("op", AXES_SINCE_18)
def test_axes_become_an_input_at_18(op):
    check(f"y = {op}<axes=[1]>(x)", 17, f"y = {op}(x, [1])", 18, **ROWS)


@pytest.mark.parametrize("op", AXES_SINCE_18)
def test_constant_axes_become_an_attribute_below_18(op):
    check(f"y = {op}(x, a)", 18, f"y = {op}<axes=[1]>(x)", 17, constants="int64[1] a = {1}", **ROWS)


def test_axes_of_a_sum_become_an_input_at_13():
    check("y = ReduceSum<axes=[1]>(x)", 12, "y = ReduceSum(x, [1])", 13, **ROWS)
    check("y = ReduceSum(x, a)", 13, "y = ReduceSum<axes=[1]>(x)", 12, constants="int64[1] a = {1}", **ROWS)


def test_nothing_to_move():
    check_unchanged("y = ReduceL1(x)", 13, 28, **ROWS)
    check_unchanged("y = ReduceL1<axes=[1], keepdims=1>(x)", 17, 11, **ROWS)


def test_an_empty_list_below_18_means_all_axes():
    check("y = ReduceMax<axes: ints = []>(x)", 13, "y = ReduceMax(x)", 18, inputs="float[2,3] x", outputs="float[1,1] y")
