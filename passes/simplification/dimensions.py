"""The dimensions of what operators make, from those that they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opshift.passes.analysis import polynomial
from opshift.passes.analysis.polynomial import Number, Poly
from opshift.passes.simplification.call import Call


def product(numbers: Sequence[Number]) -> Number | None:
    """All of them multiplied; None where that is too long."""
    total: Number | None = 1
    for number in numbers:
        total = None if total is None else polynomial.multiply(total, number)
    return total


def _reshape(call: Call) -> tuple[Number, ...] | None:
    wanted, given = call.known_numbers(1), call.shape()
    if wanted is None or wanted.scalar:
        return None
    if not call.attribute("allowzero", 0) and _takes_zero_for_size(wanted.values, given):
        if call.space.exact:
            return None
        call.grant()
    dims: list[Number] = []
    for axis, number in enumerate(wanted.values):
        if number == 0 and not call.attribute("allowzero", 0):
            if given is None or axis >= len(given):
                return None
            number = given[axis]
        dims.append(number)
    if -1 not in dims:
        return tuple(dims)
    at = dims.index(-1)
    rest, total = product([*dims[:at], *dims[at + 1 :]]), None if given is None else product(given)
    quotient = None if rest is None or total is None else quotient_of(total, rest)
    if quotient is None:
        quotient = polynomial.symbol(f"{call.output}\0{at}")
    return (*dims[:at], quotient, *dims[at + 1 :])


def _takes_zero_for_size(wanted: Sequence[Number], given: Sequence[Number] | None) -> bool:
    """Whether a dimension that may be 0 is read as it stands, where 0 means "as it was" to Reshape.

    One that is kept in its place is the same either way, and so is the only one that is not a number: it follows.
    """
    read = [
        axis
        for axis, number in enumerate(wanted)
        if isinstance(number, Poly) and not polynomial.is_positive(number)
        if given is None or (axis < len(given) and number != given[axis])
    ]
    if len(read) != 1 or given is None:
        return bool(read)
    rest = [number for axis, number in enumerate(wanted) if axis != read[0]]
    follows = all(isinstance(number, int) and number > 0 for number in rest)
    return not (follows and product(wanted) == product(given) is not None)


def quotient_of(total: Number, rest: Number) -> Number | None:
    """What an axis of -1 is; dimensions that both hold cancel, as none of them can be 0 there."""
    if isinstance(rest, int) or isinstance(total, int):
        return polynomial.divide(total, rest) if isinstance(rest, int) else None
    if len(rest.terms) != 1 or len(total.terms) != 1:
        return None
    (above, factor), (below, divisor) = total.terms[0], rest.terms[0]
    left = list(above)
    for name in below:
        if name not in left:
            return None
        left.remove(name)
    found: Number | None = factor // divisor if factor % divisor == 0 else None
    for name in left:
        found = None if found is None else polynomial.multiply(found, polynomial.symbol(name))
    return found


def reshape_target(wanted: Sequence[Number], given: Sequence[Number]) -> list[int] | None:
    """A shape for Reshape that means these dimensions whatever the symbols are; None if there is none.

    A dimension that is kept is 0. One that follows is -1, if the others are never 0.
    """
    if 0 in wanted:
        return None
    found = [
        0 if isinstance(number, Poly) and axis < len(given) and number == given[axis] else number
        for axis, number in enumerate(wanted)
    ]
    left = [axis for axis, number in enumerate(found) if isinstance(number, Poly)]
    rest = [given[axis] if number == 0 else number for axis, number in enumerate(found) if axis not in left]
    if len(left) == 1 and all(isinstance(number, int) and number > 0 for number in rest):
        found[left[0]] = -1
    numbers = [number for number in found if isinstance(number, int)]
    return numbers if len(numbers) == len(found) else None


def place(axis: int, rank: int) -> int | None:
    """An axis counted from the first; None where there is none, as in a branch that other ranks take."""
    return axis % rank if -rank <= axis < rank else None


def _places(axes: Sequence[int], rank: int) -> set[int] | None:
    """The axes counted from the first; None where there are not all of them, or one is named twice."""
    found = {at for axis in axes if (at := place(axis, rank)) is not None}
    return found if len(found) == len(axes) else None


def _transpose(call: Call) -> tuple[Number, ...] | None:
    given, perm = call.shape(), call.attribute("perm")
    if given is None or (perm is not None and sorted(perm) != list(range(len(given)))):
        return None
    return tuple(given[axis] for axis in perm) if perm is not None else given[::-1]


def _alike(call: Call) -> tuple[Number, ...] | None:
    return call.shape()


def _broadcast(call: Call) -> tuple[Number, ...] | None:
    shapes = [call.shape(index) for index in range(len(call.inputs))]
    if any(shape is None for shape in shapes):
        return None
    return broadcast([shape for shape in shapes if shape is not None])


def broadcast(shapes: Sequence[Sequence[Number]]) -> tuple[Number, ...] | None:
    """The shape that they have together; None where it is not known."""
    if all(shape == shapes[0] for shape in shapes):
        return tuple(shapes[0])
    rank = max(map(len, shapes))
    dims: list[Number] = []
    for axis in range(rank):
        held = {shape[axis - rank + len(shape)] for shape in shapes if axis - rank + len(shape) >= 0} - {1}
        numbers = [dim for dim in held if isinstance(dim, int)]
        if len(held) > 1 and not numbers:
            return None
        dims.append(numbers[0] if numbers else held.pop() if held else 1)
    return tuple(dims)


def _multiply(call: Call) -> tuple[Number, ...] | None:
    a, b = call.shape(0), call.shape(1)
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return None
    outer = broadcast([a[:-2], b[:-2]]) if len(a) > 2 or len(b) > 2 else ()
    return None if outer is None else (*outer, a[-2], b[-1])


def _of_matrices(call: Call) -> tuple[Number, ...] | None:
    a, b = call.shape(0), call.shape(1)
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return None
    return a[1 if call.attribute("transA", 0) else 0], b[0 if call.attribute("transB", 0) else 1]


def _unsqueeze(call: Call) -> tuple[Number, ...] | None:
    given, axes = call.shape(), call.axes()
    if given is None or axes is None:
        return None
    rank = len(given) + len(axes)
    added, rest = _places(axes, rank), iter(given)
    return None if added is None else tuple(1 if axis in added else next(rest) for axis in range(rank))


def _squeeze(call: Call) -> tuple[Number, ...] | None:
    given, axes = call.shape(), call.axes()
    if given is None or not axes:  # engines disagree about no axes at all
        return None
    gone = _places(axes, len(given))
    return None if gone is None else tuple(dim for axis, dim in enumerate(given) if axis not in gone)


def _gather(call: Call) -> tuple[Number, ...] | None:
    given, at = call.shape(0), call.shape(1)
    if given is None or at is None:
        return None
    axis = place(call.attribute("axis", 0), len(given))
    return None if axis is None else (*given[:axis], *at, *given[axis + 1 :])


def parts(call: Call) -> list[tuple[Number, ...]] | None:
    """The shapes of what Split makes."""
    given, sizes = call.shape(), call.attribute("split") or call.ints(1)
    if given is None:
        return None
    axis, count = place(call.attribute("axis", 0), len(given)), len(call.proto.output)
    if axis is None:
        return None
    if not sizes:
        whole = given[axis]
        if call.input(1) or not isinstance(whole, int) or whole % count:
            return None
        sizes = [whole // count] * count
    return [(*given[:axis], size, *given[axis + 1 :]) for size in sizes]


def _join(call: Call) -> tuple[Number, ...] | None:
    shapes = [call.shape(index) for index in range(len(call.inputs))]
    known = [shape for shape in shapes if shape]
    if len(known) < len(shapes) or len({len(shape) for shape in known}) > 1:
        return None
    axis = place(call.attribute("axis", 1), len(known[0]))
    if axis is None:
        return None
    total: Number | None = 0
    for shape in known:
        total = None if total is None else polynomial.add(total, shape[axis])
    return None if total is None else (*known[0][:axis], total, *known[0][axis + 1 :])


def _expand(call: Call) -> tuple[Number, ...] | None:
    given, wanted = call.shape(), call.known_numbers(1)
    return None if given is None or wanted is None or wanted.scalar else broadcast([given, wanted.values])


SHAPED: dict[str, Callable[[Call], tuple[Number, ...] | None]] = {
    **dict.fromkeys(["Add", "Sub", "Mul", "Div", "Pow", "Where", "Equal", "Less", "Greater", "And", "Or"], _broadcast),
    **dict.fromkeys(["Cast", "Erf", "Gelu", "Identity", "LayerNormalization", "Neg", "Not", "Relu"], _alike),
    **dict.fromkeys(
        ["Reciprocal", "Sigmoid", "LogSoftmax", "Softmax", "Sqrt", "Tanh", "Abs", "Exp", "Clip", "Dropout"], _alike
    ),
    "Concat": _join,
    "Expand": _expand,
    "Gather": _gather,
    "Gemm": _of_matrices,
    "MatMul": _multiply,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
