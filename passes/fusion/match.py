"""Matches the term of a definition against the term of a value, modulo the order of factors and members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from math import inf, isclose

from opshift.passes.fusion.keys import LEAF, NUMBER, OP, PRODUCT, SUM, TENSOR, VARIABLE, Term
from opshift.passes.fusion.terms import Terms

_EXPONENTS = (1.0, -1.0, 0.5, -0.5, 2.0, -2.0)
_SWAPPABLE = frozenset(("Max", "Min", "Equal", "And", "Or", "Xor", "Mul", "Add"))


@dataclass(frozen=True)
class GraphMatch:
    """What the variables of a definition and the floats of its call stand for."""

    bound: Mapping[int, int] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    floats: Mapping[str, float] = field(default_factory=dict)

    def binding(self, variable: int, term: int) -> GraphMatch:
        return GraphMatch({**self.bound, variable: term}, self.dims, self.floats)

    def holding(self, name: str, value: float) -> GraphMatch:
        return GraphMatch(self.bound, self.dims, {**self.floats, name: value})


class Matcher:
    """One definition, at `root` among `own` terms, against terms of `other`.

    `marks` are the floats that the definition was called with, each a number that nothing else is.
    """

    def __init__(self, own: Terms, root: int, marks: Mapping[str, float], other: Terms, tolerance: float):
        self._own = own
        self._root = root
        self._marks = marks
        self._other = other
        self._tolerance = tolerance

    def all(self, term: int) -> Iterator[GraphMatch]:
        """Every way in which the definition is the term."""
        return self._match(self._root, term, GraphMatch())

    def _match(self, p: int, s: int, found: GraphMatch) -> Iterator[GraphMatch]:
        pattern, subject = self._own.keys[p], self._other.keys[s]
        if pattern.kind == VARIABLE:
            known = found.bound.get(pattern.number)
            if known is None and subject.kind != NUMBER:
                yield found.binding(pattern.number, s)
            elif known == s:
                yield found
        elif pattern.kind == NUMBER:
            if subject.kind == NUMBER:
                yield from self._number(pattern.value, subject.value, found)
        elif pattern.kind == OP:
            if pattern.name == "Transpose" and self._own.keys[pattern.operands[0]].kind == VARIABLE:
                yield from self._transpose(pattern, s, found)
            elif self._is_column(p) and not self._other.is_op(s, "Reshape"):
                vector = self._vector(s, len(pattern.parameter) - 1)
                yield from self._match(pattern.operands[0], vector, found)
            elif pattern.name == "Twice" and not self._other.is_op(s, "Twice"):
                yield from self._halve(pattern, s, found)
            elif subject.kind == OP and pattern.name == subject.name and len(pattern.operands) == len(subject.operands):
                yield from self._operator(pattern, subject, found)
        elif pattern.kind == PRODUCT:
            yield from self._product(p, s, found)
        elif pattern.kind == SUM:
            yield from self._sum(p, s, found)
        elif pattern == subject:
            yield found

    def _number(self, p: float, s: float, found: GraphMatch) -> Iterator[GraphMatch]:
        if self._is(p, s):
            yield found
            return
        marked = self._mark(p)
        if marked is None or not s:
            return
        name, sign, exponent = marked
        if sign * s <= 0 and exponent not in (1.0, -1.0):
            return
        value = (sign * s) ** (1 / exponent)
        known = found.floats.get(name)
        if known is None:
            yield found.holding(name, value)
        elif self._is(known, value):
            yield found

    def _mark(self, p: float) -> tuple[str, float, float] | None:
        """The float of the call that a number hangs on: its sign and its power."""
        for name, value in self._marks.items():
            for exponent in _EXPONENTS:
                for sign in (1.0, -1.0):
                    if isclose(p, sign * value**exponent, rel_tol=max(self._tolerance, 1e-6)):
                        return name, sign, exponent
        return None

    def _is(self, a: float, b: float) -> bool:
        return isclose(a, b, rel_tol=self._tolerance)

    def _whole(self, ratio: float) -> float:
        """What a value is a multiple of another by: itself, where the two are as far apart as roundings are."""
        return next((one for one in (1.0, -1.0) if self._is(one, ratio)), ratio)

    def _operator(self, pattern: Term, subject: Term, found: GraphMatch) -> Iterator[GraphMatch]:
        if len(pattern.parameters) != len(subject.parameters):
            return
        for (name, p), (other, s) in zip(pattern.parameters, subject.parameters, strict=True):
            if name == other == "shape":
                held = self._shapes(p, s, found)
                if held is None:
                    return
                found = held
                continue
            if name != other or (p != s and not (isinstance(p, float) and isinstance(s, float))):
                return
            if p != s:
                held = next(self._number(p, s, found), None) if abs(p) != inf and abs(s) != inf else None
                if held is None:
                    return
                found = held
        orders = [subject.operands]
        if pattern.name in _SWAPPABLE and len(subject.operands) == 2:
            orders.append(subject.operands[::-1])
        for order in orders:
            yield from self._each(pattern.operands, order, found)

    def _halve(self, pattern: Term, s: int, found: GraphMatch) -> Iterator[GraphMatch]:
        """A constant may hold the same twice."""
        inner = self._own.keys[pattern.operands[0]]
        if self._other.keys[s].kind in (LEAF, TENSOR) and self._own.is_op(pattern.operands[0], "Unsqueeze"):
            yield from self._match(inner.operands[0], self._other.op("Half", (), s), found)

    def _vector(self, s: int, behind: int) -> int:
        """What has so many axes of one element behind it."""
        key = self._other.keys[s]
        if self._other.is_op(s, "Unsqueeze") and key.parameters == (("axes", tuple(range(-behind, 0))),):
            return int(key.operands[0])
        return self._other.op("Vector", (("behind", behind),), s)

    def _is_column(self, p: int) -> bool:
        """Whether a term is a vector that is shaped to be broadcast over the axes behind its own."""
        key = self._own.keys[p]
        if not self._own.is_op(p, "Reshape") or self._own.keys[key.operands[0]].kind != VARIABLE:
            return False
        return len(key.parameter) > 1 and all(self._own.value(dim) == 1 for dim in key.parameter[1:])

    def _transpose(self, pattern: Term, s: int, found: GraphMatch) -> Iterator[GraphMatch]:
        """Another Transpose is this one of a value that is transposed once more."""
        if not self._other.is_op(s, "Transpose"):
            return
        perm, other, (base,) = pattern.parameter, self._other.keys[s].parameter, self._other.keys[s].operands
        if len(perm) != len(other):
            return
        inverse = [0] * len(perm)
        for axis, of in enumerate(perm):
            inverse[of] = axis
        first = tuple(other[axis] for axis in inverse)
        straight = first == tuple(range(len(first)))
        term = base if straight else self._other.op("Transpose", (("perm", first),), base)
        yield from self._match(pattern.operands[0], term, found)

    def _shapes(self, ps: tuple[int, ...], ss: tuple[int, ...], found: GraphMatch) -> GraphMatch | None:
        """The shapes of two Reshapes: -1 is any dimension, a symbol the same one everywhere."""
        if len(ps) != len(ss):
            return None
        for p, s in zip(ps, ss, strict=True):
            key = self._own.keys[p]
            if key.kind == LEAF and key.owner == "symbol":
                if found.dims.get(key.name, s) != s:
                    return None
                found = GraphMatch(found.bound, {**found.dims, key.name: s}, found.floats)
            elif self._own.value(p) != -1:
                held = next(self._match(p, s, found), None)
                if held is None:
                    return None
                found = held
        return found

    def _each(self, ps: tuple[int, ...], ss: tuple[int, ...], found: GraphMatch) -> Iterator[GraphMatch]:
        if not ps:
            yield found
            return
        for held in self._match(ps[0], ss[0], found):
            yield from self._each(ps[1:], ss[1:], held)

    def _parts_without_variables(self, parts: Mapping[int, float]) -> list[tuple[int, float]]:
        """Leave out parts that are variables; a broadcast vector, which matches almost anything, comes last."""
        fixed = [(part, weight) for part, weight in parts.items() if self._own.keys[part].kind != VARIABLE]
        return sorted(fixed, key=lambda part: self._is_column(part[0]))

    # --- products -------------------------------------------------------------------------------------------

    def _product(self, p: int, s: int, found: GraphMatch) -> Iterator[GraphMatch]:
        yield from self._powers(self._own.factors(p), self._other.factors(s), found)

    def _powers(
        self, own: tuple[float, dict[int, float]], other: tuple[float, dict[int, float]], found: GraphMatch
    ) -> Iterator[GraphMatch]:
        (coefficient, powers), (given, factors) = own, other
        free = [(self._own.keys[b].number, e) for b, e in powers.items() if self._own.keys[b].kind == VARIABLE]
        for held, rest in self._factors(self._parts_without_variables(powers), factors, found):
            yield from self._free_factors(coefficient, free, given, rest, held)

    def _factors(
        self, fixed: list[tuple[int, float]], factors: dict[int, float], found: GraphMatch
    ) -> Iterator[tuple[GraphMatch, dict[int, float]]]:
        if not fixed:
            yield found, factors
            return
        (base, exponent), *more = fixed
        for candidate, power in factors.items():
            if power == exponent or (power.is_integer() and exponent.is_integer() and power / exponent > 1):
                rest = {b: e for b, e in factors.items() if b != candidate}
                if power != exponent:
                    rest[candidate] = power - exponent
                for held in self._match(base, candidate, found):
                    yield from self._factors(more, rest, held)

    def _free_factors(
        self, coefficient: float, free: list[tuple[int, float]], given: float, rest: dict[int, float], found: GraphMatch
    ) -> Iterator[GraphMatch]:
        open_ = []
        for variable, exponent in free:
            if variable not in found.bound:
                open_.append((variable, exponent))
                continue
            within, powers = self._other.factors(found.bound[variable])
            given /= within**exponent
            for base, e in powers.items():
                left = rest.get(base, 0.0) - e * exponent
                if base not in rest or (left and (left > 0) != (rest[base] > 0)):
                    return
                rest = {b: (left if b == base else x) for b, x in rest.items() if b != base or left}
        if not open_:
            if not rest:
                yield from self._number(coefficient, given, found)
            return
        for shares in _share(rest, len(open_)):
            yield from self._assign(coefficient, open_, given, shares, found)

    def _assign(
        self,
        coefficient: float,
        free: list[tuple[int, float]],
        given: float,
        shares: list[dict[int, float]],
        found: GraphMatch,
    ) -> Iterator[GraphMatch]:
        """Each variable takes its share of the factors; a number that is left over goes to the last one."""
        whole = self._is(coefficient, given) or self._mark(coefficient) is not None
        for index, ((variable, exponent), share) in enumerate(zip(free, shares, strict=True)):
            if any((e / exponent) != int(e / exponent) for e in share.values()):
                return
            over = 1.0
            if not whole and index == len(free) - 1:
                ratio = given / coefficient
                if ratio <= 0 and exponent not in (1.0, -1.0):
                    return
                over = self._whole(ratio ** (1 / exponent))
            found = found.binding(variable, self._other.product(over, {b: e / exponent for b, e in share.items()}))
        if whole:
            yield from self._number(coefficient, given, found)
        else:
            yield found

    # --- sums -----------------------------------------------------------------------------------------------

    def _sum(self, p: int, s: int, found: GraphMatch) -> Iterator[GraphMatch]:
        constant, parts = self._own.members(p)
        given, members = self._other.members(s)
        fixed = self._parts_without_variables(parts)
        free = [(self._own.keys[m].number, c) for m, c in parts.items() if self._own.keys[m].kind == VARIABLE]
        for held, rest in self._members(fixed, members, found):
            yield from self._free_members(constant, free, given, rest, held)

    def _members(
        self, fixed: list[tuple[int, float]], members: dict[int, float], found: GraphMatch
    ) -> Iterator[tuple[GraphMatch, dict[int, float]]]:
        if not fixed:
            yield found, members
            return
        (part, coefficient), *more = fixed
        for candidate, given in members.items():
            rest = {m: c for m, c in members.items() if m != candidate}
            for held in self._multiple(part, coefficient, candidate, given, found):
                yield from self._members(more, rest, held)

    def _multiple(self, p: int, coefficient: float, s: int, given: float, found: GraphMatch) -> Iterator[GraphMatch]:
        """A coefficient belongs to the product behind it: a variable in there may take a part of it."""
        if self._own.keys[p].kind != PRODUCT:
            for held in self._match(p, s, found):
                yield from self._number(coefficient, given, held)
            return
        _, powers = self._own.factors(p)
        _, factors = self._other.factors(s)
        yield from self._powers((coefficient, powers), (given, factors), found)

    def _free_members(
        self, constant: float, free: list[tuple[int, float]], given: float, rest: dict[int, float], found: GraphMatch
    ) -> Iterator[GraphMatch]:
        open_ = []
        for variable, coefficient in free:
            if variable not in found.bound:
                open_.append((variable, coefficient))
                continue
            within, members = self._other.members(found.bound[variable])
            marked = self._mark(coefficient)
            if marked is not None:
                sample = next(iter(members), None)
                if sample is None or sample not in rest:
                    return
                held = next(self._number(coefficient, rest[sample] / members[sample], found), None)
                if held is None:
                    return
                found, coefficient = held, rest[sample] / members[sample]
            given -= within * coefficient
            for part, c in members.items():
                if part not in rest or not self._is(rest[part], c * coefficient):
                    return
                rest = {m: x for m, x in rest.items() if m != part}
        if not open_:
            if not rest:
                yield from self._number(constant, given, found)
        elif len(open_) == 1:
            yield from self._last_member(constant, *open_[0], given, rest, found)
        else:
            for shares in _share(rest, len(open_)):
                held = found
                for (variable, coefficient), share in zip(open_, shares, strict=True):
                    parts = {m: self._whole(c / coefficient) for m, c in share.items()}
                    held = held.binding(variable, self._other.sum(0.0, parts))
                yield from self._number(constant, given, held)

    def _last_member(
        self,
        constant: float,
        variable: int,
        coefficient: float,
        given: float,
        rest: dict[int, float],
        found: GraphMatch,
    ) -> Iterator[GraphMatch]:
        """The only variable that is open takes all that is left, a number that is too much included."""
        if not rest:
            return
        fixed_constant = self._is(constant, given) or self._mark(constant) is not None
        over = 0.0 if fixed_constant else (given - constant) / coefficient
        if self._mark(coefficient) is not None:
            sizes = set(rest.values())
            if len(sizes) != 1 or not fixed_constant:
                return
            size = sizes.pop()
            for held in self._number(coefficient, size, found):
                bound = held.binding(variable, self._other.sum(0.0, dict.fromkeys(rest, 1.0)))
                yield from self._number(constant, given, bound)
            return
        shares = {m: self._whole(c / coefficient) for m, c in rest.items()}
        bound = found.binding(variable, self._other.sum(over, shares))
        if fixed_constant:
            yield from self._number(constant, given, bound)
        else:
            yield bound


def _share(parts: dict[int, float], count: int) -> Iterator[list[dict[int, float]]]:
    """Ways to share parts among variables: all to the one; else one to each but the last, which takes the rest."""
    if count == 1:
        if parts:
            yield [parts]
        return
    for chosen in permutations(parts, count - 1):
        rest = {part: weight for part, weight in parts.items() if part not in chosen}
        if rest:
            yield [*({part: parts[part]} for part in chosen), rest]
