"""Integers of 2, 4 or 8 bits that lie in bytes, the first in the lowest bits, and blocks of them that share a scale."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.rewrite.node import Node

T = TensorProto
SIGNED = (T.INT4, T.INT8)


def checked_bits(node: Node, default: int = 4) -> int:
    """How many bits an integer has."""
    bits = int(node.attributes.get("bits", default))
    if bits not in (2, 4, 8):
        raise CannotConvert(node, f"bits={bits}; 2, 4 and 8 could be expressed")
    return bits


def unpacked(node: Node, data: str, bits: int) -> str:
    """Bytes as integers of uint8, those of one byte side by side on the last axis."""
    build = node.build
    if bits == 8:
        return data
    shifts = build.constant(list(range(0, 8, bits)), T.UINT8)
    moved = build.BitShift(build.Unsqueeze(data, [-1]), shifts, direction="RIGHT")
    apart = build.BitwiseAnd(moved, build.constant(2**bits - 1, T.UINT8))
    lead = build.Shape(data, end=-1)
    return str(build.Reshape(apart, build.Concat(lead, [-1], axis=0)))


def first(node: Node, values: str, count: flat_indices.Size, axis: int = -1) -> str:
    """The first so many on the last axis: rows of integers are padded to whole bytes."""
    build = node.build
    return str(build.Slice(values, [0], flat_indices.vector(build, [count]), [axis]))
