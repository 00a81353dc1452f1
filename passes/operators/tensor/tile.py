"""Tile: from copies along one axis to repeats along all."""

from __future__ import annotations

from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
# Tile 1 took its counts and its axis in the type of the data; up to here these types hold every integer.
COUNTS: dict[int, int] = {T.FLOAT16: 2**11, T.FLOAT: 2**24, T.DOUBLE: 2**53}
JOINED_AT_ONCE = 64
_MOST_COPIES = 1 << 16


@says("Replaced the inputs tiles and axis of Tile by repeats")
def copies_to_repeats(node: Node) -> None:
    build, rank, held = node.build, node.rank(), node.scope.array(node.input(2))
    if held is None:
        raise CannotConvert(node, "the axis is dynamic", supported="a constant axis")
    axis = int(held.reshape(-1)[0])
    if not 0 <= axis < rank:
        raise CannotConvert(node, f"axis {axis} is out of range for rank {rank}")
    before, after = [1] * axis, [1] * (rank - axis - 1)
    tiles = node.scope.array(node.input(1))
    if tiles is not None:
        repeats = build.constant([*before, int(tiles.reshape(-1)[0]), *after], T.INT64)
    else:
        count = build.Reshape(build.Cast(node.input(1), to=T.INT64), [1])
        repeats = build.Concat(*filter(len, (before, count, after)), axis=0)
    node.inputs = [node.input(0), repeats]


@says("Replaced Tile by Concat of its input")
def copies_side_by_side(node: Node) -> str:
    build, value, repeats = node.build, node.input(0), node.scope.ints(node.input(1))
    if repeats is None or 0 in repeats or prod(repeats) > _MOST_COPIES:
        found = f'"{node.input(1)}" is {"no constant" if repeats is None else repeats}'
        raise CannotConvert(node, found, supported=f"constant repeats of 1 or more, at most {_MOST_COPIES} copies")
    for axis, count in enumerate(repeats):
        value = _join(build, value, count, axis) if count > 1 else value
    return value if value != node.input(0) else str(build.Identity(value))


@says("Replaced repeats by one Tile for each axis")
def repeats_to_copies(node: Node) -> str:
    build, value, repeats = node.build, node.input(0), node.scope.ints(node.input(1))
    if repeats is not None:
        for axis, count in enumerate(repeats):
            value = _copy(node, value, count, axis)
        return value
    elem_type = node.elem_type()
    if elem_type not in COUNTS:
        raise CannotConvert(node, "repeats are dynamic", supported="constant repeats, or float data")
    for axis in range(node.rank()):
        count = build.Cast(build.Gather(node.input(1), axis), to=elem_type)
        value = build.Tile(value, count, build.constant(axis, elem_type))
    return value


def _copy(node: Node, value: str, count: int, axis: int) -> str:
    build, elem_type = node.build, node.elem_type()
    if count < 0:
        raise CannotConvert(node, f"Tile has the count {count} for axis {axis}", supported="0 or more")
    if count == 1:
        return value
    if count <= COUNTS.get(elem_type, -1):
        return str(build.Tile(value, build.constant(count, elem_type), build.constant(axis, elem_type)))
    if count == 0:
        return str(build.Slice(value, axes=[axis], starts=[0], ends=[0]))
    return _join(build, value, count, axis)


def _join(build: Builder, value: str, count: int, axis: int) -> str:
    """So many copies in a row; of more than `JOINED_AT_ONCE`, a half is made and doubled."""
    if count <= JOINED_AT_ONCE:
        return str(build.Concat(*[value] * count, axis=axis))
    half = _join(build, value, count // 2, axis)
    return str(build.Concat(half, half, *[value] * (count % 2), axis=axis))


defined("Tile", copies_side_by_side, opset=13)
changed("Tile", 6, Pair(up=copies_to_repeats, down=repeats_to_copies))
