"""What stages share that store values of one type in another: constants in attributes, and the low bits of integers."""

from __future__ import annotations

from typing import Protocol

from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node


class Retyping(Protocol):
    """Stores tensors of some types in others."""

    def retype_tensor(self, tensor: TensorProto, name: str) -> bool:
        """Store a tensor in another type; False if it needs no change. `name` is told where that cannot be."""
        ...


def retype_constants(node: Node, question: Node, model: Retyping) -> None:
    """Store the tensors in a node's attributes in other types."""
    for attribute in node.proto.attribute:
        for tensor in (attribute.t, attribute.sparse_tensor.values):
            node.touched |= model.retype_tensor(tensor, node.name)


def keep_low_bits(build: Builder, x: str, lowest: int, highest: int, elem_type: int) -> str:
    """Wrap integers of `elem_type` around at the ends of a narrower type: (x + offset) mod size - offset.

    An integer that overflowed wrapped by a multiple of the size.
    """
    offset, size = (build.constant(number, elem_type) for number in (-lowest, highest - lowest + 1))
    if not lowest:
        return str(build.Mod(x, size))
    return str(build.Sub(build.Mod(build.Add(x, offset), size), offset))
