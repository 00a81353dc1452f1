"""Range before it existed, and of 16-bit floats."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_down, check_refused, check_unchanged, evaluate, model, show

RANGES = [
    *[
        ("int64", (0, 5, 1)),
        ("int64", (2, -9, -3)),
        ("int64", (2, -10, -3)),
        ("int64", (5, 2, 1)),
        ("int64", (0, -3, 1)),
    ],
    *[("int64", (2**50, 2**50 + 3, 2)), ("int32", (10, 3, -2)), ("int32", (-1, 2, 7)), ("int16", (1, 1, 1))],
    *[
        ("int64", (0, 2, 2**63 - 1)),
        ("int64", (3, -2, -(2**63) + 1)),
        ("int64", (2, 2, 2**62)),
        ("int64", (5, 0, 2**62)),
    ],
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
        io = {"inputs": f"{elem_type} c", "outputs": f"{elem_type}[N] y", "constants": f"{held['a']}, {held['b']}"}
        check_down("y = Range(a, b, c)", 11, 10, 8, feeds={"c": feeds["c"]}, **io)
        io = {"inputs": f"{elem_type} b", "outputs": f"{elem_type}[N] y", "constants": f"{held['a']}, {held['c']}"}
        check_down("y = Range(a, b, c)", 11, 10, 8, feeds={"b": feeds["b"]}, **io)


@pytest.mark.parametrize(
    "parts",
    [
        *[(1, -(2**63), -(2**63)), (-(2**63), 2**63 - 1, 2**63 - 1), (-(2**63), 2**63 - 1, 2**62 + 1)],
        *[(2**63 - 1, -(2**63), -(2**63)), (2**63 - 1, -(2**63), -(2**61) - 1), (-1, 2**63 - 1, 2**62)],
        *[(2**62, -(2**62), -(2**60)), (2**63 - 1, -(2**63), 3), (-(2**63), 2**63 - 1, -1), (0, 2**63 - 1, -1)],
        (2**63 - 1, -5, 1),
    ],
)
@pytest.mark.parametrize("held", ["", "b", "c", "ab", "ac"])
def test_ends_further_apart_than_int64_reaches_lose_no_number_below_11(parts, held):
    given = dict(zip("abc", parts, strict=True))
    io = {
        "inputs": ", ".join(f"int64 {name}" for name in "abc" if name not in held),
        "outputs": "int64[N] y",
        "constants": ", ".join(f"int64 {name} = {{{given[name]}}}" for name in held),
    }
    feeds = {name: np.array(given[name]) for name in "abc" if name not in held}
    for opset in (10, 9, 8, 7):
        made = convert.attempt(model("y = Range(a, b, c)", 11, **io), {"": opset}).model
        np.testing.assert_array_equal(evaluate(made, feeds)[0], np.array(range(*parts), np.int64))


@pytest.mark.parametrize(
    ("delta", "counted"),
    [
        (1, "t1 = Sub(b, 2)\nt2 = Greater(b, 2)"),
        (-1, "t1 = Sub(b, 2)\nt2 = Neg(t1)\nt3 = Less(b, 2)"),
    ],
)
def test_steps_of_one_need_no_division(delta, counted):
    io = {"inputs": "int64 b", "outputs": "int64[N] y", "constants": f"int64 a = {{2}}, int64 c = {{{delta}}}"}
    for bound in (5, -3, 2):
        made = check_down("y = Range(a, b, c)", 11, 10, feeds={"b": np.array(bound)}, **io)
    assert show(made).startswith(counted)


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
    for kind in ("int64", "float"):
        held = f"{kind} a = {{0}}, {kind} b = {{3}}, {kind} c = {{0}}"
        io = {"inputs": "float x", "outputs": f"{kind}[N] y", "constants": held}
        check_refused("y = Range(a, b, c)", 11, 10, "delta is 0", **io)


def test_sixteen_bits_are_counted_in_the_stash_type_below_27():
    io = {"inputs": "float16 a, float16 b, float16 c", "outputs": "float16[N] y"}
    casts = (
        "t1 = Cast<to={0}>(a)\nt2 = Cast<to={0}>(b)\nt3 = Cast<to={0}>(c)\nt4 = Range(t1, t2, t3)\ny = Cast<to=10>(t4)"
    )
    feeds = {name: np.array(value, np.float16) for name, value in zip("abc", (2047, 2052.0, 0.75), strict=True)}
    for stash, carrier in (("", 1), ("<stash_type=1>", 1), ("<stash_type=11>", 11)):
        source = model(f"y = Range{stash}(a, b, c)", 27, **io)
        made = convert.attempt(source, {"": 26}).model
        assert show(made) == casts.format(carrier)
        expected = np.arange(2047, 2052, 0.75).astype(np.float16)
        np.testing.assert_array_equal(evaluate(made, feeds)[0], expected)
    check_refused("y = Range<stash_type=10>(a, b, c)", 27, 26, "stash_type=10; supported: float and double", **io)


def test_other_ranges_lose_the_stash_type_below_27():
    io = {"inputs": "int64 a, int64 b, int64 c", "outputs": "int64[N] y"}
    check("y = Range<stash_type=10>(a, b, c)", 27, "y = Range(a, b, c)", 11, run=False, **io)  # ORT has no 27
    check_unchanged("y = Range(a, b, c)", 11, 28, **io)
