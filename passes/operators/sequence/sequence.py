"""Sequences, before they existed: what each holds is followed to those who ask; and SequenceMap as a loop."""

from __future__ import annotations

from itertools import pairwise

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto, TypeProto, keep_held
from opshift.passes.model.traversal import subgraphs
from opshift.passes.model.types import elem_type_of, tensor_type
from opshift.passes.operators.shared.recipes import wrap_negative
from opshift.passes.operators.shared.sequences import construct
from opshift.passes.operators.shared.shapes import size_along
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto


def _elements(node: Node) -> list[str]:
    """The tensors of the first input."""
    name = node.input(0)
    found = node.scope.elements(name)
    if found is None:
        found = construct(node.scope, name)
    if found is None:
        raise CannotConvert(
            node,
            f'the elements of the sequence "{name}" are dynamic',
            supported="a sequence that the same graph builds",
        )
    return found


def _place(node: Node, index: int, length: int, last: int) -> int | str:
    """Where a position points, counted from the front: a number, or a value that is known only at run time."""
    name, build = node.input(index), node.build
    if not name:
        return last
    found = node.scope.ints(name)
    if found is not None:
        position = found[0] + length if found[0] < 0 else found[0]
        if not 0 <= position <= last:
            raise CannotConvert(node, f"position {found[0]} is out of range for a sequence of {length} elements")
        return position
    if last < 0:
        raise CannotConvert(node, "the sequence is empty", supported="a sequence of at least one tensor")
    if last == 0:
        return 0
    if node.scope.elem_type(name) != T.INT64:
        name = build.Cast(name, to=T.INT64)
    if node.scope.shape(name) != []:
        name = build.Reshape(name, build.constant([], T.INT64))
    return wrap_negative(node, name, build.constant(length, T.INT64), T.INT64)


def _at(node: Node, held: list[str], place: int | str) -> str:
    """The tensor at a place: one of known tensors, or taken from all of them stacked where they have one shape."""
    if isinstance(place, int) or len(set(held)) == 1:
        return held[place if isinstance(place, int) else 0]
    build = node.build
    if not _is_one_shape(node, held):
        found, value_type = held[0], _value_type(node, held)
        for at, name in enumerate(held[1:], 1):
            found = _unless(build, build.Equal(place, build.constant(at, T.INT64)), name, found, value_type)
        return found
    stacked = build.Concat(*(build.Unsqueeze(name, axes=[0]) for name in held), axis=0)
    return str(build.Gather(stacked, place, axis=0))


def _either(node: Node, condition: str, one: str, other: str) -> str:
    """`one` where a condition holds, else `other`."""
    if one == other or _is_one_shape(node, [other, one]):
        return _at(node, [other, one], node.build.Cast(condition, to=T.INT64))
    return _unless(node.build, condition, one, other, _value_type(node, [other, one]))


def _unless(build: Builder, condition: str, one: str, other: str, value_type: TypeProto) -> str:
    """`other`, unless the condition holds: a loop of one round or none, for If asked for branches of one shape."""
    once = [build.constant(False, T.BOOL), one]
    return build.loop(None, [(other, value_type)], lambda *_: once, ends=True, begins=condition)[0]


def _is_one_shape(node: Node, held: list[str]) -> bool:
    """Whether all tensors have one shape, which is known."""
    shapes = [node.scope.shape(name) for name in held]
    known = shapes[0] is not None and all(isinstance(dim, int) for dim in shapes[0])
    return known and all(shape == shapes[0] for shape in shapes)


def _value_type(node: Node, held: list[str]) -> TypeProto:
    """The type of a value that is one of several tensors."""
    elem_type = next(filter(None, map(node.scope.elem_type, held)), 0)
    if not elem_type:
        raise node.unknown("type", held[0])
    shapes = [node.scope.shape(name) for name in held]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(held) or len({len(shape) for shape in known}) > 1:
        return tensor_type(elem_type)
    same = [dims[0] if len(set(dims)) == 1 else None for dims in zip(*known, strict=True)]
    return tensor_type(elem_type, same)


# --- 11: what makes sequences -------------------------------------------------------------------------------


def _dissolve(node: Node, elements: list[str]) -> str:
    node.scope.dissolve(node.outputs[0], elements)
    return ""


def _release(node: Node, elements: list[str]) -> str:
    """The same for elements made here, which go where nobody asks for them."""
    node.scope.context.released.update(elements)
    return _dissolve(node, elements)


@says("Removed SequenceEmpty")
def nothing_held(node: Node) -> str:
    return _dissolve(node, [])


@says("Removed SequenceConstruct, and used its inputs directly")
def inputs_held(node: Node) -> str:
    return _dissolve(node, node.inputs)


@says("Removed SequenceInsert, and used its tensors directly")
def one_more_held(node: Node) -> str:
    held, more = _elements(node), node.input(1)
    place = _place(node, 2, len(held), len(held))
    if isinstance(place, int):
        return _dissolve(node, [*held[:place], more, *held[place:]])
    passed = _is_before(node, place, len(held))
    elements = [_either(node, passed[0], more, held[0])]
    for (before, after), (behind, at) in zip(pairwise(held), pairwise(passed), strict=True):
        elements.append(_either(node, behind, before, _either(node, at, more, after)))
    return _release(node, [*elements, _either(node, passed[-1], held[-1], more)])


@says("Removed SequenceErase, and used its tensors directly")
def one_less_held(node: Node) -> str:
    held = _elements(node)
    place = _place(node, 1, len(held), len(held) - 1)
    if isinstance(place, int):
        return _dissolve(node, held[:place] + held[place + 1 :])
    passed = _is_before(node, place, len(held) - 1)
    pairs = zip(passed, pairwise(held), strict=True)
    return _release(node, [_either(node, behind, after, before) for behind, (before, after) in pairs])


def _is_before(node: Node, place: str, most: int) -> list[str]:
    """Compare a position with 1, 2 and so on up to `most`: is it before?"""
    return [node.build.Less(place, node.build.constant(at, T.INT64)) for at in range(1, most + 1)]


@says("Replaced SplitToSequence by Split, or by Slice if sizes are dynamic")
def parts_held(node: Node) -> str:
    rank, axis = node.rank(), node.attributes.get("axis", 0)
    if not -rank <= axis < rank:
        raise CannotConvert(node, f"axis {axis} is out of range for rank {rank}")
    axis %= rank
    sizes = _sizes(node, axis)
    parts = _slices(node, axis) if sizes is None else _split(node, axis, sizes)
    if not parts:
        raise CannotConvert(node, "there are no elements to split", supported="at least one")
    return _release(node, parts)


def _sizes(node: Node, axis: int) -> list[int] | None:
    """The sizes of the parts; None where they are told at run time."""
    split = node.scope.array(node.input(1)) if node.input(1) else tensors.array(tensors.int64s([1], []))
    if split is None:
        return None
    if split.ndim:
        return [int(size) for size in split]
    size, step = size_along(node, axis), int(split)
    if not isinstance(size, int) or step < 1:
        raise CannotConvert(node, f"the size of axis {axis} is unknown")
    return [min(step, size - start) for start in range(0, size, step)]


def _split(node: Node, axis: int, sizes: list[int]) -> list[str]:
    build = node.build
    made = build.emit("Split", [node.input(0)], {"axis": axis, "split": sizes}, outputs=len(sizes))
    parts = [made] if isinstance(made, str) else list(made)
    if not node.input(1) and not node.attributes.get("keepdims", 1):
        parts = [build.Squeeze(part, axes=[axis]) for part in parts]
    return parts


def _slices(node: Node, axis: int) -> list[str]:
    """The parts, of which only the number is known: each begins where the one before it ends."""
    build, dims = node.build, node.scope.shape(node.input(1))
    count = dims[0] if dims is not None and len(dims) == 1 else None
    if not isinstance(count, int):
        raise CannotConvert(node, "the number of parts is dynamic", supported="a constant number")
    sizes, ends = build.Cast(node.input(1), to=T.INT64), [build.constant([0], T.INT64)]
    for at in range(count):
        ends.append(build.Add(ends[-1], build.Gather(sizes, [at], axis=0)))
    return [build.Slice(node.input(0), start, end, [axis]) for start, end in pairwise(ends)]


# --- 11: what asks sequences --------------------------------------------------------------------------------


@says("Removed SequenceAt, and used the tensor directly")
def tensor_at(node: Node) -> str:
    held = _elements(node)
    return _at(node, held, _place(node, 1, len(held), len(held) - 1))


@says("Replaced SequenceLength by a constant")
def number_held(node: Node) -> str:
    return node.build.constant(tensors.int64s([len(_elements(node))], []))


@says("Replaced ConcatFromSequence by Concat")
def concatenate(node: Node) -> str:
    build, held, axis = node.build, _elements(node), node.attributes["axis"]
    stacked = node.attributes.get("new_axis", 0)
    if not held:
        raise CannotConvert(node, "the sequence is empty", supported="a sequence of at least one tensor")
    if axis < 0:
        shape = node.scope.shape(held[0])
        if shape is None:
            raise node.unknown("rank", held[0])
        axis += len(shape) + bool(stacked)
    if stacked:
        held = [build.Unsqueeze(name, axes=[axis]) for name in held]
    return str(build.Concat(*held, axis=axis))


changed("SequenceEmpty", 11, Pair(down=nothing_held))
changed("SequenceConstruct", 11, Pair(down=inputs_held))
changed("SequenceInsert", 11, Pair(down=one_more_held))
changed("SequenceErase", 11, Pair(down=one_less_held))
changed("SplitToSequence", 11, Pair(down=parts_held))
changed("SequenceAt", 11, Pair(down=tensor_at))
changed("SequenceLength", 11, Pair(down=number_held))
changed("ConcatFromSequence", 11, Pair(down=concatenate))


# --- 17: SequenceMap ----------------------------------------------------------------------------------------


@says("Replaced SequenceMap by a Loop over the elements")
def map_by_a_loop(node: Node) -> list[str]:
    build, fresh = node.build, node.scope.context.names.fresh
    body = next(graph for _, _, graph in subgraphs(node.proto))
    value_types = [
        _sequence_type(node, name, value.type) for name, value in zip(node.outputs, body.output, strict=True)
    ]
    loop = GraphProto(name=body.name)
    at, going, still = fresh("at"), fresh("going"), fresh("still_going")
    for name, results, elem_type in (
        (at, loop.input, T.INT64),
        (going, loop.input, T.BOOL),
        (still, loop.output, T.BOOL),
    ):
        results.add(name=name).type.CopyFrom(tensor_type(elem_type, []))
    loop.node.append(NodeProto(op_type="Identity", input=[going], output=[still]))
    for name, value in zip(node.inputs, body.input, strict=True):
        if _is_sequence(node, name):
            loop.node.append(NodeProto(op_type="SequenceAt", input=[name, at], output=[value.name]))
        else:
            loop.node.append(NodeProto(op_type="Identity", input=[name], output=[value.name]))
    loop.node.extend(body.node)
    keep_held(loop, body)
    for value, value_type in zip(body.output, value_types, strict=True):
        before, after = fresh("made"), fresh("more")
        loop.node.append(NodeProto(op_type="SequenceInsert", input=[before, value.name], output=[after]))
        loop.input.add(name=before).type.CopyFrom(value_type)
        loop.output.add(name=after).type.CopyFrom(value_type)
    empty = [build.SequenceEmpty(dtype=elem_type_of(value_type.sequence_type.elem_type)) for value_type in value_types]
    count = build.SequenceLength(node.input(0))
    made = build.emit("Loop", [count, None, *empty], {"body": loop}, outputs=len(value_types))
    build.keep_graphs()
    made = [made] if isinstance(made, str) else list(made)
    for name, value_type in zip(made, value_types, strict=True):
        node.scope.typed[name] = value_type
    return made


def _is_sequence(node: Node, name: str) -> bool:
    value_type = node.scope.type(name)
    if value_type is None:
        raise node.unknown("type", name)
    return bool(value_type.WhichOneof("value") == "sequence_type")


def _sequence_type(node: Node, name: str, element: TypeProto) -> TypeProto:
    known, made = node.scope.type(name), TypeProto()
    elem_type = elem_type_of(element)
    if not elem_type and known is not None and known.WhichOneof("value") == "sequence_type":
        elem_type = elem_type_of(known.sequence_type.elem_type)
    if not elem_type:
        raise node.unknown("type", name)
    made.sequence_type.elem_type.CopyFrom(tensor_type(elem_type))
    return made


changed("SequenceMap", 17, Pair(down=map_by_a_loop))
