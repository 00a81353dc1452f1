"""Products of integers become those of floats where float32 holds every sum, and stay where that is not known."""

import numpy as np
import pytest

from opshift.trying.ways.floating import in_floats
from opshift.verification.engines import OnnxRuntime
from tests.support import model

WEIGHTS = "int8[2,3] w = {-128, 3, 127, 5, -7, 0}"


def product(body, inputs, outputs="int32[4,3] y", constants=WEIGHTS):
    return model(body, 13, inputs=inputs, outputs=outputs, constants=constants)


def rewritten(of):
    made, changes = in_floats(of, "MatMul")
    assert all(change.grade == "exact" for change in changes)
    return made, len(changes)


def check(of, **feeds):
    made, count = rewritten(of)
    assert count == 1
    np.testing.assert_array_equal(OnnxRuntime(made).run(feeds)[0], OnnxRuntime(of).run(feeds)[0])


EXTREME = np.array([[0, 255], [255, 255], [1, 0], [128, 7]], np.uint8)


def test_of_narrow_integers_every_sum_is_held():
    body = "a = Cast<to = 6>(x) z = Cast<to = 6>(o) d = Sub(a, z) b = Cast<to = 6>(w) y = MatMul(d, b)"
    check(product(body, "uint8[4,2] x, uint8 o"), x=EXTREME, o=np.array(200, np.uint8))


def test_inside_of_a_loop():
    body = """n = Constant<value = int64 {2}>() c = Constant<value = bool {1}>()
        y = Loop(n, c, i) <body = g (int64 t, bool k, int32[4,3] h) => (bool l, int32[4,3] o) {
            l = Identity(k) a = Cast<to = 6>(x) b = Cast<to = 6>(w) p = MatMul(a, b) o = Add(h, p) }>"""
    of = product(body, "uint8[4,2] x, int32[4,3] i")
    check(of, x=EXTREME, i=np.ones((4, 3), np.int32))


@pytest.mark.parametrize(("size", "count"), [(256, 1), (600, 1), (70000, 0)])
def test_constants_say_what_their_sums_can_be(size, count):
    """Of 600 numbers of eight bits a sum might be larger than float32 holds; of those that there are none is."""
    held = f"int8[{size},1] w = {{{', '.join(['1'] * size)}}}"
    of = product("a = Cast<to = 6>(x) b = Cast<to = 6>(w) y = MatMul(a, b)", f"uint8[4,{size}] x", "int32[4,1] y", held)
    assert rewritten(of)[1] == count


def test_constants_that_wrap_say_nothing():
    """-1 is 255 as a byte: of 60000 of those, a sum may be larger than float32 holds."""
    held = f"int32[60000,1] w = {{{', '.join(['-1'] * 60000)}}}"
    body = "a = Cast<to = 6>(x) c = Cast<to = 2>(w) b = Cast<to = 6>(c) y = MatMul(a, b)"
    assert rewritten(product(body, "uint8[4,60000] x", "int32[4,1] y", held))[1] == 0


@pytest.mark.parametrize(("start", "count"), [(2147483392, 1), (2147483647, 0)])
def test_sums_that_wrap_say_nothing(start, count):
    """A byte more than the largest int32 is one far below 0, which stays so once it is taken for int64."""
    body = "a = Cast<to = 6>(x) s = Add(a, o) b = Cast<to = 7>(s) d = Sub(b, l) y = MatMul(d, w)"
    held = f"int32[1] o = {{{start}}}, int64[1] l = {{{start}}}, int64[2,3] w = {{1, 2, 3, 4, 5, 6}}"
    assert rewritten(product(body, "uint8[4,2] x", "int64[4,3] y", held))[1] == count


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("y = MatMul(x, v)", "int32[4,2] x, int32[2,3] v"),  # any numbers
        ("a = Cast<to = 6>(x) b = Cast<to = 6>(w) y = MatMul(a, b)", "float[4,2] x"),  # floats may be as large
        ("y = MatMul(x, v)", "float[4,2] x, float[2,3] v"),
        ("a = Cast<to = 12>(x) d = Sub(a, a) b = Cast<to = 12>(x) t = Transpose(b) y = MatMul(d, t)", "uint8[3,2] x"),
    ],
)
def test_what_may_be_larger_stays(body, inputs):
    outputs = "float[4,3] y" if inputs.startswith("float[4,2] x, float") else "int32[4,3] y"
    outputs = "uint32[3,3] y" if "Sub" in body else outputs  # which wraps below 0
    of = product(body, inputs, outputs)
    assert in_floats(of, "MatMul") == (of, [])
