"""Cast, Identity, Concat, Transpose and their like."""

import numpy as np
import pytest

from tests.support import check, check_refused, check_unchanged


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
    check_refused(
        body, 21, since - 1, f'"z" is tensor({elem_type})', inputs="float[3] x", outputs="float[3] y"
    )


@pytest.mark.parametrize(
    ("elem_type", "element"), [("float", "0.0"), ("string", "object:"), ("bool", "bool:False")]
)
def test_a_sequence_is_copied_by_two_operators_below_14(elem_type, element):
    check(
        "s = SequenceConstruct(x) t = Identity(s) i = Constant<value_int=0>() y = SequenceAt(t, i)",
        14,
        f"""t1 = SequenceConstruct(x)
        t2 = SequenceInsert(t1, {element})
        t3 = SequenceErase(t2)
        y = SequenceAt(t3, 0)""",
        13,
        inputs=f"{elem_type}[2] x",
        outputs=f"{elem_type}[2] y",
    )


def test_an_identity_of_a_tensor_stays():
    check_unchanged("y = Identity(x)", 28, 7, inputs="float[N] x", outputs="float[N] y")


def test_an_identity_of_an_optional_is_refused():
    body = "o = Optional(x) p = Identity(o) y = OptionalGetElement(p)"
    check_refused(body, 16, 15, "optional(tensor(float))", inputs="float[N] x", outputs="float[N] y")


def test_a_negative_axis_of_concat_is_counted_from_the_front_below_11():
    io = {"inputs": "float[N,3] x, float[N,2] z", "outputs": "float[N,5] y"}
    check("y = Concat<axis=-1>(x, z)", 11, "y = Concat<axis=1>(x, z)", 10, **io)
    check_unchanged("y = Concat<axis=1>(x, z)", 11, 10, **io)
    check_refused(
        "y = Concat<axis=-1>(x, z)", 11, 10, "rank", inputs="float x, float[N,2] z", outputs="float[N,5] y"
    )


@pytest.mark.parametrize("float8", ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"])
def test_float8_is_moved_as_float_below_21(float8):
    number = 17 + ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"].index(float8)
    model = check(
        f"z = Cast<to={number}, saturate=0>(x) t = Transpose<perm=[1,0]>(z) y = Cast<to=1>(t)",
        21,
        f"""t1 = Cast<saturate=0, to={number}>(x)
        t2 = Cast<to=1>(t1)
        t3 = Transpose<perm=[1, 0]>(t2)
        t4 = Cast<saturate=0, to={number}>(t3)
        y = Cast<to=1>(t4)""",
        20,
        inputs="float[3,4] x",
        outputs="float[4,3] y",
    )
    assert model.opset_import[0].version == 20
