"""What two twins have in common runs once; what is not the same, however like, runs again."""

import weakref

import numpy as np
import pytest

from opshift.verification.twins import memory
from opshift.verification.twins.calls import Calls
from opshift.verification.twins.twin import Twin
from tests.support import model

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
IO = {"inputs": "float[A,B] x", "outputs": "float[C,D] y"}


@pytest.fixture
def runs(monkeypatch):
    """How often a call was computed."""
    counts, called = [], Calls.called
    monkeypatch.setattr(Calls, "called", lambda self, *call: counts.append(1) or called(self, *call))
    return counts


def pair(one, other, opsets=(17, 17), constants=("", "")):
    sources = [
        model(body, opset, constants=held, **IO)
        for body, opset, held in zip((one, other), opsets, constants, strict=True)
    ]
    first = Twin(sources[0])
    return first, Twin(sources[1], beside=first)


@pytest.mark.parametrize(
    ("one", "other", "opsets", "constants", "more"),
    [
        ("a = Sin(x) y = Exp(a)", "a = Sin(x) y = Exp(a)", (17, 18), ("", ""), 0),
        ("a = Sin(x) y = Exp(a)", "b = Sin(x) y = Exp(b)", (17, 17), ("", ""), 0),
        ("a = Sin(x) y = Exp(a)", "a = Cos(x) y = Exp(a)", (17, 17), ("", ""), 2),
        ("a = Sin(x) y = Exp(a)", "a = Sin(x) y = Neg(a)", (17, 17), ("", ""), 1),
        ("y = LeakyRelu<alpha=0.1>(x)", "y = LeakyRelu<alpha=0.2>(x)", (17, 17), ("", ""), 1),
        ("y = Mul(x, w)", "y = Mul(x, v)", (17, 17), ("float[3] w = {1,2,3}", "float[3] v = {1,2,3}"), 0),
        ("y = Mul(x, w)", "y = Mul(x, w)", (17, 17), ("float[3] w = {1,2,3}", "float[3] w = {1,2,4}"), 1),
        ("y = Mul(x, w)", "y = Mul(x, w)", (17, 17), ("float[3] w = {1,2,3}", "float[1,3] w = {1,2,3}"), 1),
        ("y = Mul(x, w)", "y = Mul(w, x)", (17, 17), ("float[3] w = {1,2,3}", "float[3] w = {1,2,3}"), 1),
        ("y = Softmax<axis=1>(x)", "y = Softmax<axis=1>(x)", (12, 13), ("", ""), 1),
        ("i = Cast<to=7>(x) y = Cast<to=1>(i)", "i = Cast<to=7>(x) y = Cast<to=1>(i)", (17, 18), ("", ""), 0),
        ("i = Cast<to=7>(x) y = Cast<to=1>(i)", "i = Cast<to=6>(x) y = Cast<to=1>(i)", (17, 17), ("", ""), 1),
    ],
)
def test_the_same_call_on_the_same_values_runs_once(runs, one, other, opsets, constants, more):
    first, second = pair(one, other, opsets, constants)
    (a,), before = first.run({"x": X}), len(runs)
    assert before
    (again,) = first.run({"x": X})
    assert len(runs) == before, "in another run"
    np.testing.assert_array_equal(again, a)
    (b,) = second.run({"x": X})
    assert len(runs) - before == more
    (alone,) = pair(other, other, opsets[1:] * 2, constants[1:] * 2)[0].run({"x": X})
    np.testing.assert_array_equal(b, alone)
    (c,) = second.run({"x": X + 1})
    assert not np.array_equal(b, c)


def test_what_is_counted_is_counted_for_each(runs):
    first, second = pair("y = Erf(x)", "y = Erf(x)")
    for twin in (first, second):
        twin.run({"x": X})
    assert first.calls.elsewhere == second.calls.elsewhere == {"Erf": 1}


def test_noise_is_drawn_beside(runs):
    twin = pair("y = Sigmoid(x)", "y = Sigmoid(x)")[0]
    (still,), (noisy,), (again,) = (twin.run({"x": X}, noise=noise) for noise in (False, True, False))
    np.testing.assert_array_equal(still, again)
    assert (still != noisy).all()


def test_no_more_is_kept_than_there_is_room_for(monkeypatch, runs):
    monkeypatch.setattr(memory, "MOST", 6 * 8)
    twin = pair("a = Sin(x) y = Exp(a)", "y = Neg(x)")[0]
    counts = []
    for _ in range(2):
        before = len(runs)
        twin.run({"x": X})
        counts.append(len(runs) - before)
    assert counts == [2, 1]


def test_large_weights_are_let_go(monkeypatch):
    """And what is computed of them: it is known by values that are read anew."""
    monkeypatch.setattr(memory, "_SMALL", 16)
    of = model("a = Add(x, w) y = Exp(a)", 17, constants="float[2,3] w = {1, 2, 3, 4, 5, 6}", **IO)
    twin, seen = Twin(of), []
    twin.run({"x": X}, watch=lambda node, inputs, made: seen.extend(map(weakref.ref, inputs)))
    assert [held() is None for held in seen] == [False, True, True]
