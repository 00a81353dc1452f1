"""Shapes that are computed, although it is known what they hang on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opshift.passes.analysis.polynomial import Number, Poly
from opshift.passes.model import tensors
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.says import says
from opshift.passes.simplification import dimensions, shape_values
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.rules import EDITED, Outcome, rule
from opshift.passes.simplification.workspace import KnownNumbers, Workspace

_SHAPE_OF_PARTS = 15  # the opset from which on Shape takes a start and an end
_ELEMENTWISE = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Equal", "Greater", "Less", "Where", "Min", "Max")


@says("Took the dimensions from the value itself (Shape), not from how they were computed")
@rule("Shape", since=1)
def remember(call: Call) -> Outcome:
    shape = call.shape()
    if shape is not None and not call.space.whole.leans:
        call.space.measured.setdefault(shape, call.input(0))
    return None


@says("Replaced a computed Reshape shape by constants, 0 (keep) and -1 (infer)")
@rule("Reshape")
def state_shape(call: Call) -> Outcome:
    known, given = call.known_numbers(1), call.shape()
    if known is None or known.scalar or call.ints(1) is not None or given is None:
        return None
    written = call.maker(1)
    literal = bool(call.attribute("allowzero", 0))
    if literal and 0 in known.values:
        return None
    shape_values.follow(call)
    wanted = call.shape_of(call.output) if -1 in known.values else known.values
    whole = None if wanted is None else dimensions.reshape_target(wanted, given)
    if whole is not None:
        made: str | None = call.constant(tensors.int64s(whole))
    elif literal:  # else a size that is read off would mean "as it was" where it is 0
        return None
    else:
        kept = [
            0 if isinstance(number, Poly) and axis < len(given) and number == given[axis] else number
            for axis, number in enumerate(known.values)
        ]
        small = written is not None and written.op == "Shape"  # one node, which several would not better
        made = None if small or kept == list(known.values) else _put_together(call, kept)
    if made is None:
        return None
    call.read(call.input(0), made)
    if literal:
        call.set("allowzero", None)
    return EDITED


def _ints(numbers: Sequence[Number]) -> TensorProto:
    return tensors.int64s([number for number in numbers if isinstance(number, int)])


@dataclass(frozen=True)
class _Part:
    """A run of numbers: constants, or the dimensions from `start` to `end` of a value."""

    numbers: tuple[Number, ...]
    source: str = ""
    start: int = 0


def _parts(space: Workspace, numbers: Sequence[Number]) -> list[_Part] | None:
    """The fewest runs, from the left, that make up the numbers; None where one cannot be read off any value."""
    found: list[_Part] = []
    at = 0
    while at < len(numbers):
        end = at
        while end < len(numbers) and isinstance(numbers[end], int):
            end += 1
        if end > at:
            found.append(_Part(tuple(numbers[at:end])))
            at = end
            continue
        run = _longest(space, numbers[at:])
        if run is None:
            return None
        found.append(run)
        at += len(run.numbers)
    return found


def _longest(space: Workspace, numbers: Sequence[Number]) -> _Part | None:
    best: _Part | None = None
    place: Workspace | None = space
    while place is not None:
        for shape, name in place.measured.items():
            for start in range(len(shape)):
                length = 0
                while (
                    start + length < len(shape) and length < len(numbers) and shape[start + length] == numbers[length]
                ):
                    length += 1
                if length > (len(best.numbers) if best else 0):
                    best = _Part(tuple(numbers[:length]), name, start)
        place = place.parent
    return best


def _put_together(call: Call, numbers: Sequence[Number]) -> str | None:
    """The name of an int64 vector of these numbers; None where it takes more than what is there."""
    parts = _parts(call.space, numbers)
    if parts is None or len(parts) > 3:
        return None
    names = [_read_off(call, part) if part.source else call.constant(_ints(part.numbers)) for part in parts]
    if len(names) == 1:
        return names[0]
    made = call.emit("Concat", names, axis=0)
    call.space.learn(made, numbers=KnownNumbers(False, tuple(numbers)), elem_type=TensorProto.INT64)
    return made


def _read_off(call: Call, part: _Part) -> str:
    end = part.start + len(part.numbers)
    whole = len(call.space.shape(part.source) or ()) == len(part.numbers)
    if whole:
        made = call.emit("Shape", [part.source])
    elif call.opset >= _SHAPE_OF_PARTS:
        made = call.emit("Shape", [part.source], start=part.start, end=end)
    else:
        held = call.emit("Shape", [part.source])
        made = call.emit("Gather", [held, call.constant(tensors.int64s(list(range(part.start, end))))], axis=0)
    call.space.learn(made, numbers=KnownNumbers(False, part.numbers), elem_type=TensorProto.INT64)
    return made


@says("Merged dimensions that a Reshape split and another one joined")
@rule("Concat", "Unsqueeze", "Reshape", "Slice", "Gather", "Cast", "Where", "Mul", "Add", "Expand")
def read_off(call: Call) -> Outcome:
    known = _output_numbers(call) if call.space.whole.measures else None
    if known is None or known.scalar or not known.values or call.space.elem_types[call.output] != TensorProto.INT64:
        return None
    if all(isinstance(number, int) for number in known.values) or _is_plain(call):
        return None
    parts = _parts(call.space, known.values)
    if parts is None or (call.op == "Concat" and len(parts) >= len(call.inputs)) or len(parts) > 3:
        return None
    if call.op != "Concat" and len(parts) > 1:
        return None
    return _put_together(call, known.values)


def _output_numbers(call: Call) -> KnownNumbers | None:
    """The numbers that are followed to the node's output."""
    shape_values.follow(call)
    return call.space.known_numbers(call.output) if call.output in call.space.numbers else None


def _is_plain(call: Call) -> bool:
    """Whether it is a selection from a shape already, in the form that is written here."""
    made = call.maker()
    return made is not None and made.op == "Shape" and call.op in ("Gather", "Slice") and call.opset < _SHAPE_OF_PARTS


@says("Used one Shape where several computed the same dimensions")
@rule("Gather")
def read_off_one(call: Call) -> Outcome:
    known, made = _output_numbers(call), call.maker()
    if known is None or not known.scalar or made is None or made.op != "Shape" or not isinstance(known.values[0], Poly):
        return None
    run = _longest(call.space, known.values)
    if run is None or run.source == made.input(0):
        return None
    at = tensors.int64s([run.start], [])
    call.read(call.emit("Shape", [run.source]), call.constant(at))
    call.set("axis", None)
    return EDITED


@says("Replaced a computed Expand shape by constants, with 1 for dimensions that stay")
@rule("Expand")
def state_expansion(call: Call) -> Outcome:
    known, given = call.known_numbers(1), call.shape()
    if known is None or known.scalar or given is None or all(isinstance(number, int) for number in known.values):
        return None
    offset = len(known.values) - len(given)
    stated = [
        1 if axis >= offset and number == given[axis - offset] else number for axis, number in enumerate(known.values)
    ]
    if not all(isinstance(number, int) for number in stated):
        return None
    call.read(call.input(0), call.constant(_ints(stated)))
    return EDITED


@says("Removed redundant Expand")
@rule(*_ELEMENTWISE, since=8)
def broadcast_at_once(call: Call) -> Outcome:
    for index in range(len(call.inputs)):
        made = call.maker(index)
        if made is None or made.op != "Expand":
            continue
        others = [call.shape(k) for k in range(len(call.inputs)) if k != index]
        wide, bare = call.shape(index), made.shape()
        if wide is None or bare is None or any(shape is None for shape in others):
            continue
        rest = dimensions.broadcast([shape for shape in others if shape is not None])
        if rest is not None and dimensions.broadcast([bare, rest]) == dimensions.broadcast([wide, rest]) == rest:
            call.read(*(made.input(0) if k == index else name for k, name in enumerate(call.inputs)))
            return EDITED
    return None


@says("Removed an initial state of zeros, which is the default of the recurrent operator")
@rule("LSTM", "GRU", "RNN")
def start_from_zero(call: Call) -> Outcome:
    names = list(call.inputs)
    kept = [
        name if index not in (5, 6) or not name or not _is_zero(call, index) else "" for index, name in enumerate(names)
    ]
    if kept == names:
        return None
    call.read(*kept)
    return EDITED


_MOVING = frozenset(["Expand", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"])


def _is_zero(call: Call, index: int) -> bool:
    """Whether an input is all zeros, whatever its shape."""
    held, made = call.array(index), call.maker(index)
    if held is None and made is not None and made.op == "Concat":
        return all(_is_zero(made, k) for k in range(len(made.inputs)))
    if held is None and made is not None and made.op in _MOVING:
        return _is_zero(made, 0)
    if held is None and made is not None and made.op == "ConstantOfShape":
        value = made.attribute("value")
        held = np.zeros(1) if value is None else tensors.array(value)
    return held is not None and held.dtype.kind == "f" and not held.any() and not np.signbit(held).any()


@says("Replaced the computed end of a Slice by the end of the axis")
@rule("Slice", since=10)
def state_end(call: Call) -> Outcome:
    starts, ends, axes = call.known_numbers(1), call.known_numbers(2), call.ints(3)
    shape = call.shape() if call.elem_type(2) == TensorProto.INT64 else None
    if ends is None or starts is None or axes is None or shape is None or len(ends.values) != len(axes):
        return None
    if (call.input(4) and call.ints(4) != [1] * len(axes)) or all(isinstance(end, int) for end in ends.values):
        return None
    if any(dimensions.place(axis, len(shape)) is None for axis in axes):
        return None
    stated = [
        2**63 - 1 if isinstance(end, Poly) and end == shape[axis] else end
        for axis, end in zip(axes, ends.values, strict=True)
    ]
    if not all(isinstance(end, int) for end in stated):
        return None
    names = list(call.inputs)
    names[2] = call.constant(_ints(stated))
    call.read(*names)
    return EDITED
