"""Tile: from copies along one axis to repeats along all."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.passes.errors import CannotConvert
from opshift.passes.protos import TensorProto
from opshift.passes.registry import Pair, changed
from opshift.passes.view import Node

T = TensorProto
COUNTS: dict[int, Any] = {T.FLOAT16: np.float16, T.FLOAT: np.float32, T.DOUBLE: np.float64}
"""Tile 1 counted in the type of the data."""


def copies_to_repeats(node: Node) -> None:
    """tiles copies were made along one axis; repeats counts them for every axis."""
    build, rank, held = node.build, node.rank(), node.scope.array(node.input(2))
    if held is None:
        raise CannotConvert(node, "the axis is known only at run time; a constant could be expressed")
    axis = int(held.reshape(-1)[0])
    if not 0 <= axis < rank:
        raise CannotConvert(node, f"axis {axis} lies outside rank {rank}")
    tiles = node.scope.array(node.input(1))
    if tiles is not None:
        count = int(tiles.reshape(-1)[0])
        node.inputs = [node.input(0), build.constant([1] * axis + [count] + [1] * (rank - axis - 1), T.INT64)]
        return
    count = build.Reshape(build.Cast(node.input(1), to=T.INT64), [1])
    others = [[1] * axis, count, [1] * (rank - axis - 1)]
    node.inputs = [node.input(0), build.Concat(*filter(len, others), axis=0)]


def repeats_to_copies(node: Node) -> str:
    """repeats counted the copies along every axis; they are made along one axis after another."""
    build, value, elem_type = node.build, node.input(0), node.elem_type()
    repeats = node.scope.ints(node.input(1))
    counts: list[int | str] = []
    if repeats is not None:
        counts += repeats
    else:
        counts += [build.Gather(node.input(1), axis) for axis in range(node.rank())]
    for axis, count in enumerate(counts):
        if count == 1:
            continue
        if elem_type in COUNTS:
            value = build.Tile(value, _number(node, count, elem_type), build.constant(axis, elem_type))
        elif isinstance(count, str) or not count:
            raise CannotConvert(
                node, "repeats are 0 or known only at run time; constants of a float type could be expressed"
            )
        else:
            value = build.Concat(*[value] * count, axis=axis)
    return value


def _number(node: Node, count: int | str, elem_type: int) -> str:
    if isinstance(count, str):
        return str(node.build.Cast(count, to=elem_type))
    if COUNTS[elem_type](count) != count:
        raise CannotConvert(node, f"{count} copies cannot be counted in the type of the data")
    return node.build.constant(count, elem_type)


changed("Tile", 6, Pair(up=copies_to_repeats, down=repeats_to_copies))
