"""Tile: from copies along one axis to repeats along all."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.protos import TensorProto, type_text
from opshift.passes.registry import Pair, changed
from opshift.passes.steps.tensor import INTEGERS_AS_DOUBLE
from opshift.passes.view import Node

T = TensorProto
# Tile 1 took its counts and its axis in the type of the data; up to here these types hold every integer.
COUNTS: dict[int, int] = {T.FLOAT16: 2**11, T.FLOAT: 2**24, T.DOUBLE: 2**53}


def copies_to_repeats(node: Node) -> None:
    """tiles copies were made along one axis; repeats counts them for every axis."""
    build, rank, held = node.build, node.rank(), node.scope.array(node.input(2))
    if held is None:
        raise CannotConvert(node, "the axis is known only at run time; a constant could be expressed")
    axis = int(held.reshape(-1)[0])
    if not 0 <= axis < rank:
        raise CannotConvert(node, f"axis {axis} lies outside rank {rank}")
    before, after = [1] * axis, [1] * (rank - axis - 1)
    tiles = node.scope.array(node.input(1))
    if tiles is not None:
        repeats = build.constant([*before, int(tiles.reshape(-1)[0]), *after], T.INT64)
    else:
        count = build.Reshape(build.Cast(node.input(1), to=T.INT64), [1])
        repeats = build.Concat(*filter(len, (before, count, after)), axis=0)
    node.inputs = [node.input(0), repeats]


def repeats_to_copies(node: Node) -> str:
    """repeats counted the copies along every axis; they are made along one axis after another."""
    build, own_type = node.build, node.elem_type()
    elem_type = INTEGERS_AS_DOUBLE.get(own_type, own_type)
    if elem_type not in COUNTS:
        kind = node.scope.type(node.input(0))
        raise CannotConvert(node, f"the data are {kind and type_text(kind)}; a float type could be expressed")
    value = node.input(0) if elem_type == own_type else build.Cast(node.input(0), to=elem_type)
    repeats = node.scope.ints(node.input(1))
    for axis in range(node.rank() if repeats is None else len(repeats)):
        if repeats is None:
            count = build.Cast(build.Gather(node.input(1), axis), to=elem_type)
        elif repeats[axis] != 1:
            count = _number(node, repeats[axis], elem_type)
        else:
            continue
        value = build.Tile(value, count, build.constant(axis, elem_type))
    return str(value if elem_type == own_type else build.Cast(value, to=own_type))


def _number(node: Node, count: int, elem_type: int) -> str:
    if count > COUNTS[elem_type]:
        raise CannotConvert(node, f"{count} copies cannot be counted in the type of the data")
    return node.build.constant(count, elem_type)


changed("Tile", 6, Pair(up=copies_to_repeats, down=repeats_to_copies))
