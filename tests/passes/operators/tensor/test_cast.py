"""Cast and CastLike between versions, and BitCast before it existed."""

import numpy as np
import pytest

from tests.passes.operators.legacy import check_legacy
from tests.support import check, check_down, check_refused, check_unchanged, evaluate, show


def test_a_cast_between_old_types_loses_what_concerns_float8():
    io = {"inputs": "float[3] x", "outputs": "float16[3] y"}
    check("y = Cast<to=10, saturate=0>(x)", 19, "y = Cast<to=10>(x)", 13, **io)
    check('y = Cast<to=10, round_mode="down">(x)', 24, "y = Cast<to=10>(x)", 23, **io)
    check(
        "y = CastLike<saturate=0>(x, z)",
        19,
        "y = CastLike(x, z)",
        15,
        inputs="float[3] x, int32[1] z",
        outputs="int32[3] y",
        feeds={"x": np.array([1.5, -0.0, -2.0], np.float32)},
    )


def test_casts_that_need_nothing():
    io = {"inputs": "float[3] x", "outputs": "float16[3] y"}
    check_unchanged("y = Cast<to=10>(x)", 6, 28, **io)
    check_unchanged("y = Cast<to=10>(x)", 28, 6, **io)


@pytest.mark.parametrize(
    ("elem_type", "number", "since"), [("float8e5m2", 19, 19), ("int4", 22, 21), ("bfloat16", 16, 13)]
)
def test_a_cast_to_a_type_that_does_not_exist_is_refused(elem_type, number, since):
    body = f"z = Cast<to={number}>(x) y = Cast<to=1>(z)"
    check_refused(body, 21, since - 1, f'"z" is {elem_type}', inputs="float[3] x", outputs="float[3] y")


def test_strings_are_cast_from_9_on():
    for kind, to, result in (("float", 8, "string"), ("string", 1, "float")):
        given = {"inputs": f"{kind}[3] x", "outputs": f"{result}[3] y"}
        check_refused(
            f"y = Cast<to={to}>(x)", 9, 8, "no operator of opset 8 converts between numbers and strings", **given
        )
    check_unchanged("y = Cast<to=1>(x)", 9, 8, inputs="int64[3] x", outputs="float[3] y")
    given = {"inputs": "string[3] x", "outputs": "string[3] y"}
    check("y = Cast<to=8>(x)", 9, "y = Identity(x)", 8, **given)


@pytest.mark.parametrize(("name", "number"), [("INT32", 6), ("int32", 6), ("FLOAT16", 10), ("BOOL", 9)])
def test_the_type_of_a_cast_has_a_name_below_6(name, number):
    io = {"inputs": "double[3] x", "outputs": {6: "int32", 10: "float16", 9: "bool"}[number] + "[3] y"}
    x = np.array([0.0, -0.0, 3.0])
    expected = [x.astype({6: np.int32, 10: np.float16, 9: bool}[number])]
    check_legacy(f'y = Cast<to="{name}">(x)', 1, f"y = Cast<to={number}>(x)", 6, {"x": x}, expected, **io)
    check_legacy(f"y = Cast<to={number}>(x)", 6, f"y = Cast<to={name.upper()}>(x)", 1, {"x": x}, expected, **io)


def test_an_unknown_type_of_a_cast_is_refused():
    io = {"inputs": "float[3] x", "outputs": "int32[3] y"}
    check_refused('y = Cast<to="integer">(x)', 1, 6, "a name of TensorProto.DataType", **io)


NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("elem_type", "to", "result", "kinds"),
    [
        ("int8", 2, "uint8", ["Cast"]),
        ("uint64", 7, "int64", ["Cast"]),
        ("bool", 2, "uint8", ["Cast"]),
        ("int16", 10, "float16", ["Cast", "Cast", "Gather"]),
        ("uint16", 16, "bfloat16", ["Cast", "Gather"]),
        ("uint8", 17, "float8e4m3fn", ["Cast", "Gather"]),
        ("float", 1, "float", ["Identity"]),
    ],
)
def test_bits_are_cast_or_looked_up_below_26(elem_type, to, result, kinds):
    io = {"inputs": f"{elem_type}[6] x", "outputs": f"{result}[6] y"}
    shown = show(check_down(f"y = BitCast<to={to}>(x)", 26, 25, 21, **io))
    assert [line.split(" = ")[1].split("<")[0].split("(")[0] for line in shown.splitlines()] == kinds


@pytest.mark.parametrize("signed", ["int", "uint"])
@pytest.mark.parametrize(
    ("width", "to", "result", "dtype"), [(32, 1, "float", np.float32), (64, 11, "double", np.float64)]
)
def test_floats_are_put_together_from_their_bits_below_26(signed, width, to, result, dtype):
    limits = np.finfo(dtype)
    values = [
        0,
        -0.0,
        1,
        -1.5,
        np.pi,
        INF,
        -INF,
        NAN,
        limits.max,
        limits.min,
        limits.tiny,
        -limits.tiny,
        limits.smallest_subnormal,
    ]
    values = np.array([*values, limits.tiny * 0.75, -limits.smallest_subnormal * 5, 1 + limits.eps], dtype)
    io = {"inputs": f"{signed}{width}[16] x", "outputs": f"{result}[16] y"}
    made = check_down(f"y = BitCast<to={to}>(x)", 26, 25, 21, feeds={"x": values.view(f"{signed}{width}")}, **io)
    np.testing.assert_array_equal(evaluate(made, {"x": values.view(f"{signed}{width}")})[0], values)
    np.testing.assert_array_equal(
        np.signbit(evaluate(made, {"x": values.view(f"{signed}{width}")})[0]), np.signbit(values)
    )


def test_bits_of_a_constant_and_bits_without_a_form():
    io = {"inputs": "float a", "outputs": "float[2] y", "constants": "int32[2] x = {1065353216, -2147483648}"}
    check("y = BitCast<to=1>(x)", 26, "y = Identity([1.0, -0.0])", 25, **io)
    io = {"inputs": "float[2] x", "outputs": "int32[2] y"}
    check_refused("y = BitCast<to=6>(x)", 26, 25, "whose NaN bits no older operator can read", **io)
