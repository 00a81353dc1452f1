"""Types that generators take and make."""

import pytest

from tests.support import check, check_unchanged


def test_bfloat16_is_made_in_float32_below_22():
    io = {"inputs": "bfloat16[3,3] x", "outputs": "bfloat16[3,3] y"}  # which no engine takes
    after = "t1 = Cast<to=1>(x)\nt2 = EyeLike<dtype=1, k=1>(t1)\ny = Cast<to=16>(t2)"
    check("y = EyeLike<k=1>(x)", 22, after, 21, run=False, **io)
    after = "t1 = RandomUniform<dtype=1, shape=[3, 3]>()\ny = Cast<to=16>(t1)"
    check("y = RandomUniform<dtype=16, shape=[3, 3]>()", 22, after, 21, run=False, grade="close", **io)
    after = "t1 = Cast<to=1>(x)\nt2 = RandomNormalLike<dtype=1>(t1)\ny = Cast<to=16>(t2)"
    check("y = RandomNormalLike(x)", 22, after, 21, run=False, grade="close", **io)
    after = "t1 = Cast<to=1>(x)\ny = Bernoulli<dtype=16>(t1)"
    check("y = Bernoulli(x)", 22, after, 21, run=False, **io)
    io["outputs"] = "int32[3,1] y"
    check("y = Multinomial(x)", 22, "t1 = Cast<to=1>(x)\ny = Multinomial(t1)", 21, run=False, **io)


@pytest.mark.parametrize(
    "body", ["EyeLike<dtype=1>(x)", "RandomNormalLike(x)", "Bernoulli(x)", "RandomNormal<shape=[3]>()"]
)
def test_generators_of_older_types_stay(body):
    check_unchanged(f"y = {body}", 22, 15, inputs="float[3,3] x", outputs="float y")
