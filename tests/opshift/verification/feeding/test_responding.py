"""Outputs that no inputs move are told."""

import numpy as np
import pytest

import opshift
from opshift.verification.feeding.responding import empty, find_unmoved_outputs
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

IO = {"inputs": "float[N,4] x", "outputs": "float[N,4] y"}


def test_what_nothing_moves_is_told():
    zeros, nan = "z = Sub(x, x) y = Relu(z)", "z = Sub(x, x) y = Div(z, z)"
    said = 'output "y" was the same in each run, so little was tested'
    one = model(zeros, 17, **IO)
    assert opshift.verify(one, one).remarks == (said,)
    assert opshift.verify(one, one, runs=1).remarks == (), "of one run nobody knows"
    one = model(nan, 17, **IO)
    assert opshift.verify(one, one).why == "all outputs were NaN in each run"


def test_what_hangs_on_sizes_alone_is_not_told():
    one = model("s = Shape(x) z = ConstantOfShape(s) y = Identity(z)", 17, **IO)
    assert opshift.verify(one, one).remarks == ()
    one = model("y = Identity(c)", 17, constants="float[2,4] c = {1, 2, 3, 4, 5, 6, 7, 8}", **IO)
    assert opshift.verify(one, one).remarks == ()


def test_what_is_empty_is_told():
    one = model(
        "n = NonZero(x) z = Sub(x, x) m = NonZero(z) y = Cast<to = 1>(m)", 17, **{**IO, "outputs": "float[A,B] y"}
    )
    assert opshift.verify(one, one).remarks == ('output "y" was empty in each run, so its values were not tested',)


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
    assert find_unmoved_outputs(OF, [[run] for run in runs]) == still


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
