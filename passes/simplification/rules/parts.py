"""Parts of a value: what is cut into pieces one by one is cut once."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.passes.analysis.moving import bound_slice
from opshift.passes.model import tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import NodeProto
from opshift.passes.rewrite.says import says
from opshift.passes.simplification import dimensions
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.rules import EDITED, Outcome, rule
from opshift.passes.simplification.workspace import KnownNumbers

_SIZES_ARE_INPUTS = 13  # the opset from which on Split takes them so
_COUNT_IS_TOLD = 18  # the opset from which on a Split into equal parts says how many
_MOST = 64  # parts


# --- Slice --------------------------------------------------------------------------------------------------


def _bounds(call: Call) -> tuple[list[int], list[int], list[int], list[int]] | None:
    """The starts, ends, axes and steps of a Slice, where they are constants and no axis is named twice."""
    starts, ends, axes, steps = (call.ints(k) for k in range(1, 5))
    if starts is None or ends is None or (call.input(3) and axes is None) or (call.input(4) and steps is None):
        return None
    axes = list(range(len(starts))) if axes is None else axes
    shape = call.shape()
    if shape is not None:
        places = [dimensions.place(axis, len(shape)) for axis in axes]
        axes = [axis for axis in places if axis is not None]
    elif any(axis < 0 for axis in axes):
        return None
    steps = [1] * len(starts) if steps is None else steps
    fits = len(starts) == len(ends) == len(axes) == len(steps) == len(set(axes)) and all(steps)
    return (starts, ends, axes, steps) if fits else None


@says("Merged two Slices of different axes")
@rule("Slice", since=10)
def slice_once(call: Call) -> Outcome:
    made = call.maker()
    if made is None or made.op != "Slice":
        return None
    inner, outer = _bounds(made), _bounds(call)
    if inner is None or outer is None or not set(inner[2]).isdisjoint(outer[2]):
        return None
    both = [call.constant(tensors.int64s([*first, *then])) for first, then in zip(inner, outer, strict=True)]
    if call.alone():  # else nobody would read what the Split makes
        for pieces in call.space.pieces.values():
            for start in [start for start, (_, node) in pieces.items() if node is made.proto]:
                del pieces[start]
    call.read(made.input(0), *both)
    return EDITED


def _cut(call: Call) -> tuple[int, int, int, int] | None:
    """The one axis that a Slice cuts a piece out of, the piece's ends, and the axis' length."""
    held, shape = _bounds(call), call.shape()
    if held is None or shape is None:
        return None
    found = None
    for start, end, axis, step in zip(*held, strict=True):
        size = shape[axis]
        if step != 1 or not isinstance(size, int):
            if start == 0 and step == 1 and end >= 2**31 - 1:
                continue
            return None
        piece = bound_slice(start, end, 1, size)
        if (piece.start, piece.stop) == (0, size):
            continue
        if found is not None or piece.stop is None or piece.start >= piece.stop:
            return None
        found = axis, piece.start, piece.stop, size
    return found


@says("Merged several Slices of one value into one Split")
@rule("Slice", since=10)
def split_at_once(call: Call) -> Outcome:
    space, found = call.space, _cut(call)
    if found is None or not space.whole.fixed.isdisjoint([call.input(0), call.output]):
        return None
    axis, start, end, size = found
    if (same := space.emitted.get(("piece", call.input(0), axis, start, end))) is not None:
        return same
    pieces = space.pieces.setdefault((call.input(0), axis), {})
    pieces.pop(start, None)  # in the order of the nodes
    pieces[start] = (end, call.proto)
    chain: list[tuple[int, NodeProto]] = []
    at = 0
    while at < size and at in pieces and len(chain) < _MOST:
        stop, node = pieces[at]
        if node is not call.proto and (node.op_type != "Slice" or space.makers.get(node.output[0]) is not node):
            return None
        chain.append((stop - at, node))
        at = stop
    if at != size or all(node is not call.proto for _, node in chain):
        return None
    taken = {node.output[0] for _, node in chain}
    first = next(node for _, node in pieces.values() if node.output[0] in taken)
    return _split_in_place(call, first, chain, axis)


def _split_in_place(call: Call, first: NodeProto, chain: Sequence[tuple[int, NodeProto]], axis: int) -> Outcome:
    """Let the first of several Slices be a Split that makes what all of them make."""
    space, value = call.space, call.input(0)
    told = _describe(call, [length for length, _ in chain])
    if told is None:
        return None
    names = [node.output[0] for _, node in chain]
    for name, (_, node) in zip(names, chain, strict=True):
        if node is not first:  # nobody reads it any more
            node.op_type = "Identity"
            del node.attribute[:]
            node.input[:] = [name]
            node.output[:] = [space.whole.context.names.fresh(name)]
    first.op_type = "Split"
    first.output[:] = names
    del first.attribute[:]
    split = Call(first, space)
    split.read(value, *told[0])
    for attribute, held in (("axis", axis), *told[1]):
        split.set(attribute, held)
    space.register(first)
    space.pieces.pop((value, axis))
    at = 0
    for name, (length, _) in zip(names, chain, strict=True):
        space.emitted[("piece", value, axis, at, at + length)] = name
        at += length
    return EDITED


def _describe(call: Call, sizes: list[int]) -> tuple[list[str], list[tuple[str, int | list[int]]]] | None:
    """The further inputs and the attributes by which a Split is told its sizes; None where they come too late."""
    if call.opset < _SIZES_ARE_INPUTS:
        return [], [("split", sizes)]
    if call.space.holds:
        return [call.constant(tensors.int64s(sizes))], []
    if len(set(sizes)) > 1:
        return None
    return [], [("num_outputs", len(sizes))] if call.opset >= _COUNT_IS_TOLD else []


# --- sequences ----------------------------------------------------------------------------------------------


def _sizes(cut: Call) -> tuple[int, list[int]] | None:
    """The axis that a SplitToSequence cuts, and the sizes of its parts."""
    shape, axis = cut.shape(), int(cut.attribute("axis", 0))
    size = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
    if shape is None or not isinstance(size, int) or size < 1:
        return None
    known = cut.known_numbers(1) if cut.input(1) else KnownNumbers(True, (1,))
    if known is None or not all(isinstance(number, int) and number > 0 for number in known.values):
        return None
    sizes = [number for number in known.values if isinstance(number, int)]
    if known.scalar:
        step = sizes[0]
        sizes = [min(step, size - start) for start in range(0, size, step)]
    return (axis % len(shape), sizes) if sum(sizes) == size and len(sizes) <= _MOST else None


@says("Replaced SplitToSequence and SequenceAt by Split")
@rule("SequenceAt", since=11)
def take_part(call: Call) -> Outcome:
    cut, at = call.maker_if("SplitToSequence"), call.ints(1)
    if cut is None or not at:
        return None
    if not cut.input(1) and not cut.attribute("keepdims", 1):
        return _take(call, cut, at[0])
    found = _sizes(cut)
    if found is None or not -len(found[1]) <= at[0] < len(found[1]):
        return None
    axis, sizes = found
    key = ("Split", cut.input(0), axis, *sizes)
    if (*key, 0) not in call.space.emitted:
        _emit_split(call, cut.input(0), axis, sizes, key)
    return call.space.emitted[(*key, at[0] % len(sizes))]


def _take(call: Call, cut: Call, at: int) -> Outcome:
    """One place along an axis, without the axis."""
    call.proto.op_type = "Gather"
    call.set("axis", int(cut.attribute("axis", 0)))
    call.read(cut.input(0), call.constant(tensors.int64s([at], [])))
    return EDITED


def _emit_split(call: Call, value: str, axis: int, sizes: list[int], key: tuple[object, ...]) -> None:
    space, fresh = call.space, call.space.whole.context.names.fresh
    inputs, attributes = [value], [make_attribute("axis", axis)]
    if call.opset < _SIZES_ARE_INPUTS:
        attributes.append(make_attribute("split", sizes))
    else:
        inputs.append(call.constant(tensors.int64s(sizes)))
    made = NodeProto(op_type="Split", input=inputs, attribute=attributes)
    made.output.extend(fresh(f"{call.output}/part") for _ in sizes)
    if call.proto.name:
        made.name = fresh(f"{call.proto.name}/Split")
    call.before.append(made)
    space.register(made)
    space.whole.uses.update(inputs)
    space.emitted.update({(*key, index): name for index, name in enumerate(made.output)})


@says("Replaced SequenceAt of a known sequence by the element")
@rule("SequenceAt", since=11)
def take_member(call: Call) -> Outcome:
    made, at = call.maker_if("SequenceConstruct"), call.ints(1)
    if made is None or not at:
        return None
    count = len(made.inputs)
    return made.input(at[0] % count) if -count <= at[0] < count else None


@says("Merged two Concats along the same axis")
@rule("Concat")
def join_at_once(call: Call) -> Outcome:
    axis, names = _concat_axis(call), list[str]()
    for index, name in enumerate(call.inputs):
        made = call.maker_if("Concat", index)
        inner = made is not None and axis is not None and _concat_axis(made) == axis and call.alone(index)
        names += made.inputs if made is not None and inner else [name]
    if len(names) == len(call.inputs):
        return None
    call.read(*names)
    return EDITED


def _concat_axis(call: Call) -> int | None:
    """The axis of a Concat, counted from the first one."""
    axis = call.attribute("axis")
    if axis is None or axis >= 0:
        return int(axis) if axis is not None else None
    shapes = [call.shape(index) for index in range(len(call.inputs))]
    rank = next((len(shape) for shape in shapes if shape is not None), None)
    return None if rank is None else axis + rank


@says("Replaced ConcatFromSequence by Concat")
@rule("ConcatFromSequence", since=11)
def join_members(call: Call) -> Outcome:
    made = call.maker()
    if made is None or made.op != "SequenceConstruct" or call.attribute("new_axis", 0):
        return None
    call.proto.op_type = "Concat"
    call.set("new_axis", None)
    call.read(*made.proto.input)
    return EDITED
