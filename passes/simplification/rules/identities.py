"""Nodes that give back what they get: exactly, for every input, or they stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from opshift.passes.analysis.polynomial import Number
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.says import says
from opshift.passes.simplification import shape_values
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.rules import EDITED, Outcome, rule

STAYS_INFINITE = "an infinity stays one"

_SMALL = 1 << 16  # bytes of a constant that is looked at value by value


@says("Removed Identity")
@rule("Identity", since=1, settles=True)
def pass_on(call: Call) -> Outcome:
    return call.input(0)


@says("Removed Dropout, which does nothing in inference")
@rule("Dropout")
def pass_on_inference_dropout(call: Call) -> Outcome:
    training = call.opset >= 12 and call.input(2)
    if (training and (held := call.array(2)) is None) or (training and held.any()):
        return None
    return call.input(0) if call.is_unused(1) else None


@says("Removed an operator with a single input, which does nothing (such as Sum or Concat)")
@rule("Sum", "Max", "Min", "Mean", "Concat")
def pass_on_only_input(call: Call) -> Outcome:
    return call.input(0) if len(call.inputs) == 1 else None


@says("Removed a Split into one part")
@rule("Split")
def pass_on_only_part(call: Call) -> Outcome:
    return call.input(0) if len(call.proto.output) == 1 else None


# --- arithmetic ---------------------------------------------------------------------------------------------


def splat(call: Call, index: int) -> Any:
    """The one value, as an array without axes, that all elements of a small constant have; None if they differ."""
    name, known = call.input(index), call.space.splats
    if name not in known:
        held = call.array(index, _SMALL)
        if held is None:
            return None
        known[name] = _only(held)
    return known[name]


def _only(held: Any) -> Any:
    if not held.size or held.dtype.kind not in "iufb":
        return None
    first = held.reshape(-1)[0]
    alike = (held == first).all() and (held.dtype.kind != "f" or (np.signbit(held) == np.signbit(first)).all())
    return np.asarray(first) if alike else None


def keeps_shape(call: Call, value: int, other: int) -> bool:
    """Whether the input at `other` broadcasts into the one at `value`, whose shape is the result's then."""
    held = call.shape(other)
    if held == ():
        return True
    given = call.shape(value)
    if held is None or given is None or len(held) > len(given):
        return False
    return all(dim in (1, own) for dim, own in zip(reversed(held), reversed(given), strict=False))


def _is_zero(held: Any, negative: bool) -> bool:
    """Whether it is the zero whose sum with x is x: -0.0 for floats, as -0.0 + 0.0 is 0.0."""
    return bool(held == 0) and (held.dtype.kind != "f" or bool(np.signbit(held)) == negative)


def beside_unit(call: Call, is_unit: Callable[[Any], bool], *, commutes: bool = True) -> str | None:
    """The operand that an operator yields as the other one is a unit: the first, or any where it `commutes`."""
    for value, other in ((0, 1), (1, 0)) if commutes else ((0, 1),):
        held = splat(call, other)
        if held is not None and is_unit(held) and keeps_shape(call, value, other):
            return call.input(value)
    return None


@says("Removed an addition of 0")
@rule("Add")
def pass_on_summand(call: Call) -> Outcome:
    return beside_unit(call, lambda held: _is_zero(held, negative=True))


@says("Removed a subtraction of 0")
@rule("Sub")
def pass_on_minuend(call: Call) -> Outcome:
    return beside_unit(call, lambda held: _is_zero(held, negative=False), commutes=False)


@says("Removed a multiplication by 1")
@rule("Mul")
def pass_on_factor(call: Call) -> Outcome:
    return beside_unit(call, lambda held: held == 1)


@says("Removed a division by 1, or a power of 1")
@rule("Div", "Pow")
def pass_on_operand_of_one(call: Call) -> Outcome:
    return beside_unit(call, lambda held: held == 1, commutes=False)


@says("Removed And with true, or Or with false")
@rule("And", "Or")
def pass_on_bool(call: Call) -> Outcome:
    return beside_unit(call, lambda held: bool(held) == (call.op == "And"))


@says("Removed a Where with a constant condition")
@rule("Where")
def choose(call: Call) -> Outcome:
    held = splat(call, 0)
    if held is None:
        return None
    taken, other = (1, 2) if held else (2, 1)
    return call.input(taken) if keeps_shape(call, taken, 0) and keeps_shape(call, taken, other) else None


@says("Removed two operators that undo each other")
@rule("Neg", "Not")
def undo(call: Call) -> Outcome:
    made = call.maker()
    return made.input(0) if made is not None and made.op == call.op else None


@says("Removed a repeated operator that changes nothing the second time")
@rule("Abs", "Ceil", "Floor", "Relu", "Round", "Sign")
def pass_on_repetition(call: Call) -> Outcome:
    made = call.maker()
    return call.input(0) if made is not None and made.op == call.op else None


@says("Removed a Clip without bounds")
@rule("Clip")
def pass_on_unbounded(call: Call) -> Outcome:
    if call.opset < 11 or call.input(1) or call.input(2):
        return None
    if call.elem_type() not in _INTEGERS:
        call.close(STAYS_INFINITE)  # the bounds of floats are their largest numbers
    return call.input(0)


# --- types --------------------------------------------------------------------------------------------------

_HOLDS_EXACTLY: dict[int, tuple[int, ...]] = {
    TensorProto.BOOL: (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT),
    TensorProto.INT8: (TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
    TensorProto.UINT8: (TensorProto.INT16, TensorProto.UINT16, TensorProto.INT32, TensorProto.INT64),
    TensorProto.INT16: (TensorProto.INT32, TensorProto.INT64),
    TensorProto.UINT16: (TensorProto.INT32, TensorProto.UINT32, TensorProto.INT64),
    TensorProto.INT32: (TensorProto.INT64,),
    TensorProto.UINT32: (TensorProto.INT64, TensorProto.UINT64),
    TensorProto.FLOAT16: (TensorProto.FLOAT, TensorProto.DOUBLE),
    TensorProto.BFLOAT16: (TensorProto.FLOAT, TensorProto.DOUBLE),
    TensorProto.FLOAT: (TensorProto.DOUBLE,),
}
"""Types that hold every value of a type, and that other types are reached from as from that type itself."""
_FLOATS = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE)
_INTEGERS = (
    TensorProto.INT8,
    TensorProto.INT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.UINT16,
    TensorProto.UINT32,
    TensorProto.UINT64,
)


@says("Replaced CastLike by Cast")
@rule("CastLike", since=15)
def name_type(call: Call) -> Outcome:
    to = call.elem_type(1)
    if not to or call.elem_type(0) in (0, TensorProto.STRING) or to == TensorProto.STRING:
        return None
    call.proto.op_type = "Cast"
    call.read(call.input(0))
    call.set("to", to)
    return EDITED


@says("Removed a Cast to the same type")
@rule("Cast")
def pass_on_cast(call: Call) -> Outcome:
    return call.input(0) if call.attribute("to") == call.elem_type(0) != 0 else None


@says("Merged two Casts")
@rule("Cast")
def cast_once(call: Call) -> Outcome:
    made, to = call.maker(), call.attribute("to")
    if made is None or made.op != "Cast":
        return None
    first, between = made.elem_type(0), made.attribute("to")
    if between not in _HOLDS_EXACTLY.get(first, ()):
        return None
    if to == first:
        return made.input(0)
    float_to_float = first in _FLOATS and to in (*_FLOATS, TensorProto.BOOL)
    among_integers = between in _INTEGERS and to in (*_INTEGERS, *_FLOATS[2:], TensorProto.BOOL)
    if not float_to_float and not (among_integers and first != TensorProto.BOOL):
        return None
    call.read(made.input(0))
    return EDITED


# --- shapes -------------------------------------------------------------------------------------------------


def _same_shape(a: Sequence[Number] | None, b: Sequence[Number] | None) -> bool:
    return a is not None and b is not None and tuple(a) == tuple(b)


@says("Removed a Reshape to the same shape")
@rule("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand")
def pass_on_shape(call: Call) -> Outcome:
    if call.op == "Flatten":
        shape = call.shape()
        return call.input(0) if shape is not None and len(shape) == 2 and call.attribute("axis", 1) in (1, -1) else None
    if call.op == "Squeeze" or call.op == "Unsqueeze":  # engines disagree about a Squeeze of no axes
        return call.input(0) if call.op == "Unsqueeze" and call.axes() == [] else None
    shape_values.follow(call)
    return call.input(0) if _same_shape(call.shape(), call.shape_of(call.output)) else None


@says("Removed a Transpose that keeps the order of axes")
@rule("Transpose")
def pass_on_order(call: Call) -> Outcome:
    perm = call.attribute("perm")
    if perm is None:
        shape = call.shape()
        return call.input(0) if shape is not None and len(shape) < 2 else None
    return call.input(0) if perm == list(range(len(perm))) else None


@says("Removed a Slice that takes all elements")
@rule("Slice")
def pass_on_whole(call: Call) -> Outcome:
    if call.opset < 10:
        starts, ends, axes = (call.attribute(name) for name in ("starts", "ends", "axes"))
        steps = None
    else:
        starts, ends, axes = call.ints(1), call.ints(2), call.ints(3)
        steps = call.ints(4)
        if (call.input(3) and axes is None) or (call.input(4) and steps is None):
            return None
    if starts is None or ends is None or any(starts) or any(step != 1 for step in steps or []):
        return None
    axes = range(len(starts)) if axes is None else axes
    shape = call.shape()
    for axis, end in zip(axes, ends, strict=True):
        dim = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
        if end < 2**31 - 1 and not (isinstance(dim, int) and end >= dim):
            return None
    return call.input(0)


@says("Removed a Pad by 0")
@rule("Pad")
def pass_on_unpadded(call: Call) -> Outcome:
    pads = call.attribute("pads") if call.opset < 11 else call.ints(1)
    return call.input(0) if pads is not None and not any(pads) and call.attribute("mode") != "wrap" else None


@says("Removed a Tile that repeats once")
@rule("Tile")
def pass_on_once(call: Call) -> Outcome:
    repeats = call.ints(1)
    return call.input(0) if repeats is not None and all(number == 1 for number in repeats) else None


@says("Removed a Resize by the factor 1")
@rule("Resize", since=11)
def pass_on_size(call: Call) -> Outcome:
    scales = call.array(2, _SMALL)
    mode, crop = call.attribute("mode", "nearest"), call.attribute("coordinate_transformation_mode", "half_pixel")
    if scales is None or not scales.size or not (scales == 1).all() or mode not in ("nearest", "linear"):
        return None
    return None if crop == "tf_crop_and_resize" or call.input(3) else call.input(0)
