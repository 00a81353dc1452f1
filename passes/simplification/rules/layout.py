"""Changes of shape and order in a row: one does what two did."""

from __future__ import annotations

from opshift.passes.model import tensors
from opshift.passes.rewrite.says import says
from opshift.passes.simplification import dimensions, shape_values
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.rules import EDITED, Outcome, rule

_AXES_ARE_INPUTS = 13  # the opset from which on Squeeze and Unsqueeze take them so
_VIEWS = frozenset(["Flatten", "Reshape", "Squeeze", "Unsqueeze"])


@says("Merged two Transposes")
@rule("Transpose", settles=True)
def transpose_once(call: Call) -> Outcome:
    made = call.maker()
    if made is None or made.op != "Transpose":
        return None
    outer, inner = call.attribute("perm"), made.attribute("perm")
    rank = len(outer or inner or call.shape() or ())
    if not rank:
        return None
    outer, inner = (list(reversed(range(rank))) if perm is None else perm for perm in (outer, inner))
    if len(outer) != len(inner):
        return None
    call.read(made.input(0))
    call.set("perm", [inner[axis] for axis in outer])
    return EDITED


@says("Merged two Reshapes, Squeezes or Unsqueezes into one")
@rule("Reshape")
def reshape_once(call: Call) -> Outcome:
    made, shape = call.maker(), call.ints(1)
    if made is None or shape is None or 0 in shape or not _is_view(made):
        return None
    call.read(made.input(0), call.input(1))
    return EDITED


def _is_view(call: Call) -> bool:
    """Whether a node changes nothing but the shape; a Transpose that moves only axes of length 1 is one, too."""
    if call.op != "Transpose":
        return call.op in _VIEWS
    shape, perm = call.shape(), call.attribute("perm")
    if shape is None or perm is None or len(perm) != len(shape):
        return False
    long = [axis for axis in perm if shape[axis] != 1]
    return long == sorted(long)


@says("Removed Unsqueeze and Squeeze around a Transpose")
@rule("Squeeze")
def transpose_without(call: Call) -> Outcome:
    moved = call.maker_if("Transpose")
    made = None if moved is None else moved.maker_if("Unsqueeze")
    if moved is None or made is None:
        return None
    perm, added, gone = moved.attribute("perm"), made.axes(), call.axes()
    if perm is None or added is None or gone is None:
        return None
    new = {axis % len(perm) for axis in added}
    places = {axis % len(perm) for axis in gone}
    if {perm[place] for place in places} != new:
        return None
    left = [axis for axis in range(len(perm)) if axis not in new]
    call.proto.op_type = "Transpose"
    call.read(made.input(0))
    call.set("axes", None)
    call.set("perm", [left.index(axis) for place, axis in enumerate(perm) if place not in places])
    return EDITED


@says("Removed Unsqueeze and the Squeeze that undoes it")
@rule("Squeeze")
def squeeze_back(call: Call) -> Outcome:
    made = call.maker()
    return made.input(0) if made is not None and made.op == "Unsqueeze" and _same_axes(call, made) else None


@says("Removed Squeeze and the Unsqueeze that undoes it")
@rule("Unsqueeze")
def unsqueeze_back(call: Call) -> Outcome:
    made = call.maker()
    return made.input(0) if made is not None and made.op == "Squeeze" and _same_axes(made, call) else None


def _same_axes(squeeze: Call, unsqueeze: Call) -> bool:
    gone, added = squeeze.axes(), unsqueeze.axes()
    if gone is None or added is None or len(gone) != len(added):
        return False
    alike = all(axis >= 0 for axis in gone + added) or len(gone) == 1
    return alike and sorted(gone) == sorted(added)


@says("Merged two Unsqueezes")
@rule("Unsqueeze")
def unsqueeze_once(call: Call) -> Outcome:
    made = call.maker()
    if made is None or made.op != "Unsqueeze":
        return None
    inner, outer, shape = made.axes(), call.axes(), made.shape()
    if inner is None or outer is None or min(inner + outer) < 0:
        if inner is None or outer is None or shape is None:
            return None
        inner = [axis % (len(shape) + len(inner)) for axis in inner]
        outer = [axis % (len(shape) + len(inner) + len(outer)) for axis in outer]
    places = [place for place in range(max(inner) + len(outer) + 1) if place not in outer]
    axes = sorted([*outer, *(places[axis] for axis in inner)])
    if call.opset < _AXES_ARE_INPUTS:
        call.read(made.input(0))
        call.set("axes", axes)
    else:
        call.read(made.input(0), call.constant(tensors.int64s(axes)))
    return EDITED


def _may_lose_more(call: Call) -> bool:
    """Whether every dimension that turns out to be 1 goes, whatever rank is declared for what is left."""
    if call.op != "Squeeze" or call.axes() is not None:
        return False
    shape = call.shape()
    return shape is None or not all(isinstance(size, int) for size in shape)


@says("Merged two Reshapes, Squeezes or Unsqueezes into one")
@rule("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def view_once(call: Call) -> Outcome:
    made = call.maker()
    if made is None or not _is_view(made) or _may_lose_more(call):
        return None
    shape_values.follow(call)
    before, after = made.shape(), call.shape_of(call.output)
    stated = None if before is None or after is None else dimensions.reshape_target(after, before)
    if stated is None:
        return None
    shape = call.constant(tensors.int64s(stated))
    call.proto.op_type = "Reshape"
    del call.proto.attribute[:]
    call.read(made.input(0), shape)
    return EDITED
