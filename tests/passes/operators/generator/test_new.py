"""ConstantOfShape, EyeLike and Range before they existed."""

import numpy as np
import pytest

from tests.support import check, check_down, check_refused


@pytest.mark.parametrize("shape", [[2, 0, 3], [2, 4, 3], [1, 1, 1]])
@pytest.mark.parametrize(("value", "elem_type"), [("", "float"), ("<value = int64[1] {7}>", "int64")])
def test_constant_of_shape_below_9(shape, value, elem_type):
    io = {"inputs": "int64[3] s", "outputs": f"{elem_type}[A,B,C] y"}
    check_down(f"y = ConstantOfShape{value}(s)", 9, 8, 7, feeds={"s": np.array(shape)}, **io)
    io = {"inputs": "float x", "outputs": f"{elem_type}[A,B,C] y"}
    io["constants"] = f"int64[3] s = {{{','.join(map(str, shape))}}}"
    check_down(f"y = ConstantOfShape{value}(s)", 9, 8, 7, **io)


def test_constant_of_shape_that_is_a_scalar_below_9():
    io = {"inputs": "float x", "outputs": "bool y"}
    check_down("s = Shape(x) y = ConstantOfShape<value = bool[1] {1}>(s)", 9, 8, 7, **io)


@pytest.mark.parametrize("shape", ["2,3", "N,3", "N,M", "0,2", "70,80"])
@pytest.mark.parametrize("k", [-1, 0, 1, 9])
@pytest.mark.parametrize(("dtype", "elem_type"), [("", "float"), (", dtype=7", "int64"), (", dtype=9", "bool")])
def test_eye_like_below_9(shape, k, dtype, elem_type):
    io = {"inputs": f"float[{shape}] x", "outputs": f"{elem_type}[{shape}] y"}
    check_down(f"y = EyeLike<k={k}{dtype}>(x)", 9, 8, 7, **io)


RANGES = [
    *[
        ("int64", (0, 5, 1)),
        ("int64", (2, -9, -3)),
        ("int64", (2, -10, -3)),
        ("int64", (5, 2, 1)),
        ("int64", (0, -3, 1)),
    ],
    *[("int64", (2**50, 2**50 + 3, 2)), ("int32", (10, 3, -2)), ("int32", (-1, 2, 7)), ("int16", (1, 1, 1))],
    *[("float", (0.5, 3.125, 0.25)), ("double", (1, -4, -0.5)), ("float", (0, -1, 1))],
]
NUMPY = {"float": np.float32, "double": np.float64, "int16": np.int16, "int32": np.int32, "int64": np.int64}


@pytest.mark.parametrize(("elem_type", "parts"), RANGES)
def test_range_is_counted_below_11(elem_type, parts):
    feeds = {name: np.array(part, NUMPY[elem_type]) for name, part in zip("abc", parts, strict=True)}
    floats = elem_type in ("float", "double")
    io = {"inputs": f"{elem_type} a, {elem_type} b, {elem_type} c", "outputs": f"{elem_type}[N] y"}
    grade = "close" if floats else "exact"
    check_down("y = Range(a, b, c)", 11, 10, 9, 8, 7, feeds=feeds, rtol=1e-6 * floats, grade=grade, **io)
    if elem_type == "int16":
        return  # ONNX text has no such constants
    held = {name: f"{elem_type} {name} = {{{part}}}" for name, part in zip("abc", parts, strict=True)}
    io = {"inputs": "float x", "outputs": f"{elem_type}[N] y", "constants": ", ".join(held.values())}
    check_down("y = Range(a, b, c)", 11, 10, 7, **io)
    if not floats:
        io = {"inputs": f"{elem_type} b", "outputs": f"{elem_type}[N] y", "constants": f"{held['a']}, {held['c']}"}
        check_down("y = Range(a, b, c)", 11, 10, 8, feeds={"b": feeds["b"]}, **io)


def test_range_over_a_size_needs_no_more_than_a_count_below_11():
    io = {"inputs": "float[N] x", "outputs": "int64[N] y", "constants": "int64 a = {0}, int64 c = {1}"}
    check(
        "n = Size(x) y = Range(a, n, c)",
        11,
        """t1 = Size(x)
        t2 = Reshape(t1, [1])
        t3 = ConstantOfShape<value=[1]>(t2)
        t4 = NonZero(t3)
        y = Squeeze<axes=[0]>(t4)""",
        10,
        **io,
    )


def test_floats_that_add_up_to_others_than_they_multiply_to_are_close():
    io = {"inputs": "float x", "outputs": "float[N] y", "constants": "float a = {0}, float b = {5}, float c = {0.1}"}
    check_down("y = Range(a, b, c)", 11, 10, grade="close", rtol=1e-5, **io)


def test_range_that_does_not_move_is_refused():
    io = {"inputs": "int64 b", "outputs": "int64[N] y", "constants": "int64 a = {0}, int64 c = {0}"}
    check_refused("y = Range(a, b, c)", 11, 10, "delta is 0", **io)
