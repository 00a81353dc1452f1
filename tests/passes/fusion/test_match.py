"""A definition is found in whatever stands where its variables do, in any order of factors and members, and not in others."""

from math import inf

import pytest
from opshift.passes.fusion.keys import LEAF, VARIABLE
from opshift.passes.fusion.match import Matcher, _share
from opshift.passes.fusion.terms import Terms

MARK = 0.3719312846660614


class Side:
    """Terms in few words: `x` to `w` are variables of a definition, or values."""

    def __init__(self, values):
        self.terms = Terms()
        kind = (VARIABLE, range(4)) if not values else (LEAF, "xyzw")
        self.named = dict(zip("xyzw", (self.terms.of(kind[0], key) for key in kind[1]), strict=True))

    def number(self, value):
        return self.terms.number(value)

    def total(self, *parts):
        found = self.terms.number(0.0)
        for part in parts:
            found = self.terms.add(found, part)
        return found

    def times(self, *parts):
        found = self.terms.number(1.0)
        for part in parts:
            found = self.terms.mul(found, part)
        return found

    def op(self, name, *operands, **parameters):
        return self.terms.op(name, tuple(parameters.items()), *operands)

    def of(self, text):
        """A term of Python's expression, where calls are operators and `T(...)` a Transpose."""
        names = {
            "add": self.total,
            "mul": self.times,
            "num": self.number,
            "power": self.terms.power,
            "op": self.op,
            **self.named,
        }
        return eval(text, {"inf": inf, "MARK": MARK}, names)


def found(pattern, subject, marks=(), tolerance=1e-6):
    own, other = Side(False), Side(True)
    root, term = own.of(pattern), other.of(subject)
    matcher = Matcher(own.terms, root, dict.fromkeys(marks, MARK), other.terms, tolerance)
    names = {term: name for name, term in other.named.items()}
    return [
        (
            "".join(names.get(held.bound.get(k), "?") if k in held.bound else "-" for k in range(4)).rstrip("-"),
            dict(held.floats),
        )
        for held in matcher.all(term)
    ]


@pytest.mark.parametrize(
    ("pattern", "subject", "bound"),
    [
        ("x", "y", ["y"]), ("x", "num(2)", []), ("num(2)", "num(2)", [""]), ("num(2)", "num(3)", []), ("num(2)", "x", []),
        ("op('Exp', x)", "op('Exp', y)", ["y"]), ("op('Exp', x)", "op('Log', y)", []), ("op('Exp', x)", "y", []), ("op('Exp', x)", "op('Exp', num(2))", []),
        ("op('Div2', x, y)", "op('Div2', z, w)", ["zw"]), ("op('Div2', x, x)", "op('Div2', z, w)", []), ("op('Div2', x, x)", "op('Div2', z, z)", ["z"]),
        ("op('Max', x, y)", "op('Max', z, w)", ["zw", "wz"]), ("op('Equal', x, op('Exp', y))", "op('Equal', op('Exp', z), w)", ["wz"]),
        ("op('Less', x, op('Exp', y))", "op('Less', op('Exp', z), w)", []), ("op('Sum3', x, y)", "op('Sum3', z)", []),
        ("op('R', x, axes=(1,))", "op('R', y, axes=(1,))", ["y"]), ("op('R', x, axes=(1,))", "op('R', y, axes=(2,))", []),
        ("op('R', x, axes=(1,))", "op('R', y, other=(1,))", []), ("op('R', x, axes=(1,))", "op('R', y)", []), ("op('R', x, a=0.5)", "op('R', y, a=0.5000001)", ["y"]),
        ("op('R', x, a=0.5)", "op('R', y, a=0.6)", []), ("op('R', x, a=inf)", "op('R', y, a=inf)", ["y"]), ("op('R', x, a=inf)", "op('R', y, a=0.5)", []),
        ("op('R', x, a=0.5)", "op('R', y, a=inf)", []), ("op('R', x, a=1)", "op('R', y, a=2)", []),
        ("op('Transpose', x, perm=(1, 0))", "op('Transpose', y, perm=(1, 0))", ["y"]), ("op('Transpose', x, perm=(1, 0, 2))", "op('Transpose', y, perm=(0, 2, 1))", ["?"]),
        ("op('Transpose', x, perm=(1, 0))", "op('Transpose', y, perm=(1, 0, 2))", []), ("op('Transpose', x, perm=(1, 0))", "y", []),
        ("mul(op('Exp', x), op('Log', y))", "mul(op('Log', w), op('Exp', z))", ["zw"]), ("mul(op('Exp', x), op('Log', y))", "mul(op('Exp', z), op('Exp', w))", []),
        ("mul(op('Exp', x), y)", "mul(op('Exp', z), w)", ["zw"]), ("mul(op('Exp', x), x)", "mul(op('Exp', z), z)", ["z"]), ("mul(op('Exp', x), x)", "mul(op('Exp', z), w)", []),
        ("mul(op('Exp', x), y)", "op('Exp', z)", []), ("mul(num(2), op('Exp', x))", "mul(num(2), op('Exp', z))", ["z"]), ("mul(num(2), op('Exp', x))", "mul(num(3), op('Exp', z))", []),
        ("mul(num(2), op('Exp', x))", "op('Exp', z)", []), ("power(op('Exp', x), 2.0)", "power(op('Exp', z), 2.0)", ["z"]), ("power(op('Exp', x), 2.0)", "power(op('Exp', z), 3.0)", []),
        ("mul(op('Exp', x), power(op('Log', y), -1.0))", "mul(op('Exp', z), power(op('Log', w), -1.0))", ["zw"]),
        ("mul(op('Exp', x), power(op('Log', y), -1.0))", "mul(op('Exp', z), op('Log', w))", []),
        ("add(op('Exp', x), op('Log', y))", "add(op('Log', w), op('Exp', z))", ["zw"]), ("add(op('Exp', x), y)", "add(w, op('Exp', z))", ["zw"]),
        ("add(op('Exp', x), x)", "add(z, op('Exp', z))", ["z"]), ("add(op('Exp', x), x)", "add(w, op('Exp', z))", []), ("add(op('Exp', x), y)", "op('Exp', z)", []),
        ("add(op('Exp', x), num(1))", "add(op('Exp', z), num(1))", ["z"]), ("add(op('Exp', x), num(1))", "add(op('Exp', z), num(2))", []),
        ("add(op('Exp', x), num(1))", "op('Exp', z)", []), ("add(op('Exp', x), mul(num(-1), op('Log', y)))", "add(op('Exp', z), mul(num(-1), op('Log', w)))", ["zw"]),
        ("add(op('Exp', x), mul(num(-1), op('Log', y)))", "add(op('Exp', z), op('Log', w))", []), ("add(op('Exp', x), op('Log', y))", "add(op('Exp', z), op('Log', w), y)", []),
        ("op('Cat', x, y)", "op('Cat', z, add(w, num(1)))", ["z?"]), ("add(x, y)", "add(z, w)", ["zw", "wz"]), ("mul(x, y)", "mul(z, w)", ["zw", "wz"]),
        ("add(op('Exp', x), y)", "add(op('Exp', z), w, num(3))", ["z?"]), ("mul(op('Exp', x), y)", "mul(op('Exp', z), w, num(3))", ["z?"]),
    ],
)  # fmt: skip
def test_what_is_found(pattern, subject, bound):
    assert sorted(names for names, _ in found(pattern, subject)) == sorted(bound)


@pytest.mark.parametrize(
    ("pattern", "subject", "value"),
    [
        ("op('R', x, a=MARK)", "op('R', y, a=0.5)", 0.5), ("op('R', x, a=-MARK)", "op('R', y, a=0.5)", -0.5), ("mul(num(MARK), op('Exp', x))", "mul(num(3), op('Exp', y))", 3),
        ("mul(num(1 / MARK), op('Exp', x))", "mul(num(4), op('Exp', y))", 0.25), ("mul(num(MARK ** 2), op('Exp', x))", "mul(num(9), op('Exp', y))", 3),
        ("mul(num(MARK ** 0.5), op('Exp', x))", "mul(num(3), op('Exp', y))", 9), ("mul(num(-MARK), op('Exp', x))", "mul(num(-3), op('Exp', y))", 3),
        ("mul(num(MARK ** 2), op('Exp', x))", "mul(num(-9), op('Exp', y))", None), ("mul(num(MARK ** -2), op('Exp', x))", "mul(num(0.25), op('Exp', y))", 2),
        ("mul(num(MARK ** -0.5), op('Exp', x))", "mul(num(2), op('Exp', y))", 0.25), ("mul(num(MARK ** 3), op('Exp', x))", "mul(num(27), op('Exp', y))", None),
        ("mul(num(MARK), op('Exp', x))", "mul(num(-3), op('Exp', y))", -3),
        ("add(op('Exp', x), num(MARK))", "add(op('Exp', y), num(0.125))", 0.125), ("add(op('Exp', x), num(MARK))", "op('Exp', y)", None),
        ("mul(num(MARK), op('R', x, a=MARK))", "mul(num(3), op('R', y, a=3.0))", 3), ("mul(num(MARK), op('R', x, a=MARK))", "mul(num(3), op('R', y, a=4.0))", None),
    ],
)  # fmt: skip
def test_floats_of_the_call(pattern, subject, value):
    """A number that the definition was called with stands for whatever stands there."""
    assert found(pattern, subject, ["alpha"]) == ([] if value is None else [("y", {"alpha": pytest.approx(value)})])
    assert found(pattern, subject) == []


def test_numbers_are_as_near_as_is_asked_for():
    assert found("mul(num(2), op('Exp', x))", "mul(num(2.001), op('Exp', y))", tolerance=1e-2) == [("y", {})]
    assert found("mul(num(2), op('Exp', x))", "mul(num(2.001), op('Exp', y))", tolerance=1e-4) == []


def test_what_matches_anything_comes_last():
    side = Side(False)
    one, variable = side.number(1.0), side.named["x"]
    column = side.op("Reshape", variable, to=(side.number(-1.0), one))
    row = side.op("Reshape", variable, to=(one, side.number(-1.0)))
    plain = side.op("Exp", variable)
    assert column < row < plain
    parts = {column: 1.0, variable: 1.0, plain: 2.0, row: 3.0}
    matcher = Matcher(side.terms, plain, {}, side.terms, 0.0)
    assert matcher._parts_without_variables(parts) == [(plain, 2.0), (row, 3.0), (column, 1.0)]


def test_ways_to_share():
    parts = {1: 1.0, 2: 2.0, 3: 3.0}
    assert list(_share(parts, 1)) == [[parts]]
    assert list(_share({}, 1)) == []
    assert list(_share({1: 1.0}, 2)) == []
    assert list(_share(parts, 2)) == [
        [{1: 1.0}, {2: 2.0, 3: 3.0}], [{2: 2.0}, {1: 1.0, 3: 3.0}], [{3: 3.0}, {1: 1.0, 2: 2.0}],
    ]  # fmt: skip
    assert len(list(_share(parts, 3))) == 6
