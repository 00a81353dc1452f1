"""What is drawn is drawn alike: other distributions are differences, other numbers are none."""

import numpy as np
import pytest

from opshift.verification.combined import verify_sides
from opshift.verification.random_operators import collect_samples, tells, unlike
from opshift.verification.side import Side
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

IO = {"inputs": "float[N,640] x", "outputs": "float[N,640] y"}
NORMAL = "g = RandomNormalLike(x) y = Add(x, g)"


@pytest.mark.parametrize(
    "body",
    [
        "g = RandomUniformLike(x) y = Add(x, g)",
        "g = RandomNormalLike<scale=2.0>(x) y = Add(x, g)",
        "g = RandomNormalLike<mean=1.0>(x) y = Add(x, g)",
    ],
)
@pytest.mark.parametrize("grade", ["exact", "close"])
def test_another_distribution_is_another_function(body, grade):
    found = verify_sides(Side(model(NORMAL, 17, **IO)), Side(model(body, 17, **IO)), grade=grade, promise=True)
    assert (found.status, found.tensor) == ("different", "g")
    assert "other random numbers" in found.why or grade == "exact"


@pytest.mark.parametrize(
    "body",
    [
        "g = RandomNormalLike(x) y = Add(g, x)",
        "g = RandomNormalLike<seed=7.0>(x) y = Add(x, g)",
        "h = RandomNormalLike<scale=2.0>(x) g = Div(h, two) y = Add(x, g)",
    ],
)
def test_other_numbers_are_not(body):
    held = "float two = {2}"
    before, after = (model(text, 17, constants=held, **IO) for text in (NORMAL, body))
    assert verify_sides(Side(before), Side(after), grade="close")


def test_samples():
    generator = np.random.default_rng(0)
    for size in (1, 7, 64, 5000):
        for _ in range(20):
            assert not unlike(generator.standard_normal(size), generator.standard_normal(2 * size))
            assert not unlike(generator.random(size) < 0.3, generator.random(size) < 0.3)
    assert not unlike(np.array([]), np.ones(3))
    assert not unlike(np.zeros(5), np.ones(5)), "too few to tell"
    assert (
        unlike(np.zeros(64), np.ones(64)) == "other random numbers: mean 1, deviation 0 instead of mean 0, deviation 0"
    )
    assert unlike(generator.random(5000) < 0.3, generator.random(5000) < 0.4)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("share", [0.25, 1.0])
def test_what_is_not_finite_is_drawn_otherwise(wrong, share):
    drawn = np.random.default_rng(0).standard_normal(640)
    other = np.where(np.arange(640) < share * 640, wrong, drawn)
    told = f"{int(share * 640)} of 640 elements not finite"
    assert unlike(drawn, other).partition(" instead of ")[0].endswith(told)
    assert unlike(other, drawn).endswith(told)
    assert not unlike(other, other[::-1])


@pytest.mark.parametrize("grade", ["exact", "close"])
def test_a_generator_that_draws_nothing_but_nan_is_another_function(grade):
    other = "h = RandomNormalLike(x) zero = Sub(h, h) g = Div(zero, zero) y = Add(x, g)"
    found = verify_sides(Side(model(NORMAL, 17, **IO)), Side(model(other, 17, **IO)), grade=grade)
    assert found.status == "different"


FEW = {"inputs": "float[N,2] x", "outputs": "float[A,2] y"}
DRAW = "g = RandomNormal<shape = [{}, 2]{}>() y = Concat<axis = 0>(x, g)"


@pytest.mark.parametrize("seed", ["", ", seed = 3.0"])
def test_of_generators_that_draw_little_several_runs_are_compared(seed):
    one = model(DRAW.format(1, seed), 17, **FEW)
    found = verify_sides(Side(one), Side(model(DRAW.format(1, ""), 17, **FEW)), grade="close")
    assert (found.status, found.remarks) == ("equal", ())
    found = verify_sides(Side(one), Side(model(DRAW.format(1, f"{seed}, mean = 7.0"), 17, **FEW)), grade="close")
    assert (found.status, found.tensor) == ("different", "g")
    assert found.why.startswith("other random numbers: mean ")


def test_too_few_numbers_to_tell_are_told():
    """A run that draws one number, of which not many are made."""
    a, b = np.zeros(10), np.ones(10)
    assert not unlike(a, b)
    assert not tells(a, b)
    assert not tells(np.zeros(0), np.zeros(100_000))
    assert not tells(np.zeros(100_000), np.zeros(0))
    assert tells(np.zeros(64), np.zeros(64))


@pytest.mark.parametrize(("sizes", "runs"), [((2, 15), 32), ((1024,), 1), ((1023, 5000), 2), ((), 1), ((0,), 32)])
def test_runs_until_there_are_enough_numbers(sizes, runs):
    class Session:
        count = 0

        def run(self, given):
            self.count += 1
            return [np.full(size, self.count) for size in sizes]

    session = Session()
    made = collect_samples(session, {})
    assert session.count == runs
    for size, drawn in zip(sizes, made, strict=True):
        assert drawn.tolist() == np.repeat(np.arange(1, runs + 1), size).tolist()
