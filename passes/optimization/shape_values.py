"""Follows small integers through a graph: shapes, what is taken out of them, computed of them and put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opshift.passes.analysis import polynomial
from opshift.passes.analysis.kernels import bounded
from opshift.passes.analysis.polynomial import Number, Poly
from opshift.passes.model.messages import TensorProto
from opshift.passes.optimization.call import Call
from opshift.passes.optimization.workspace import FEW, Known


def knows(op: str) -> bool:
    """Whether there is anything to follow through an operator."""
    return op in _FOLLOWED or op in _SHAPED or op == "Split"


def follow(call: Call) -> None:
    """Note what is known of the node's output: its numbers, and its shape where inference did not find it."""
    whole = call.space.whole
    before, whole.leans = whole.leans, False
    if call.output:
        _follow(call)
    whole.leans = before


def _follow(call: Call) -> None:
    found = _FOLLOWED.get(call.op)
    known = found(call) if found is not None else None
    kind = _kind(call) if known is not None and len(known[1]) <= FEW else 0
    if known is not None and kind:
        call.space.learn(call.output, numbers=known, kind=kind)
    shape = _SHAPED.get(call.op)
    dims = shape(call) if shape is not None else None
    if dims is not None:
        _note(call, call.output, dims)
    if call.op == "Split":
        for name, part in zip(call.proto.output, _parts(call) or (), strict=False):
            _note(call, name, part)


def _note(call: Call, name: str, dims: tuple[Number, ...]) -> None:
    """Note the dimensions of an output, unless as much is known of it that holds of more sizes."""
    whole = call.space.whole
    leans, whole.leans = whole.leans, False
    known = call.space.shape(name) if name else None
    same = known is not None and (tuple(known) == dims and not whole.leans)
    whole.leans = leans
    if name and not (leans and same) and _is_better(dims, known):
        call.space.learn(name, dims)


def _kind(call: Call) -> int:
    if call.op in ("Shape", "Size"):
        return TensorProto.INT64
    if call.op == "Cast":
        return int(call.attribute("to"))
    return TensorProto.BOOL if call.op == "Equal" else call.elem_type(1 if call.op == "Where" else 0)


def _is_better(found: Sequence[Number], known: Sequence[Number] | None) -> bool:
    if known is None or len(known) != len(found):
        return known is None
    return all(isinstance(a, int) or not isinstance(b, int) for a, b in zip(found, known, strict=True))


def _known(call: Call, index: int) -> Known | None:
    return call.space.known(call.input(index)) if call.input(index) else None


def _shape(call: Call) -> Known | None:
    shape = call.shape()
    return None if shape is None else (False, shape[call.attribute("start", 0) : call.attribute("end", len(shape))])


def _size(call: Call) -> Known | None:
    shape = call.shape()
    total = None if shape is None else product(shape)
    return None if total is None else (True, (total,))


def product(numbers: Sequence[Number]) -> Number | None:
    """All of them multiplied; None where that is too long."""
    total: Number | None = 1
    for number in numbers:
        total = None if total is None else polynomial.multiply(total, number)
    return total


def _gather(call: Call) -> Known | None:
    held, at = _known(call, 0), call.space.known(call.input(1))
    if held is None or held[0] or at is None or call.attribute("axis", 0) not in (0, -1):
        return None
    size = len(held[1])
    places = [place for place in at[1] if isinstance(place, int) and -size <= place < size]
    return (at[0], tuple(held[1][place] for place in places)) if len(places) == len(at[1]) else None


def _same(call: Call) -> Known | None:
    return _known(call, 0)


def _cast(call: Call) -> Known | None:
    held, to = _known(call, 0), call.attribute("to")
    if held is None or to not in (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL):
        return None
    if to == TensorProto.BOOL:
        return None if any(isinstance(n, Poly) for n in held[1]) else (held[0], tuple(int(n != 0) for n in held[1]))
    if to == TensorProto.INT32 and not all(_fits(number) for number in held[1]):
        return None
    return held


def _fits(number: Number) -> bool:
    """Whether it is an int32: no axis is longer than that."""
    return number.symbol is not None if isinstance(number, Poly) else -(2**31) <= number < 2**31


def _unsqueeze(call: Call) -> Known | None:
    held = _known(call, 0)
    return (False, held[1]) if held is not None and held[0] and call.axes() in ([0], [-1]) else None


def _squeeze(call: Call) -> Known | None:
    held = _known(call, 0)
    if held is None or held[0] or len(held[1]) != 1:
        return None
    return (True, held[1]) if call.axes() in ([0], [-1]) or (call.input(1) == "" and call.axes() is None) else None


def _reshape(call: Call) -> Known | None:
    held, shape = _known(call, 0), call.ints(1)
    if held is None or shape is None or len(shape) > 1:
        return None
    fits = not shape if len(held[1]) != 1 else False
    if fits:
        return None
    if not shape:
        return True, held[1]
    return (False, held[1]) if shape[0] in (-1, len(held[1])) else None


def _concat(call: Call) -> Known | None:
    parts = [_known(call, index) for index in range(len(call.proto.input))]
    numbers: list[Number] = []
    for part in parts:
        if part is None or part[0]:
            return None
        numbers += part[1]
    return False, tuple(numbers)


def _slice(call: Call) -> Known | None:
    held = _known(call, 0)
    if held is None or held[0]:
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
    return False, held[1][bounded(starts[0], ends[0], steps[0], len(held[1]))]


def _elementwise(function: Callable[[Number, Number], Number | None]) -> Callable[[Call], Known | None]:
    def rule(call: Call) -> Known | None:
        a, b = _known(call, 0), _known(call, 1)
        if a is None or b is None or len(call.proto.input) > 2:
            return None
        length = max(len(a[1]), len(b[1]))
        if {len(a[1]), len(b[1])} - {1, length}:
            return None
        found: list[Number] = []
        for left, right in zip(_spread(a[1], length), _spread(b[1], length), strict=True):
            number = function(left, right)
            if number is None or (isinstance(number, int) and not -(2**31) <= number < 2**31):
                return None
            found.append(number)
        if call.elem_type(0) == TensorProto.INT32 and any(isinstance(n, Poly) and n.symbol is None for n in found):
            return None  # it may be too large
        return a[0] and b[0], tuple(found)

    return rule


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


def _where(call: Call) -> Known | None:
    parts = [_known(call, index) for index in range(3)]
    if any(part is None for part in parts):
        return None
    held = [part for part in parts if part is not None]
    length = max(len(part[1]) for part in held)
    if {len(part[1]) for part in held} - {1, length}:
        return None
    chosen: list[Number] = []
    for condition, yes, no in zip(*(_spread(part[1], length) for part in held), strict=True):
        if not isinstance(condition, int):
            return None
        chosen.append(yes if condition else no)
    return all(part[0] for part in held), tuple(chosen)


def _product_of(call: Call) -> Known | None:
    held = _known(call, 0)
    axes = call.axes()
    if held is None or held[0] or (axes is None and call.input(1)) or (axes and axes not in ([0], [-1])):
        return None
    total = product(held[1])
    return (
        None
        if total is None or call.attribute("noop_with_empty_axes", 0)
        else (
            not call.attribute("keepdims", 1),
            (total,),
        )
    )


_FOLLOWED: dict[str, Callable[[Call], Known | None]] = {
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


# --- shapes -------------------------------------------------------------------------------------------------


def _reshaped(call: Call) -> tuple[Number, ...] | None:
    wanted, given = _known(call, 1), call.shape()
    if wanted is None or wanted[0]:
        return None
    if not call.attribute("allowzero", 0) and _takes_zero_for_size(wanted[1], given):
        if call.space.exact:
            return None
        call.grant()
    dims: list[Number] = []
    for axis, number in enumerate(wanted[1]):
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


def stated(wanted: Sequence[Number], given: Sequence[Number]) -> list[int] | None:
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


def _transposed(call: Call) -> tuple[Number, ...] | None:
    given, perm = call.shape(), call.attribute("perm")
    if given is None or (perm is not None and len(perm) != len(given)):
        return None
    return tuple(given[axis] for axis in perm) if perm is not None else given[::-1]


def _alike(call: Call) -> tuple[Number, ...] | None:
    return call.shape()


def _broadcast(call: Call) -> tuple[Number, ...] | None:
    shapes = [call.shape(index) for index in range(len(call.proto.input))]
    if any(shape is None for shape in shapes):
        return None
    return broadcast([shape for shape in shapes if shape is not None])


def broadcast(shapes: Sequence[Sequence[Number]]) -> tuple[Number, ...] | None:
    """The shape that they have together; None where it is not known."""
    rank = max(map(len, shapes))
    dims: list[Number] = []
    for axis in range(rank):
        held = {shape[axis - rank + len(shape)] for shape in shapes if axis - rank + len(shape) >= 0} - {1}
        numbers = [dim for dim in held if isinstance(dim, int)]
        if len(held) > 1 and not numbers:
            return None
        dims.append(numbers[0] if numbers else held.pop() if held else 1)
    return tuple(dims)


def _multiplied(call: Call) -> tuple[Number, ...] | None:
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


def _unsqueezed(call: Call) -> tuple[Number, ...] | None:
    given, axes = call.shape(), call.axes()
    if given is None or axes is None:
        return None
    rank = len(given) + len(axes)
    added, rest = {axis % rank for axis in axes}, iter(given)
    return tuple(1 if axis in added else next(rest) for axis in range(rank))


def _squeezed(call: Call) -> tuple[Number, ...] | None:
    given, axes = call.shape(), call.axes()
    if given is None or not axes:  # engines disagree about no axes at all
        return None
    gone = {axis % len(given) for axis in axes}
    return tuple(dim for axis, dim in enumerate(given) if axis not in gone)


def _gathered(call: Call) -> tuple[Number, ...] | None:
    given, at = call.shape(0), call.shape(1)
    if given is None or at is None:
        return None
    axis = call.attribute("axis", 0) % len(given)
    return (*given[:axis], *at, *given[axis + 1 :])


def _parts(call: Call) -> list[tuple[Number, ...]] | None:
    """The shapes of what Split makes."""
    given, sizes = call.shape(), call.attribute("split") or call.ints(1)
    if given is None:
        return None
    axis, count = call.attribute("axis", 0) % len(given), len(call.proto.output)
    if not sizes:
        whole = given[axis]
        if call.input(1) or not isinstance(whole, int) or whole % count:
            return None
        sizes = [whole // count] * count
    return [(*given[:axis], size, *given[axis + 1 :]) for size in sizes]


def _joined(call: Call) -> tuple[Number, ...] | None:
    shapes = [call.shape(index) for index in range(len(call.proto.input))]
    known = [shape for shape in shapes if shape]
    if len(known) < len(shapes) or len({len(shape) for shape in known}) > 1:
        return None
    axis = call.attribute("axis", 1) % len(known[0])
    total: Number | None = 0
    for shape in known:
        total = None if total is None else polynomial.add(total, shape[axis])
    return None if total is None else (*known[0][:axis], total, *known[0][axis + 1 :])


def _expanded(call: Call) -> tuple[Number, ...] | None:
    given, wanted = call.shape(), _known(call, 1)
    return None if given is None or wanted is None or wanted[0] else broadcast([given, wanted[1]])


_SHAPED: dict[str, Callable[[Call], tuple[Number, ...] | None]] = {
    **dict.fromkeys(["Add", "Sub", "Mul", "Div", "Pow", "Where", "Equal", "Less", "Greater", "And", "Or"], _broadcast),
    **dict.fromkeys(["Cast", "Erf", "Gelu", "Identity", "LayerNormalization", "Neg", "Not", "Relu"], _alike),
    **dict.fromkeys(
        ["Reciprocal", "Sigmoid", "LogSoftmax", "Softmax", "Sqrt", "Tanh", "Abs", "Exp", "Clip", "Dropout"], _alike
    ),
    "Concat": _joined,
    "Expand": _expanded,
    "Gather": _gathered,
    "Gemm": _of_matrices,
    "MatMul": _multiplied,
    "Reshape": _reshaped,
    "Squeeze": _squeezed,
    "Transpose": _transposed,
    "Unsqueeze": _unsqueezed,
}
