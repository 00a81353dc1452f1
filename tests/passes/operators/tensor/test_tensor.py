"""Cast, Identity, Concat, Transpose and their like."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_refused, check_unchanged, evaluate, model


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
    check_refused(body, 21, since - 1, f'"z" is tensor({elem_type})', inputs="float[3] x", outputs="float[3] y")


@pytest.mark.parametrize(("elem_type", "element"), [("float", "0.0"), ("string", "object:"), ("bool", "bool:False")])
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
    check_refused("y = Concat<axis=-1>(x, z)", 11, 10, "rank", inputs="float x, float[N,2] z", outputs="float[N,5] y")


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


def carried(call, elem_type, *, cast):
    """The lines of an operator whose inputs in `cast` are cast to float, and its result back."""
    casts = [f"t{k} = Cast<to=1>({name})" for k, name in enumerate(cast, 1)]
    last = len(cast) + 1
    for k, name in enumerate(cast, 1):
        call = call.replace(f"({name}", f"(t{k}").replace(f" {name}", f" t{k}")
    return "\n".join([*casts, f"t{last} = {call}", f"y = Cast<to={elem_type}>(t{last})"])


BFLOAT16 = 16


@pytest.mark.parametrize(
    ("call", "since", "cast", "io"),
    [
        ("Where(c, a, b)", 16, "ab", ("bfloat16[3] a, bfloat16[3] b, bool[3] c", "bfloat16[3] y")),
        ("Compress<axis=0>(a, c)", 28, "a", ("bfloat16[3] a, bool[3] c", "bfloat16[N] y")),
        ("ReverseSequence(a, n)", 28, "a", ("bfloat16[3,2] a, int64[2] n", "bfloat16[3,2] y")),
        ("Unique<sorted=1>(a)", 28, "a", ("bfloat16[3] a", "bfloat16[N] y")),
        ("OneHot(i, n, a)", 28, "a", ("bfloat16[2] a, uint8[3] i, int64 n", "bfloat16[3,N] y")),
    ],
)
def test_bfloat16_is_carried_by_float(call, since, cast, io):
    feeds = {"n": np.array(2) if "int64 n" in io[0] else np.array([2, 3])}
    after = carried(call, BFLOAT16, cast=cast)
    check(f"y = {call}", since, after, since - 1, inputs=io[0], outputs=io[1], feeds=feeds)
    check_unchanged(
        f"y = {call}",
        since,
        since - 1,
        inputs=io[0].replace("bfloat16", "float"),
        outputs=io[1].replace("bfloat16", "float"),
    )


@pytest.mark.parametrize(
    ("op", "elem_type"),
    [
        ("IsInf", "float16"),
        ("IsInf", "bfloat16"),
        ("IsInf", "float8e5m2"),
        ("IsInf", "float8e4m3fn"),
        ("IsNaN", "float8e5m2"),
        ("IsNaN", "float8e4m3fnuz"),
    ],
)
def test_what_is_infinite_is_asked_of_floats_below_20(op, elem_type):
    after = f"t1 = Cast<to=1>(x)\ny = {op}(t1)"
    check(f"y = {op}(x)", 20, after, 19, inputs=f"{elem_type}[12] x", outputs="bool[12] y")


def test_what_is_infinite_is_asked_as_before():
    check_unchanged("y = IsInf(x)", 28, 10, inputs="double[3] x", outputs="bool[3] y")
    check_unchanged("y = IsNaN(x)", 28, 13, inputs="bfloat16[3] x", outputs="bool[3] y")
    check_refused("y = IsNaN(x)", 13, 12, "bfloat16", inputs="bfloat16[3] x", outputs="bool[3] y")


def test_an_infinity_of_float8_survives_a_move():
    """Casting back must not saturate: 57344 is the greatest float8e5m2, not its infinity."""
    body = "z = Cast<to=19, saturate=0>(x) u = Unsqueeze(z, a) s = Squeeze(u, a) y = Cast<to=1>(s)"
    source = model(body, 21, inputs="float[4] x", outputs="float[4] y", constants="int64[1] a = {0}")
    after = convert.attempt(source, {"": 20}).model
    x = np.array([np.inf, -np.inf, 57344, np.nan], np.float32)
    np.testing.assert_array_equal(evaluate(after, {"x": x})[0], x)


def test_strings_are_cast_from_9_on():
    for kind, to, result in (("float", 8, "string"), ("string", 1, "float")):
        given = {"inputs": f"{kind}[3] x", "outputs": f"{result}[3] y"}
        check_refused(f"y = Cast<to={to}>(x)", 9, 8, "no operator of opset 8 turns numbers into strings", **given)
    check_unchanged("y = Cast<to=1>(x)", 9, 8, inputs="int64[3] x", outputs="float[3] y")
    given = {"inputs": "string[3] x", "outputs": "string[3] y"}
    check("y = Cast<to=8>(x)", 9, "y = Identity(x)", 8, **given)
