"""Operators that bfloat16 came to, and float8 that is cast back."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_unchanged, evaluate, model


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


def test_an_infinity_of_float8_survives_a_move():
    """Casting back must not saturate: 57344 is the greatest float8e5m2, not its infinity."""
    body = "z = Cast<to=19, saturate=0>(x) u = Unsqueeze(z, a) s = Squeeze(u, a) y = Cast<to=1>(s)"
    source = model(body, 21, inputs="float[4] x", outputs="float[4] y", constants="int64[1] a = {0}")
    after = convert.attempt(source, {"": 20}).model
    x = np.array([np.inf, -np.inf, 57344, np.nan], np.float32)
    np.testing.assert_array_equal(evaluate(after, {"x": x})[0], x)
