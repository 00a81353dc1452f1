"""Gather and its relatives: indices that count from the back."""

import numpy as np
import pytest

from tests.support import check, check_unchanged

PICK = {"inputs": "float[N,3] x, int64[2] i", "outputs": "float[N,2] y"}
BOTH_SIGNS = {"feeds": {"i": np.array([-3, 2])}}


def test_indices_that_cannot_be_negative_stay():
    check_unchanged(
        "y = Gather<axis=1>(x, i)",
        28,
        7,
        inputs="float[N,3] x",
        outputs="float[N,2] y",
        constants="int64[2] i = {2, 0}",
    )
    check_unchanged(
        "s = Shape(x) i = Identity(s) y = Gather<axis=1>(x, i)",
        11,
        7,
        inputs="float[N,3] x",
        outputs="float[N,2] y",
    )


@pytest.mark.parametrize("elem_type", ["int64", "int32"])
def test_constant_indices_are_counted_from_the_front_below_11(elem_type):
    shown = "[2, 0]" if elem_type == "int64" else "int32:[2, 0]"
    check(
        "y = Gather<axis=1>(x, i)",
        11,
        f"y = Gather<axis=1>(x, {shown})",
        10,
        inputs="float[N,3] x",
        outputs="float[N,2] y",
        constants=f"{elem_type}[2] i = {{-1, 0}}",
    )


def test_indices_are_counted_from_the_front_at_run_time_below_11():
    counted = """t1 = Cast<to=1>(i)
        t2 = Less(t1, 0.0)
        t3 = Cast<to=7>(t2)
        t4 = Mul(t3, 3)
        t5 = Add(i, t4)
        y = Gather<axis=1>(x, t5)"""
    check("y = Gather<axis=1>(x, i)", 11, counted, 10, **PICK, **BOTH_SIGNS)


def test_the_size_of_the_axis_is_read_at_run_time():
    counted = """t1 = Shape(x)
        t2 = Gather(t1, 0)
        t3 = Cast<to=6>(t2)
        t4 = Cast<to=1>(i)
        t5 = Less(t4, 0.0)
        t6 = Cast<to=6>(t5)
        t7 = Mul(t6, t3)
        t8 = Add(i, t7)
        y = Gather(x, t8)"""
    check(
        "y = Gather(x, i)",
        11,
        counted,
        10,
        inputs="float[N,3] x, int32[2,1] i",
        outputs="float[2,1,3] y",
        feeds={"i": np.array([[-3], [2]], np.int32)},
    )
