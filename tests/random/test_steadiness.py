"""What a rounding of the inputs makes of an output excuses as much, and no more."""

import numpy as np
import pytest

from tests.random.models import Source
from tests.random.steadiness import as_unsteady, rocked
from tests.runtime import Runtime
from tests.support import model

F = np.float32
ZERO = np.zeros(1, F)


@pytest.mark.parametrize(
    ("grade", "expected", "output", "moved", "excused"),
    [
        ("exact", F([100]), F([100.5]), F([101]), True),
        ("exact", F([100]), F([101.5]), F([101]), False),
        ("close", F([100]), F([101.5]), F([101]), True),
        ("exact", np.array([1]), np.array([2]), np.array([2]), False),
        ("close", np.array([1]), np.array([2]), np.array([2]), True),
        ("exact", F([np.nan]), F([1]), F([1]), False),
        ("close", F([np.nan]), F([1]), F([1]), True),
        ("exact", F([1, 2]), F([1]), F([1]), False),
        ("close", F([1, 2]), F([1]), F([1]), True),
        ("close", F([1e7]), F([-8e15]), F([-5e6]), True),
        ("close", F([1e7]), F([-np.inf]), F([-5e6]), True),
        ("close", F([1e7]), F([-8e15]), F([1.0001e7]), False),
        ("exact", F([1e7]), F([-8e15]), F([-5e6]), False),
        ("exact", ZERO, -ZERO, F([5]), False),
        ("exact", ZERO, ZERO, F([5]), True),
        ("exact", np.array([1]), np.array([1]), np.array([2]), True),
    ],
)
def test_an_exact_result_is_excused_for_numbers_alone(grade, expected, output, moved, excused):
    assert as_unsteady([expected], [output], [moved], grade=grade) is excused


def test_what_a_sum_leaves_of_numbers_of_both_signs_moves():
    of = model("y = ReduceSum(x)", 13, inputs="float[4] x", outputs="float[1] y")
    source = Source(of, {"x": F([0.60270768, -0.59464979, 0.62251914, -0.63119197])}, "graph")
    (still,), *moved = (Runtime(of).run(one.feeds) for one in (source, rocked(source, 1), rocked(source, -1)))
    assert all(run[0] != still for run in moved)


def test_a_scalar_that_is_moved_can_be_fed():
    of = model("y = Exp(x)", 13, inputs="float x", outputs="float y")
    moved = rocked(Source(of, {"x": np.array(2, F)}, "graph"))
    assert isinstance(moved.feeds["x"], np.ndarray)
    assert Runtime(moved.model).run(moved.feeds)[0] > np.exp(F(2))


def test_sums_that_are_alike_move_apart():
    """As the spectra of the frames of a steady signal, of which ArgMax takes the first."""
    of = model(
        "y = STFT(x, s, , n)",
        17,
        inputs="float[1,8,1] x",
        outputs="float[1,F,B,2] y",
        constants="int64 s = {2}, int64 n = {4}",
    )
    source = Source(of, {"x": np.ones((1, 8, 1), F)}, "graph")
    (still,) = Runtime(of).run(source.feeds)
    assert len(np.unique(still[0, :, 0])) == 2
    moved = rocked(source)
    assert len(np.unique(Runtime(moved.model).run(moved.feeds)[0][0, :, 0])) == 6


def test_what_does_not_differ_is_steady_whatever_it_is_when_moved():
    """As a OneHot of 9 places where the depth is a rounding below 10, beside another output that is a rounding."""
    ones, text, one = np.ones((2, 10)), [np.array(["a"], object)], np.ones(1)
    moved = [np.ones((2, 9)), [], one + 1e-9]
    assert as_unsteady([ones, text, one], [ones, text, one + 1e-10], moved, grade="exact")
    assert not as_unsteady([ones, text, one], [-ones, text, one + 1e-10], moved, grade="exact")
