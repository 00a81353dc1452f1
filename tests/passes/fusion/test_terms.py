"""The normal form: one number for all spellings of a sum or a product, and two where something would be lost."""

from math import inf

import pytest
from opshift.passes.fusion.keys import LEAF, OP
from opshift.passes.fusion.terms import Terms, clip, mean

AXES = (("axes", (-1,)),)


class Value:
    """Python's operators on terms."""

    def __init__(self, terms, term):
        self.terms, self.term = terms, term

    def _of(self, other):
        return other.term if isinstance(other, Value) else self.terms.number(other)

    def __add__(self, other):
        return Value(self.terms, self.terms.add(self.term, self._of(other)))

    def __sub__(self, other):
        return Value(self.terms, self.terms.add(self.term, self._of(other), -1.0))

    def __mul__(self, other):
        return Value(self.terms, self.terms.mul(self.term, self._of(other)))

    def __truediv__(self, other):
        return Value(self.terms, self.terms.mul(self.term, self.terms.power(self._of(other), -1.0)))

    def __pow__(self, exponent):
        return Value(self.terms, self.terms.power(self.term, exponent))

    def mean(self):
        return Value(self.terms, mean(self.terms, AXES, self.term))

    def exp(self):
        return Value(self.terms, self.terms.op("Exp", (), self.term))

    def sigmoid(self):
        return Value(self.terms, self.terms.op("Sigmoid", (), self.term))

    def between(self, low, high):
        return Value(self.terms, clip(self.terms, self.term, low, high))


@pytest.fixture
def values():
    terms = Terms()
    return [Value(terms, terms.of(LEAF, name)) for name in "xyzw"]


SAME = {
    "order": lambda x, y, z, w: (x + y + z, z + x + y),
    "numbers": lambda x, y, z, w: (x * 0.5 * y * 4.0, y * x * 2.0),
    "quotients": lambda x, y, z, w: (x / y / z, x * (z * y) ** -1.0),
    "roots": lambda x, y, z, w: ((x + y) ** -0.5, ((y + x) ** 0.5) ** -1.0),
    "powers": lambda x, y, z, w: (x * x * x, x**3.0),
    "common factors": lambda x, y, z, w: (x * y + z * y, y * (z + x)),
    "halves": lambda x, y, z, w: (x * 0.5 + x * y * 0.5, x * (y + 1.0) * 0.5),
    "signs": lambda x, y, z, w: ((x - y) * -1.0, y - x),
    "deviations": lambda x, y, z, w: ((x - z) * y + w, x * y + (w - z * y)),
    "variance": lambda x, y, z, w: (((x - x.mean()) ** 2.0).mean(), (x * x).mean() - x.mean() * x.mean()),
    "variance of a sum": lambda x, y, z, w: (
        ((x + y - (x + y).mean()) ** 2.0).mean(),
        ((y + x) ** 2.0).mean() - (x + y).mean() ** 2.0,
    ),
    "bounds": lambda x, y, z, w: ((x + 3.0).between(0, 6) / Value(x.terms, x.terms.number(6)),
                                  (x * (1 / 6) + 0.5).between(0, 1)),
    "bounds on both sides of 0": lambda x, y, z, w: ((x * 2.0).between(-2, 2), x.between(-1, 1) * 2.0),
    "bounds within bounds": lambda x, y, z, w: (x.between(0, inf).between(-1, 4), x.between(0, 4)),
    "multiples of a sum": lambda x, y, z, w: (x * 0.5 - y * 0.5, (x - y) * 0.5),
    "multiples of a difference": lambda x, y, z, w: ((y * 2.0 + x * -2.0) / z, (y - x) / z * 2.0),
    "sigmoids": lambda x, y, z, w: (x / ((x * -1.0).exp() + 1.0), x * x.sigmoid()),
    "multiples of a sigmoid": lambda x, y, z, w: ((((x * -1.0).exp() + 1.0) ** -1.0) * 3.0, x.sigmoid() * 3.0),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_spellings_of_one_function_are_one_term(values, name):
    a, b = SAME[name](*values)
    assert a.term == b.term


OTHERS = {
    "difference with itself": lambda x, y: (x - x, x * 0.0),
    "quotient by itself": lambda x, y: (x / x, y / y),
    "root of a square": lambda x, y: ((x * x) ** 0.5, x),
    "square of a root": lambda x, y: (x**0.5 * x**0.5, x),
    "another mean": lambda x, y: (x - y.mean(), x - x.mean()),
    "bounds beyond bounds": lambda x, y: (x.between(4, inf).between(-inf, 2), x.between(4, 2)),
    "nearly the same number": lambda x, y: (x * 0.7071, x * 0.7072),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_would_lose_a_shape_a_sign_or_a_nan_stays_as_written(values, name):
    a, b = OTHERS[name](*values[:2])
    assert a.term != b.term


def test_long_sums_stay_as_large_as_they_are(values):
    x, *_ = values
    total = x
    for index in range(1000):
        total = total + Value(x.terms, x.terms.of(LEAF, str(index)))
    assert max(len(key[2]) for key in x.terms.keys if key[0] == "+") <= 8
    assert (total - total.mean()).term == x.terms.op("Centered", AXES, total.term)


@pytest.mark.parametrize(("low", "high"), [(-5100000.0, -12000.0), (1e6, 1e6 + 0.001), (-1e-320, 5e-324)])
def test_bounds_whose_quotients_are_not_1_apart_for_rounding(values, low, high):
    x, *_ = values
    assert x.between(low, high).term == x.between(low, high).term
    assert [key.name for key in x.terms.keys if key.kind == OP and key.name == "Clip"] == ["Clip"]


@pytest.mark.parametrize("first", ["square of the mean", "mean of the squares"])
def test_a_variance_is_one_whichever_part_was_read_first(first):
    """Parts of a sum stand in the order in which they were met."""
    terms = Terms()
    x = Value(terms, terms.of(LEAF, "x"))
    squares = x.mean() ** 2.0 if first == "square of the mean" else (x * x).mean()
    variance = (x * x).mean() - x.mean() ** 2.0
    assert terms.is_op(variance.term, "Variance")
    assert terms.is_op((variance * 3.0 - squares * 0.5).term, "Variance") is False
    assert not terms.is_op(((x * x).mean() - x.mean() ** 3.0).term, "Variance")
    assert not terms.is_op(((x * x).mean() - x.mean() ** 2.0 * 2.0).term, "Variance")
    assert not terms.is_op(((x * x).mean() - x.mean() ** 2.0 + 1.0).term, "Variance")
    assert (x.mean() ** 2.0 - (x * x).mean()).term == (variance * -1.0).term


def test_what_is_centered_is_told_by_its_mean(values):
    x, y, *_ = values
    terms, centered = x.terms, x - x.mean()
    assert terms.is_op(centered.term, "Centered")
    assert (x.mean() - x).term == (centered * -1.0).term
    assert (x * 2.0 - x.mean() * 2.0).term == (centered * 2.0).term
    for other in (x + y - x.mean(), x - x.mean() * 2.0, x - x.mean() + 1.0, x * y - x.mean()):
        assert not terms.is_op(other.term, "Centered")
    assert terms.is_op((x + y - (x + y).mean()).term, "Centered")
    assert terms.is_op((centered**2.0).mean().term, "Variance")
    assert not terms.is_op((centered**3.0).mean().term, "Variance")
    other = mean(terms, (("axes", (-2,)),), (centered**2.0).term)
    assert terms.is_op(other, "Mean")


def test_a_share_of_a_sum_of_exponentials_is_a_softmax_and_a_square_of_them_is_none(values):
    x, *_ = values
    power = x.exp()
    total = Value(x.terms, x.terms.op("Total", AXES, power.term))
    softmax = x.terms.op("Softmax", AXES, x.term)
    assert (power / total).term == softmax
    assert (power * power / total).term != softmax


def test_a_total_over_its_size_is_a_mean_beside_other_factors(values):
    x, y, *_ = values
    variance = ((x - x.mean()) ** 2.0).mean()
    for inner, known in ((x, x.mean()), (x * y, (x * y).mean()), ((x - x.mean()) ** 2.0 * 3.0, variance * 3.0)):
        total = Value(x.terms, x.terms.op("Total", AXES, inner.term))
        assert (total / 4.0).term != known.term, "its size is not known"
        x.terms.sizes[total.term] = 4
        assert (total / 4.0).term == known.term
        assert (total * 0.5).term != known.term
        assert (y * total * 0.25).term == (total * y * 0.25).term == (y * known).term


def test_a_mean_and_a_softmax_beside_themselves_are_their_squares(values):
    x, y, *_ = values
    for inner in (x, x * y):
        total = Value(x.terms, x.terms.op("Total", AXES, inner.term))
        x.terms.sizes[total.term] = 4
        assert (inner.mean() * total / 4.0).term == (inner.mean() ** 2.0).term
    power, softmax = x.exp(), Value(x.terms, x.terms.op("Softmax", AXES, x.term))
    total = Value(x.terms, x.terms.op("Total", AXES, power.term))
    assert (softmax * power / total).term == (softmax**2.0).term
