"""Small numbers that a division or a logarithm needs, back to the operators that make them.

float16 holds 1e-4, and not its square: a row of such numbers, divided by the root of the mean of its squares, is 1
without rounding, and infinite if the squares are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from opshift.passes.types.masks import MOVING
from opshift.passes.types.problem import Place, Value

SQUARES = frozenset(["Pow", "Mul", "ReduceSumSquare"])
"""Operators that make smaller numbers of small ones."""
PROBABILITIES = frozenset(["Softmax", "Sigmoid", "Exp"])
"""Operators that make small numbers of large ones."""
_FIRST = MOVING | {"ReduceSum", "ReduceMean", "GlobalAveragePool", "AveragePool", "Sqrt", "Abs", "Relu", "Div", "Clip"}
"""Operators whose results are small where their first input is."""
_ALL = frozenset(["Add", "Sum", "Sub", "Max", "Min", "Concat", "Mul"])
_GUARDED = frozenset(["Add", "Sum", "Sub", "Max", "Clip"])
"""Operators whose results are not small if a constant among their inputs is not."""
_MOST = 64
"""Values that are looked at for one divisor."""

Number = Callable[[Value | None], float | None]
"""The number that a constant holds, or the largest of its numbers; None for other values."""


def find(divisor: Value | None, ends: Container[str], number: Number, guard: float) -> Iterable[Value]:
    """The values between operators that make small numbers, such as squares, and what is divided by them.

    Beside numbers of `guard` and larger, small ones do not count.
    """
    found: dict[int, Value] = {}
    _find(divisor, ends, number, guard, found, {})
    return found.values()


def _find(
    value: Value | None,
    ends: Container[str],
    number: Number,
    guard: float,
    found: dict[int, Value],
    seen: dict[int, bool],
) -> bool:
    """Whether an operator that makes small numbers is behind a value, which is then among those found."""
    if value is None or value.maker < 0 or value.tensor is not None:
        return False
    if id(value) in seen or len(seen) >= _MOST:
        return seen.get(id(value), False)
    seen[id(value)] = False
    place = value.place
    node, op = place.nodes[value.maker], place.ops[value.maker]
    operands = [place.find(name) for name in node.input]
    constants = [each for each in operands if each is not None and each.tensor is not None]
    if op in _GUARDED:
        beside = operands[1:2] if op == "Clip" else constants
        if any((number(each) or 0) >= guard for each in beside):
            return False
    power = (number(operands[1]) or 0) if op == "Pow" else 0
    here = op in ends
    if op == "Pow":
        here = power > 1
    elif op == "Mul":
        here = not constants
    elif op == "Exp":
        here = here and not _is_below_maximum(place, operands[0])
    if here and (op != "Mul" or node.input[0] == node.input[1]):
        behind = operands[:1] if is_root(operands[0]) else []  # what else is squared may be narrow
    elif op in _ALL:
        behind = operands
    elif op == "Where":
        behind = operands[1:]
    else:
        behind = operands[:1] if op in _FIRST or 0 < power <= 1 else []
    made = [_find(each, ends, number, guard, found, seen) for each in behind]
    if here or any(made):
        seen[id(value)] = True
        found[id(value)] = value
    return seen[id(value)]


def is_root(value: Value | None) -> bool:
    """Whether a value is a square root, or one that is scaled or moved, as the magnitude of a spectrum is."""
    for _ in range(_MOST):
        if value is None or value.maker < 0 or value.tensor is not None:
            return False
        op, inputs = value.place.ops[value.maker], value.place.nodes[value.maker].input
        if op == "Sqrt":
            return True
        if op not in MOVING and op not in ("Mul", "Div", "Abs"):
            return False
        value = value.place.find(inputs[0])
    return False


def _is_below_maximum(place: Place, value: Value | None) -> bool:
    """Whether a maximum was subtracted from a value, so that the largest of the exponentials is 1."""
    if value is None or value.maker < 0 or place.ops[value.maker] != "Sub":
        return False
    pending = [place.find(place.nodes[value.maker].input[1])]
    for found in pending:
        if found is None or found.maker < 0 or len(pending) > _MOST:
            continue
        op, inputs = found.place.ops[found.maker], found.place.nodes[found.maker].input
        if op in ("ReduceMax", "GlobalMaxPool", "Max"):
            return True
        if op in MOVING or op in ("Where", "Add", "Mul"):  # TensorFlow selects it where it is finite
            pending += map(found.place.find, inputs[:1] if op in MOVING else inputs)
    return False
