"""Axes that are joined to be moved: they are moved as they are. Axes that a constant names."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.passes.analysis.polynomial import Number
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.says import says
from opshift.passes.simplification import dimensions, shape_values
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.rules import EDITED, Outcome, rule

_AXES_ARE_INPUTS = 13  # the opset from which on Squeeze takes them so


def _groups(parts: Sequence[Number], wholes: Sequence[Number]) -> list[list[int]] | None:
    """The axes of `parts` that are joined to each of `wholes`, in order."""
    found: list[list[int]] = []
    at = 0
    for whole in wholes:
        group: list[int] = []
        while at < len(parts) and (not group or dimensions.product([parts[axis] for axis in group]) != whole):
            group.append(at)
            at += 1
        found.append(group)
    found[-1:] = [[*found[-1], *range(at, len(parts))]] if found else []
    fits = all(
        group and dimensions.product([parts[axis] for axis in group]) == whole
        for group, whole in zip(found, wholes, strict=True)
    )
    return found if fits and 0 not in parts else None


@says("Replaced Reshape, Transpose, Reshape by one Transpose")
@rule("Reshape")
def transpose_unjoined(call: Call) -> Outcome:
    moved = call.maker_if("Transpose")
    joined = None if moved is None else moved.maker_if("Reshape")
    if moved is None or joined is None:
        return None
    shape_values.follow(call)
    parts, wholes, made = joined.shape(), moved.shape(), call.shape_of(call.output)
    perm = moved.attribute("perm")
    if parts is None or wholes is None or made is None or perm is None or len(perm) != len(wholes):
        return None
    groups = _groups(parts, wholes)
    order = [axis for place in perm for axis in groups[place]] if groups is not None else []
    if not order or [parts[axis] for axis in order] != list(made):
        return None
    call.proto.op_type = "Transpose"
    call.set("allowzero", None)
    call.set("perm", order)
    call.read(joined.input(0))
    return EDITED


@says("Cast constant axes of Pad to int64, which shape inference needs")
@rule("Pad", since=18)
def widen_axes(call: Call) -> Outcome:
    held = call.ints(3) if call.elem_type(3) == TensorProto.INT32 else None
    if held is None:
        return None
    call.proto.input[3] = call.constant(tensors.int64s(held))
    return EDITED


@says("Set the axes of a Squeeze that had none")
@rule("Squeeze", settles=True)
def state_axes(call: Call) -> Outcome:
    shape = call.shape()
    if call.attribute("axes") is not None or call.input(1) or shape is None or call.space.whole.leans:
        return None
    axes = [axis for axis, size in enumerate(shape) if size == 1]
    if not axes or not all(isinstance(size, int) for size in shape):  # engines disagree about a Squeeze of no axes
        return None
    if call.opset < _AXES_ARE_INPUTS:
        call.set("axes", axes)
    else:
        call.read(call.input(0), call.constant(tensors.int64s(axes)))
    return EDITED


_ATTRIBUTE_UNTIL = 17  # the last opset at which ReduceMax and ReduceMin take their axes as an attribute


@says("Merged two reductions of different axes into one")
@rule("ReduceMax", "ReduceMin", settles=True)
def reduce_once(call: Call) -> Outcome:
    """Take the largest of the largest in one node: [3], then [2] is [2, 3]."""
    first, kept = call.maker_if(call.op), call.attribute("keepdims", 1)
    if first is None or first.attribute("keepdims", 1) != kept or not call.alone():
        return None
    shape, inner, outer = first.shape(), first.axes(), call.axes()
    if shape is None or not inner or not outer:
        return None
    rank = len(shape)
    reduced = {axis % rank for axis in inner}
    left = [axis for axis in range(rank) if kept or axis not in reduced]
    axes = sorted(reduced | {left[axis % len(left)] for axis in outer})
    if call.opset <= _ATTRIBUTE_UNTIL:
        call.set("axes", axes)
        call.read(first.input(0))
    else:
        call.read(first.input(0), call.constant(tensors.int64s(axes)))
    return EDITED


@says("Removed a Transpose that only moves axes of a reduction")
@rule("ReduceMax", "ReduceMin", settles=True)
def reduce_unmoved(call: Call) -> Outcome:
    """Reduce [1, 2] of [N, H, W, C], which a Transpose made of [N, C, H, W], as [2, 3] of that."""
    moved, axes = call.maker_if("Transpose"), call.axes()
    shape = moved.shape() if moved is not None else None
    if moved is None or shape is None or not axes or not call.alone():
        return None
    rank = len(shape)
    perm, reduced = list(moved.attribute("perm") or range(rank)[::-1]), {axis % rank for axis in axes}
    left = [axis for axis in range(rank) if axis not in reduced]
    order = left if call.attribute("keepdims", 1) else sorted(perm[axis] for axis in left)
    if [perm[axis] for axis in left] != order:
        return None
    named = sorted(perm[axis] for axis in reduced)
    if call.attribute("axes") is not None:
        call.set("axes", named)
        call.read(moved.input(0))
    else:
        call.read(moved.input(0), call.constant(tensors.int64s(named)))
    return EDITED
