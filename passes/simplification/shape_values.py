"""Follows small integers through a graph: shapes, what is taken out of them, computed of them and put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opshift.passes.analysis import polynomial
from opshift.passes.analysis.moving import bound_slice
from opshift.passes.analysis.polynomial import Number, Poly
from opshift.passes.model.messages import TensorProto
from opshift.passes.simplification import dimensions
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.workspace import FEW, KnownNumbers


def knows(op: str) -> bool:
    """Whether there is anything to follow through an operator."""
    return op in _FOLLOWED or op in dimensions.SHAPED or op == "Split"


def follow(call: Call) -> None:
    """Note what is known of the node's output: its numbers, and its shape where inference did not find it."""
    whole = call.space.whole
    before, whole.leans = whole.leans, False
    if call.output:
        _follow(call)
    whole.leans = before
    call.space.followed = call.proto


def _follow(call: Call) -> None:
    found = _FOLLOWED.get(call.op)
    known = found(call) if found is not None else None
    elem_type = _elem_type(call) if known is not None and len(known.values) <= FEW else 0
    if known is not None and elem_type:
        call.space.learn(call.output, numbers=known, elem_type=elem_type)
    shape = dimensions.SHAPED.get(call.op)
    dims = shape(call) if shape is not None and not _check_known_shape(call) else None
    if dims is not None:
        _note(call, call.output, dims)
    if call.op == "Split":
        for name, part in zip(call.proto.output, dimensions.parts(call) or (), strict=False):
            _note(call, name, part)


def _check_known_shape(call: Call) -> bool:
    """Check whether all dimensions of the output are known numbers, so that nothing more follows."""
    whole = call.space.whole
    leans, whole.leans = whole.leans, False
    known = call.space.shape(call.output)
    told = known is not None and not whole.leans and all(isinstance(dim, int) for dim in known)
    whole.leans = leans
    return told


def _note(call: Call, name: str, dims: tuple[Number, ...]) -> None:
    """Note the dimensions of an output, unless as much is known of it that holds of more sizes."""
    whole = call.space.whole
    leans, whole.leans = whole.leans, False
    known = call.space.shape(name) if name else None
    same = known is not None and (tuple(known) == dims and not whole.leans)
    whole.leans = leans
    if name and not (leans and same) and _is_better(dims, known):
        call.space.learn(name, dims)


def _elem_type(call: Call) -> int:
    if call.op in ("Shape", "Size"):
        return TensorProto.INT64
    if call.op == "Cast":
        return int(call.attribute("to"))
    return TensorProto.BOOL if call.op == "Equal" else call.elem_type(1 if call.op == "Where" else 0)


def _is_better(found: Sequence[Number], known: Sequence[Number] | None) -> bool:
    if known is None or len(known) != len(found):
        return known is None
    return all(isinstance(a, int) or not isinstance(b, int) for a, b in zip(found, known, strict=True))


def _shape(call: Call) -> KnownNumbers | None:
    shape = call.shape()
    return (
        None
        if shape is None
        else KnownNumbers(False, shape[call.attribute("start", 0) : call.attribute("end", len(shape))])
    )


def _size(call: Call) -> KnownNumbers | None:
    shape = call.shape()
    total = None if shape is None else dimensions.product(shape)
    return None if total is None else KnownNumbers(True, (total,))


def _gather(call: Call) -> KnownNumbers | None:
    held, at = call.known_numbers(0), call.known_numbers(1)
    if held is None or held.scalar or at is None or call.attribute("axis", 0) not in (0, -1):
        return None
    size = len(held.values)
    places = [place for place in at.values if isinstance(place, int) and -size <= place < size]
    return (
        KnownNumbers(at.scalar, tuple(held.values[place] for place in places))
        if len(places) == len(at.values)
        else None
    )


def _same(call: Call) -> KnownNumbers | None:
    return call.known_numbers(0)


def _cast(call: Call) -> KnownNumbers | None:
    held, to = call.known_numbers(0), call.attribute("to")
    if held is None or to not in (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL):
        return None
    if to == TensorProto.BOOL:
        return (
            None
            if any(isinstance(n, Poly) for n in held.values)
            else KnownNumbers(held.scalar, tuple(int(n != 0) for n in held.values))
        )
    if to == TensorProto.INT32 and not all(_fits(number) for number in held.values):
        return None
    return held


def _fits(number: Number) -> bool:
    """Whether it is an int32: no axis is longer than that."""
    return number.symbol is not None if isinstance(number, Poly) else -(2**31) <= number < 2**31


def _unsqueeze(call: Call) -> KnownNumbers | None:
    held = call.known_numbers(0)
    return KnownNumbers(False, held.values) if held is not None and held.scalar and call.axes() in ([0], [-1]) else None


def _squeeze(call: Call) -> KnownNumbers | None:
    held = call.known_numbers(0)
    if held is None or held.scalar or len(held.values) != 1:
        return None
    return (
        KnownNumbers(True, held.values)
        if call.axes() in ([0], [-1]) or (call.input(1) == "" and call.axes() is None)
        else None
    )


def _reshape(call: Call) -> KnownNumbers | None:
    held, shape = call.known_numbers(0), call.ints(1)
    if held is None or shape is None or len(shape) > 1:
        return None
    if not shape:
        return KnownNumbers(True, held.values) if len(held.values) == 1 else None
    return KnownNumbers(False, held.values) if shape[0] in (-1, len(held.values)) else None


def _concat(call: Call) -> KnownNumbers | None:
    parts = [call.known_numbers(index) for index in range(len(call.inputs))]
    numbers: list[Number] = []
    for part in parts:
        if part is None or part.scalar:
            return None
        numbers += part.values
    return KnownNumbers(False, tuple(numbers))


def _slice(call: Call) -> KnownNumbers | None:
    held = call.known_numbers(0)
    if held is None or held.scalar:
        return None
    if call.opset < 10:
        starts, ends, axes, steps = call.attribute("starts"), call.attribute("ends"), call.attribute("axes", [0]), [1]
    else:
        starts, ends = call.ints(1), call.ints(2)
        axes = call.ints(3) if call.input(3) else [0]
        steps = call.ints(4) if call.input(4) else [1]  # type: ignore[assignment]
    if not (starts and ends and axes and steps) or [len(starts), len(ends), len(axes), len(steps)] != [1] * 4:
        return None
    if axes[0] not in (0, -1) or not steps[0]:
        return None
    return KnownNumbers(False, held.values[bound_slice(starts[0], ends[0], steps[0], len(held.values))])


def _elementwise(function: Callable[[Number, Number], Number | None]) -> Callable[[Call], KnownNumbers | None]:
    def rule(call: Call) -> KnownNumbers | None:
        a, b = call.known_numbers(0), call.known_numbers(1)
        if a is None or b is None or len(call.inputs) > 2:
            return None
        length = max(len(a.values), len(b.values))
        if {len(a.values), len(b.values)} - {1, length}:
            return None
        found: list[Number] = []
        for left, right in zip(_spread(a.values, length), _spread(b.values, length), strict=True):
            number = function(left, right)
            if number is None:
                return None
            found.append(number)
        if not all(_is_in_range(call, number) for number in found):
            return None
        return KnownNumbers(a.scalar and b.scalar, tuple(found))

    return rule


def _is_in_range(call: Call, number: Number) -> bool:
    """Whether what is computed of integers is surely one of their type."""
    if isinstance(number, int):
        return -(2**31) <= number < 2**31
    return call.elem_type(0) != TensorProto.INT32 or number.symbol is not None


def _spread(numbers: tuple[Number, ...], length: int) -> tuple[Number, ...]:
    return numbers * length if len(numbers) == 1 else numbers


def _subtract(a: Number, b: Number) -> Number | None:
    negative = polynomial.multiply(b, -1)
    return None if negative is None else polynomial.add(a, negative)


def _equal(a: Number, b: Number) -> Number | None:
    if a == b:
        return 1
    difference = _subtract(a, b)
    if difference is None:
        return None
    apart = isinstance(difference, int) or polynomial.is_positive(difference)
    opposite = polynomial.multiply(difference, -1)
    return 0 if apart or (opposite is not None and polynomial.is_positive(opposite)) else None


def _largest(a: Number, b: Number) -> Number | None:
    if a == b:
        return a
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else None


def _divide(a: Number, b: Number) -> Number | None:
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b > 0 and a >= 0 else None
    return polynomial.divide(a, b)


def _where(call: Call) -> KnownNumbers | None:
    parts = [call.known_numbers(index) for index in range(3)]
    if any(part is None for part in parts):
        return None
    held = [part for part in parts if part is not None]
    length = max(len(part.values) for part in held)
    if {len(part.values) for part in held} - {1, length}:
        return None
    chosen: list[Number] = []
    for condition, yes, no in zip(*(_spread(part.values, length) for part in held), strict=True):
        if not isinstance(condition, int):
            return None
        chosen.append(yes if condition else no)
    return KnownNumbers(all(part.scalar for part in held), tuple(chosen))


def _product_of(call: Call) -> KnownNumbers | None:
    held = call.known_numbers(0)
    axes = call.axes()
    if held is None or held.scalar or (axes is None and call.input(1)) or (axes and axes not in ([0], [-1])):
        return None
    total = dimensions.product(held.values)
    if total is None or not _is_in_range(call, total) or call.attribute("noop_with_empty_axes", 0):
        return None
    return KnownNumbers(not call.attribute("keepdims", 1), (total,))


_FOLLOWED: dict[str, Callable[[Call], KnownNumbers | None]] = {
    "Add": _elementwise(polynomial.add),
    "Cast": _cast,
    "Concat": _concat,
    "Div": _elementwise(_divide),
    "Equal": _elementwise(_equal),
    "Gather": _gather,
    "Identity": _same,
    "Max": _elementwise(_largest),
    "Mul": _elementwise(polynomial.multiply),
    "ReduceProd": _product_of,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": _elementwise(_subtract),
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
