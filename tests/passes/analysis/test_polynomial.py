"""Integers made of dimensions: sums, products and quotients, and what is known of their signs."""

import itertools

import pytest
from opshift.passes.analysis.polynomial import Poly, add, divide, is_natural, is_positive, multiply, symbol

N, M = symbol("n"), symbol("m")
TWO_N, N_AND_1 = multiply(N, 2), add(N, 1)


def at(number, **dims):
    """Its value where the dimensions have these sizes."""
    if isinstance(number, int):
        return number
    total = 0
    for names, factor in number.terms:
        for name in names:
            factor *= dims[name]
        total += factor
    return total


@pytest.mark.parametrize(
    ("operate", "expected"), [(add, lambda a, b: a + b), (multiply, lambda a, b: a * b)], ids=["add", "multiply"]
)
def test_sums_and_products_are_those_of_every_size(operate, expected):
    numbers = [0, 1, -3, 7, N, M, TWO_N, N_AND_1, multiply(N, M), add(multiply(N, -1), M)]
    for a, b in itertools.product(numbers, repeat=2):
        for n, m in ((0, 1), (3, 5), (7, 2)):
            assert at(operate(a, b), n=n, m=m) == expected(at(a, n=n, m=m), at(b, n=n, m=m))


def test_numbers_are_numbers_again_and_terms_are_in_order():
    assert add(N, multiply(N, -1)) == 0
    assert add(N_AND_1, multiply(N, -1)) == 1
    assert multiply(N, 0) == 0
    assert multiply(N, 1) == N
    assert add(M, N) == add(N, M) == Poly(((("m",), 1), (("n",), 1)))
    assert multiply(M, N) == Poly(((("m", "n"), 1),))
    assert add(2, 3) == 5
    assert isinstance(multiply(2, 3), int)


def test_one_dimension():
    assert (N.symbol, M.symbol) == ("n", "m")
    for other in (TWO_N, N_AND_1, multiply(N, M), multiply(N, N), Poly(())):
        assert other.symbol is None


@pytest.mark.parametrize(
    ("a", "b", "quotient"),
    [
        (6, 2, 3), (6, -2, -3), (0, 5, 0), (7, 2, None), (6, 0, None), (TWO_N, 2, N), (TWO_N, 4, None), (N_AND_1, 2, None),
        (multiply(N_AND_1, 2), 2, N_AND_1), (N, 1, N), (N_AND_1, N_AND_1, 1), (N, N, None), (TWO_N, N, None), (6, N_AND_1, None),
        (add(N, -1), add(N, -1), None),
    ],
)  # fmt: skip
def test_quotients_have_no_remainder_and_nothing_is_divided_by_0(a, b, quotient):
    assert divide(a, b) == quotient


@pytest.mark.parametrize(
    ("number", "natural", "positive"),
    [
        (0, True, False), (1, True, True), (-1, False, False), (N, True, False), (N_AND_1, True, True), (TWO_N, True, False),
        (add(N, -1), False, False), (add(M, multiply(N, -1)), False, False), (add(multiply(N, -1), 1), False, False),
    ],
)  # fmt: skip
def test_signs_hold_whatever_the_dimensions_are(number, natural, positive):
    assert (is_natural(number), is_positive(number)) == (natural, positive)


def test_what_has_too_many_terms_is_left_open():
    names = [symbol(f"d{k}") for k in range(9)]
    total, product = 0, 1
    for name in names[:8]:
        total, product = add(total, name), multiply(product, name)
    assert len(total.terms) == 8
    assert [len(held) for held, _ in product.terms] == [8]
    assert add(total, names[8]) is None
    assert multiply(product, names[8]) is None
    assert multiply(names[8], product) is None
