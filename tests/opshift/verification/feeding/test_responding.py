"""Outputs that no inputs move are looked into with larger numbers, and told where that does not help."""

import numpy as np
import pytest

import opshift
from opshift.verification.engines import OnnxRuntime
from opshift.verification.feeding.responding import empty, unmoved
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

IO = {"inputs": "float[N,4] x", "outputs": "float[N,4] y"}
DEAD = [
    ("t = Add({}, c) y = Relu(t)", "float c = {-100}"),
    ("t = Add({}, c) y = Sigmoid(t)", "float c = {100}"),
    ("t = Add({}, c) y = Softmax<axis = 1>(t)", "float[4] c = {0, 0, 1000, 0}"),
    (
        "s = Softmax<axis = 1>({}) t = Add(s, c) a = ArgMax<axis = 1>(t) f = Cast<to = 1>(a) y = Mul(x, f)",
        "float[4] c = {0, 0, 0, 0}",
    ),
]


@pytest.mark.parametrize("grade", ["exact", "close"])
@pytest.mark.parametrize(("body", "constants"), DEAD)
def test_what_is_dead_for_small_numbers_is_judged_by_large_ones(body, constants, grade):
    one, other = (model(f"n = {op}(x) {body.format('n')}", 17, constants=constants, **IO) for op in ("Identity", "Neg"))
    found = opshift.verify(one, one, grade=grade)
    assert (found.status, found.remarks) == ("equal", ())
    assert opshift.verify(one, other, grade=grade).status == "different"


@pytest.mark.parametrize(
    ("kind", "code", "below"), [("float16", 10, 60), ("double", 11, 1000), ("int32", 6, 1000), ("uint8", 2, 255)]
)
def test_larger_numbers_are_of_the_type(kind, code, below):
    body = f"c = Cast<to = {code}>(i) m = Max(x, c) y = Sub(m, c)"
    one = model(body, 17, constants=f"int64 i = {{{below}}}", inputs=f"{kind}[8,40] x", outputs=f"{kind}[8,40] y")
    found = opshift.verify(one, one)
    assert found.runs == (2 if kind in ("uint8", "int32") else 3)
    said = '"y" was the same in each run: what it is computed from is not proved'
    assert found.remarks == ((said,) if kind == "uint8" else ())


def test_lengths_are_the_sizes_that_there_are():
    """What lies behind a length is masked: most of it, where the length is small."""
    body = (
        "r = Range(z, l, i) m = Sub(r, k) f = Cast<to = 1>(m) p = Relu(f) s = ReduceSum<keepdims = 0>(p) y = Mul({}, s)"
    )
    constants = "int64 z = {0}, int64 i = {1}, int64 k = {40}"
    io = {"inputs": "float[2,64] x, int64 l", "outputs": "float[2,64] y", "constants": constants}
    one, other = (model(f"n = {op}(x) {body.format('n')}", 17, **io) for op in ("Identity", "Neg"))
    found = opshift.verify(one, one)
    assert (found.remarks, found.inputs[-1]) == ((), {"x": [2, 64], "l": 64})
    assert opshift.verify(one, other).status == "different"


@pytest.mark.parametrize("lengths", ["", ", int64[N] l"])
def test_what_frames_hold_is_judged_on_long_sounds(lengths):
    """Nothing is whole of a short one; of a long one, what its length says."""
    masked = "r = Range(z, t, i) h = Unsqueeze(l, i) m = Less(r, h) f = Cast<to = 1>(m) n = Mul({}, f)"
    body = (
        "k = Shape<start = 1>({}) t = Squeeze(k) " + (masked if lengths else "n = Identity({})") + " "
        "s = Slice(n, b, e, i) y = ReduceSum<keepdims = 0>(s, i)"
    )
    constants = "int64 z = {0}, int64[1] i = {1}, int64[1] b = {40}, int64[1] e = {9999}"
    io = {"inputs": f"float[N,T] x{lengths}", "outputs": "float[N] y", "constants": constants}
    one, other = (model(f"o = {op}(x) {body.format('o', 'o')}", 17, **io) for op in ("Identity", "Neg"))
    found = opshift.verify(one, one)
    assert (found.remarks, found.inputs[-1]["x"]) == ((), [3, 64])
    assert opshift.verify(one, other).status == "different"


def test_images_are_not_made_as_long_as_sounds(monkeypatch):
    sizes, real = list[int](), OnnxRuntime.run

    def counted(self, feeds):
        sizes.append(feeds["x"].size)
        return real(self, feeds)

    monkeypatch.setattr(OnnxRuntime, "run", counted)
    one = model("z = Sub(x, x) y = Relu(z)", 17, inputs="float[N,3,H,W] x", outputs="float[N,3,H,W] y")
    assert opshift.verify(one, one).remarks
    assert max(sizes) == 3 * 3 * 64 * 64


def test_what_nothing_moves_is_told():
    zeros, nan = "z = Sub(x, x) y = Relu(z)", "z = Sub(x, x) y = Div(z, z)"
    said = '"y" was the same in each run: what it is computed from is not proved'
    for body in (zeros, nan):
        one = model(body, 17, **IO)
        assert opshift.verify(one, one).remarks == (said,)
        assert opshift.verify(one, one, runs=1).remarks == (), "of one run nobody knows"


def test_what_hangs_on_sizes_alone_is_not_told():
    one = model("s = Shape(x) z = ConstantOfShape(s) y = Identity(z)", 17, **IO)
    assert opshift.verify(one, one).remarks == ()
    one = model("y = Identity(c)", 17, constants="float[2,4] c = {1, 2, 3, 4, 5, 6, 7, 8}", **IO)
    assert opshift.verify(one, one).remarks == ()


def test_what_is_empty_is_told():
    one = model(
        "n = NonZero(x) z = Sub(x, x) m = NonZero(z) y = Cast<to = 1>(m)", 17, **{**IO, "outputs": "float[A,B] y"}
    )
    assert opshift.verify(one, one).remarks == ('"y" was empty in each run: what it holds is not proved',)


A, B = np.float32([[1, 2], [3, 4]]), np.float32([[1, 2, 9]])
OF = model("t = Relu(x) y = Neg(t)", 17, inputs="float x", outputs="float y")


@pytest.mark.parametrize(
    ("runs", "still"),
    [
        ([A], []),
        ([A, A], ["y"]),
        ([A, B], ["y"]),  # as far as both reach
        ([A, B, A + 1], []),
        ([A, A[0]], []),  # of other dimensions
        ([A[:0], A], ["y"]),
        ([A * np.nan, A * np.nan], ["y"]),
        ([A * np.nan, A], []),
        ([A * 0, -A * 0], ["y"]),
        ([[A], [A, B]], ["y"]),
        ([[A, A], [A, B + 1]], []),
        ([np.array(["a"], object), np.array(["a", "b"], object)], ["y"]),
        ([np.array(["a"], object), np.array(["b"], object)], []),
        ([{"a": 1}, {"a": 1}], ["y"]),
        ([{"a": 1}, {"a": 2}], []),
        ([None, A], []),
        ([[A], A], []),
        ([A, [A]], []),
    ],
)
def test_what_moves(runs, still):
    assert unmoved(OF, [[run] for run in runs]) == still


@pytest.mark.parametrize(
    ("runs", "none"),
    [
        ([A[:0], A], []),
        ([A[:0, :1], A[:1, :0]], ["y"]),
        ([A[:1, :1]], []),
        ([A[:0]], ["y"]),
        ([[A[:0], []]], ["y"]),
        ([[A[:0], A]], []),
        ([None], []),
        ([], []),
    ],
)
def test_what_holds_nothing(runs, none):
    assert empty(OF, [[run] for run in runs]) == none
