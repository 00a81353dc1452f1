"""Terms: values as real-number functions of others, in one normal form for all their spellings.

Equal terms have equal numbers (value numbering). A product is a coefficient and powers of terms, a sum a constant and
multiples of terms; common factors of two terms of a sum stand in front of it. Nothing is ever multiplied out, so a term
is as large as the nodes that it stands for. What would cancel, and with it lose its shape or a NaN, stays as written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, isclose, isfinite
from typing import Any

from opshift.passes.fusion.keys import FORMS, NUMBER, OP, PRODUCT, SUM, Key, Term

_MOST = 8  # factors of a product, members of a sum: a longer one is no operator's, and hides in a leaf of its own


class Terms:
    """The terms of one model, by number."""

    def __init__(self) -> None:
        self.keys: list[Term] = []
        self.sizes: dict[int, int] = {}
        """How many elements each sum over axes adds up, where that is known."""
        self.reshaped: dict[int, Key] = {}
        """The dimensions before each Reshape, where they are known."""
        self._numbers: dict[Key, int] = {}

    def of(self, *key: Any) -> int:
        """The number of the term with this key."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.keys)
            self.keys.append(FORMS[key[0]](*key))
        return found

    def number(self, value: float) -> int:
        return self.of(NUMBER, float(value))

    def op(self, name: str, parameters: Key, *operands: int) -> int:
        """An operator that the normal form does not take apart: its parameters are (name, value) pairs."""
        return self.of(OP, name, parameters, operands)

    def is_op(self, term: int, name: str) -> bool:
        key = self.keys[term]
        return bool(key.kind == OP and key.name == name)

    def value(self, term: int) -> float | None:
        """The number that a term is; None for any other."""
        key = self.keys[term]
        return key.value if key.kind == NUMBER else None

    def operands(self, term: int) -> Iterator[int]:
        """The terms that a term is made of."""
        key = self.keys[term]
        if key.kind == OP:
            yield from key.operands
        elif key.kind == PRODUCT:
            yield from (base for base, _ in key.powers)
        elif key.kind == SUM:
            yield from (member for member, _ in key.members)

    # --- products -------------------------------------------------------------------------------------------

    def factors(self, term: int) -> tuple[float, dict[int, float]]:
        """A term as a coefficient and powers."""
        key = self.keys[term]
        if key.kind == PRODUCT:
            return key.coefficient, dict(key.powers)
        if key.kind == NUMBER:
            return key.value, {}
        return 1.0, {term: 1.0}

    def mul(self, a: int, b: int) -> int:
        (ca, fa), (cb, fb) = self.factors(a), self.factors(b)
        merged = dict(fa)
        for base, exponent in fb.items():
            if base in merged:
                joined = _join(merged[base], exponent)
                if joined is None:
                    return self.op("Mul", (), *sorted((a, b)))
                merged[base] = joined
            else:
                merged[base] = exponent
        coefficient = ca * cb
        if len(merged) > _MOST or not isfinite(coefficient) or not coefficient:
            return self.op("Mul", (), *sorted((a, b)))
        return self.product(coefficient, merged)

    def times(self, term: int, by: float) -> int:
        return term if by == 1 else self.mul(self.number(by), term)

    def power(self, term: int, exponent: float) -> int:
        key = self.keys[term]
        if key.kind == NUMBER:
            return self._power_of_number(term, key.value, exponent)
        if exponent == 1:
            return term
        if key.kind == PRODUCT:
            coefficient, powers = key.coefficient, dict(key.powers)
            plain = all(e.is_integer() for e in powers.values())
            if exponent == -1 or (plain and exponent.is_integer() and exponent > 0):
                return self.product(coefficient**exponent, {b: e * exponent for b, e in powers.items()})
            if coefficient == 1 and list(powers.values()) == [-1]:
                return self.product(1.0, dict.fromkeys(powers, -exponent))
        return self.product(1.0, {term: float(exponent)})

    def _power_of_number(self, term: int, value: float, exponent: float) -> int:
        if value > 0 or (value and exponent.is_integer()):
            return self.number(value**exponent)
        return self.op("Pow", (("by", exponent),), term)

    def product(self, coefficient: float, powers: Mapping[int, float]) -> int:
        """The term of a coefficient times powers of terms, none of which is a product itself."""
        left: dict[int, float] = {}
        for base, exponent in powers.items():
            content = self._content(base) if exponent == 1 and (len(powers) > 1) else 1.0
            if content != 1:
                coefficient *= content
                base = self._divide(base, content)
            left[base] = exponent
        if len(left) != len(powers):
            left = dict(powers)
        coefficient, left = _known_quotients(self, coefficient, left)
        if not left:
            return self.number(coefficient)
        if len(left) == 1:
            (base, exponent), *_ = left.items()
            if exponent == 1:
                if coefficient == 1:
                    return base
                if self.keys[base].kind == SUM and (self.keys[base].constant or coefficient < 0):
                    constant, members = self.keys[base].constant, self.keys[base].members
                    by = coefficient if constant else -1.0
                    negated = self.sum(constant * by, {m: c * by for m, c in members})
                    return negated if constant else self.product(-coefficient, {negated: 1.0})
                if self.keys[base].kind == PRODUCT:
                    return self.mul(self.number(coefficient), base)
            if exponent == -1 and (found := _sigmoid(self, base)) is not None:
                return self.times(found, coefficient)
        return self.of(PRODUCT, coefficient, tuple(sorted(left.items())))

    def _content(self, term: int) -> float:
        """What stands in front of a sum with a constant that other factors stand beside."""
        key = self.keys[term]
        if key.kind != SUM:
            return 1.0
        return abs(float(key.constant)) or 1.0

    def _divide(self, term: int, by: float) -> int:
        key = self.keys[term]
        return self.of(SUM, key.constant / by, tuple((m, c / by) for m, c in key.members))

    # --- sums -----------------------------------------------------------------------------------------------

    def members(self, term: int) -> tuple[float, dict[int, float]]:
        """A term as a constant and multiples."""
        key = self.keys[term]
        if key.kind == SUM:
            return key.constant, dict(key.members)
        if key.kind == NUMBER:
            return key.value, {}
        if key.kind == PRODUCT and key.coefficient != 1:
            inner = self.product(1.0, dict(key.powers))
            constant, members = self.members(inner) if self.keys[inner].kind == SUM else (0.0, {inner: 1.0})
            return constant * key.coefficient, {m: c * key.coefficient for m, c in members.items()}
        return 0.0, {term: 1.0}

    def add(self, a: int, b: int, sign: float = 1.0) -> int:
        for of, times, first in ((a, b, True), (b, a, False)):  # a sum stays whole beside its multiples, as a leaf does
            if self.keys[of].kind == SUM and (rest := self._cofactor(of, times)) is not None:
                one = self.number(1.0)
                return self.mul(of, self.add(one, rest, sign) if first else self.add(rest, one, sign))
        (ca, ma), (cb, mb) = self.members(a), self.members(b)
        merged = dict(ma)
        for part, coefficient in mb.items():
            merged[part] = merged.get(part, 0.0) + sign * coefficient
        constant = ca + sign * cb
        if len(merged) > _MOST and a != b:
            merged, constant = {a: 1.0, b: sign}, 0.0
        if not all(merged.values()) or not isfinite(constant) or (not constant and ca):
            return self.op("Add" if sign == 1 else "Sub", (), *(sorted((a, b)) if sign == 1 else (a, b)))
        return self.sum(constant, merged)

    def _cofactor(self, of: int, term: int) -> int | None:
        """What a product multiplies a term by; None if it is none of its factors."""
        if self.keys[term].kind != PRODUCT or of == term:
            return None
        coefficient, powers = self.factors(term)
        exponent = powers.get(of, 0.0)
        if exponent < 1 or not exponent.is_integer():
            return None
        left = {base: e - (base == of) for base, e in powers.items()}
        return self.product(coefficient, {base: e for base, e in left.items() if e})

    def sum(self, constant: float, members: Mapping[int, float]) -> int:
        """The term of a constant plus multiples of terms, none of which is a sum or a multiple itself."""
        left = dict(members)
        if len(left) > 1:
            found = _about_mean(self, constant, left)
            if found is not None:
                return found
            pair = self._alike(left)
            if pair is not None:
                return self._factor(constant, left, *pair)
        if not left:
            return self.number(constant)
        if len(left) == 1 and not constant:
            (part, coefficient), *_ = left.items()
            coefficient_within, powers = self.factors(part)
            return self.product(coefficient_within * coefficient, powers)
        sizes = {abs(coefficient) for coefficient in left.values()}
        if not constant and len(sizes) == 1 and (size := sizes.pop()) != 1:
            primitive = self.of(SUM, 0.0, tuple(sorted((part, c / size) for part, c in left.items())))
            return self.of(PRODUCT, size, ((primitive, 1.0),))
        return self.of(SUM, constant, tuple(sorted(left.items())))

    def _alike(self, members: Mapping[int, float]) -> tuple[int, int, dict[int, float]] | None:
        """The two members with most factors in common."""
        taken = [(part, self.factors(part)[1]) for part in members]
        if len(taken) > 4 and sum(len(powers) > 1 for _, powers in taken) < 2:
            return None
        best: tuple[int, int, dict[int, float]] | None = None
        for index, (a, fa) in enumerate(taken):
            for b, fb in taken[:index]:
                common = {base: _common(e, fb[base]) for base, e in fa.items() if base in fb}
                common = {base: e for base, e in common.items() if e}
                if common and (best is None or len(common) > len(best[2])):
                    best = a, b, common
        return best

    def _factor(self, constant: float, members: dict[int, float], a: int, b: int, common: dict[int, float]) -> int:
        rests = []
        for part in (a, b):
            _, powers = self.factors(part)
            left = {base: e - common.get(base, 0.0) for base, e in powers.items()}
            rest = self.product(1.0, {base: e for base, e in left.items() if e})
            rests.append(self.times(rest, members.pop(part)))
        inner = self.add(*rests)
        joined = self.mul(self.product(1.0, common), inner)
        if not members and not constant:
            return joined
        return self.add(self.sum(constant, members), joined)


def _join(a: float, b: float) -> float | None:
    """The exponent of a product of two powers; None where the product knows less than its factors."""
    whole = a.is_integer() and b.is_integer()
    return a + b if whole and (a > 0) == (b > 0) else None


def _common(a: float, b: float) -> float:
    if a == b:
        return a
    whole = a.is_integer() and b.is_integer()
    return (min(a, b) if a > 0 else max(a, b)) if whole and (a > 0) == (b > 0) else 0.0


# --- what has a name of its own -----------------------------------------------------------------------------


def _about_mean(terms: Terms, constant: float, members: dict[int, float]) -> int | None:
    """x - Mean(x) is Centered(x); Mean(x**2) - Mean(x)**2 is Variance(x)."""
    if constant:
        return None
    for part, coefficient in members.items():
        if terms.is_op(part, "Mean"):
            axes, inner = terms.keys[part].parameters, terms.keys[part].operands[0]
            rest = {m: -c / coefficient for m, c in members.items() if m != part}
            if len(rest) <= len(terms.members(inner)[1]) and terms.sum(0.0, rest) == inner:
                return terms.times(terms.op("Centered", axes, inner), -coefficient)
    if len(members) != 2:
        return None
    for part, coefficient in members.items():
        other = next(m for m in members if m != part)
        if not terms.is_op(part, "Mean") or members[other] != -coefficient:
            continue
        axes, squares = terms.keys[part].parameters, terms.keys[part].operands[0]
        _, powers = terms.factors(other)
        ((mean, exponent), *more) = powers.items()
        if not more and exponent == 2 and terms.is_op(mean, "Mean") and terms.keys[mean].parameters == axes:
            x = terms.keys[mean].operands[0]
            if terms.power(x, 2.0) == squares:
                return terms.times(terms.op("Variance", axes, x), coefficient)
    return None


def mean(terms: Terms, axes: Key, x: int) -> int:
    """The mean of a term over axes; that of (x - Mean(x))**2 is Variance(x)."""
    coefficient, powers = terms.factors(x)
    if len(powers) == 1:
        ((base, exponent),) = powers.items()
        if exponent == 2 and terms.is_op(base, "Centered") and terms.keys[base].parameters == axes:
            return terms.times(terms.op("Variance", axes, terms.keys[base].operands[0]), coefficient)
    return terms.op("Mean", axes, x)


def _known_quotients(terms: Terms, coefficient: float, powers: dict[int, float]) -> tuple[float, dict[int, float]]:
    """Total(x) / size is Mean(x); Exp(x) / Total(Exp(x)) is Softmax(x)."""
    for base, exponent in powers.items():
        if not terms.is_op(base, "Total"):
            continue
        axes, inner = terms.keys[base].parameters, terms.keys[base].operands[0]
        size = terms.sizes.get(base)
        if exponent == 1 and size and isclose(coefficient * size, 1.0, rel_tol=1e-6):
            rest = {b: e for b, e in powers.items() if b != base}
            return _put(terms, 1.0, rest, mean(terms, axes, inner))
        if exponent == -1 and powers.get(inner) == 1 and terms.is_op(inner, "Exp"):
            rest = {b: e for b, e in powers.items() if b not in (base, inner)}
            return _put(terms, coefficient, rest, terms.op("Softmax", axes, _remove_shift(terms, axes, inner)))
    return coefficient, powers


def _put(terms: Terms, coefficient: float, powers: dict[int, float], term: int) -> tuple[float, dict[int, float]]:
    """A product times a term, which may be a factor of it already."""
    return terms.factors(terms.mul(terms.product(coefficient, powers), term))


def _remove_shift(terms: Terms, axes: Key, exponential: int) -> int:
    """Read x - Max(x) under a Softmax as x: a shift along the axes changes nothing."""
    inner: int = terms.keys[exponential].operands[0]
    constant, members = terms.members(inner)
    for part, coefficient in members.items():
        if terms.is_op(part, "Largest") and coefficient == -1 and terms.keys[part].parameters == axes:
            rest = terms.sum(constant, {m: c for m, c in members.items() if m != part})
            if rest == terms.keys[part].operands[0]:
                return rest
    return inner


def _sigmoid(terms: Terms, base: int) -> int | None:
    """1 / (1 + exp(-x)) is Sigmoid(x)."""
    key = terms.keys[base]
    if key.kind != SUM or key.constant != 1 or len(key.members) != 1:
        return None
    ((exponential, coefficient),) = key.members
    if coefficient != 1 or not terms.is_op(exponential, "Exp"):
        return None
    return terms.op("Sigmoid", (), terms.times(terms.keys[exponential].operands[0], -1.0))


def clip(terms: Terms, x: int, low: float, high: float) -> int:
    """x between two bounds: one step of bounds for several, and as far apart as 1 where both are there."""
    if terms.is_op(x, "Clip"):
        (_, lower), (_, upper) = terms.keys[x].parameters
        if max(low, lower) <= min(high, upper):
            return clip(terms, terms.keys[x].operands[0], max(low, lower), min(high, upper))
    if low == 0 and high == inf and terms.is_op(x, "Variance"):
        return x
    width = high - low
    if width > 0 and isfinite(width) and width != 1:
        x, low, high = terms.times(x, 1 / width), low / width, high / width
        if terms.is_op(x, "Clip"):
            return terms.times(clip(terms, x, low, high), width)
        # as far apart as 1 but for rounding: no reason to scale them once more
        return terms.times(terms.op("Clip", (("low", low), ("high", high)), x), width)
    return terms.op("Clip", (("low", low), ("high", high)), x)
