"""Integers that are computed from dynamic dimensions, as polynomials: `2*batch + 1`."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

Monomial = tuple[str, ...]
_MOST_TERMS = 8


class Poly(NamedTuple):
    """A polynomial of dimensions with integer coefficients, in order; never a mere number.

    A symbol stands for one dimension of one value, or for the dimensions that the model gives one name.
    """

    terms: tuple[tuple[Monomial, int], ...]

    @property
    def symbol(self) -> str | None:
        """The symbol, if the polynomial is just one dimension; else None."""
        if len(self.terms) == 1:
            (names, factor), *_ = self.terms
            if factor == 1 and len(names) == 1:
                return names[0]
        return None


Number = int | Poly


def symbol(name: str) -> Poly:
    """Make the polynomial of one dimension."""
    return Poly((((name,), 1),))


def add(a: Number, b: Number) -> Number | None:
    """Add two numbers; None if the sum has too many terms."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    found = Counter(_terms(a))
    for names, factor in _terms(b).items():
        found[names] += factor
    return _make(found)


def multiply(a: Number, b: Number) -> Number | None:
    """Multiply two numbers; None if the product has too many terms."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 1 or b == 1:
        return b if a == 1 else a
    found: Counter[Monomial] = Counter()
    for left, f in _terms(a).items():
        for right, g in _terms(b).items():
            found[tuple(sorted((*left, *right)))] += f * g
    return _make(found)


def divide(a: Number, b: Number) -> Number | None:
    """Divide two numbers; None if there may be a remainder, or if `b` may be 0."""
    if isinstance(b, Poly):
        return 1 if a == b and is_positive(b) else None
    if isinstance(a, int) and b:
        return None if a % b else a // b
    if b == 0 or any(factor % b for factor in _terms(a).values()):
        return None
    return _make(Counter({names: factor // b for names, factor in _terms(a).items()}))


def is_natural(a: Number) -> bool:
    """Tell whether a number is never negative, as no dimension is."""
    return all(factor >= 0 for factor in _terms(a).values())


def is_positive(a: Number) -> bool:
    """Tell whether a number is at least 1, whatever the dimensions are."""
    return is_natural(a) and _terms(a).get((), 0) > 0


def _terms(a: Number) -> dict[Monomial, int]:
    return {(): a} if isinstance(a, int) else dict(a.terms)


def _make(found: Counter[Monomial]) -> Number | None:
    terms = tuple(sorted((names, factor) for names, factor in found.items() if factor))
    if len(terms) > _MOST_TERMS or any(len(names) > _MOST_TERMS for names, _ in terms):
        return None
    if not terms:
        return 0
    return terms[0][1] if len(terms) == 1 and not terms[0][0] else Poly(terms)
