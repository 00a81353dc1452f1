"""Concat: its axis, and the types that it joins."""

import numpy as np
import pytest

from tests.passes.operators.legacy import check_legacy
from tests.support import check, check_refused, check_unchanged


def test_a_negative_axis_of_concat_is_counted_from_the_front_below_11():
    io = {"inputs": "float[N,3] x, float[N,2] z", "outputs": "float[N,5] y"}
    check("y = Concat<axis=-1>(x, z)", 11, "y = Concat<axis=1>(x, z)", 10, **io)
    check_unchanged("y = Concat<axis=1>(x, z)", 11, 10, **io)
    check_refused("y = Concat<axis=-1>(x, z)", 11, 10, "rank", inputs="float x, float[N,2] z", outputs="float[N,5] y")


FLOATS = np.array([[0.0, -0.0, np.inf], [np.nan, -1.5, 2.0]], np.float32)
INTS = np.array([[0, -1, 2], [127, -128, 5]])


def test_concat_was_along_axis_1():
    io = {"inputs": "float[2,3] x", "outputs": "float[2,6] y"}
    expected = [np.concatenate([FLOATS, FLOATS], 1)]
    check_legacy("y = Concat(x, x)", 1, "y = Concat<axis=1>(x, x)", 4, {"x": FLOATS}, expected, **io)
    check_unchanged("y = Concat<axis=0>(x, x)", 1, 28, inputs="float[2,3] x", outputs="float[4,3] y")
    check_unchanged("y = Concat<axis=0>(x, x)", 28, 1, inputs="float[2,3] x", outputs="float[4,3] y")


@pytest.mark.parametrize("elem_type", ["int8", "int32", "bool"])
def test_small_integers_are_joined_as_doubles_below_4(elem_type):
    after = f"""t1 = Cast<to=DOUBLE>(x)
        t2 = Cast<to=DOUBLE>(x)
        t3 = Concat<axis=0>(t1, t2)
        y = Cast<to={elem_type.upper()}>(t3)"""
    x = INTS.astype(elem_type)
    io = {"inputs": f"{elem_type}[2,3] x", "outputs": f"{elem_type}[4,3] y"}
    check_legacy("y = Concat<axis=0>(x, x)", 4, after, 3, {"x": x}, [np.concatenate([x, x])], **io)


@pytest.mark.parametrize("elem_type", ["int64", "uint64", "string"])
def test_types_that_no_float_holds_are_refused(elem_type):
    io = {"inputs": f"{elem_type}[2] x", "outputs": f"{elem_type}[4] y"}
    check_refused("y = Concat<axis=0>(x, x)", 4, 3, f"is {elem_type};", **io)
    io["outputs"] = f"{elem_type}[2,1] y"
    check_refused("y = Reshape(x, s)", 5, 4, f"is {elem_type};", constants="int64[2] s = {2, 1}", **io)
    io["outputs"] = f"{elem_type}[1] y, {elem_type}[1] z"
    check_refused("y, z = Split<axis=0>(x)", 2, 1, f"is {elem_type};", **io)
    io["outputs"] = f"{elem_type}[4] y"
    check_refused("y = Tile(x, r)", 6, 3, f"is {elem_type};", constants="int64[1] r = {2}", **io)
