"""Identity, which took no sequence, and what yields the same where a backend lacks it."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import elem_type_of
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced Identity of a sequence by inserting and erasing an element")
def copy_sequence(node: Node) -> Replacement:
    if node.scope.elem_type(node.input(0)):
        return None
    value_type = node.scope.type(node.input(0))
    if value_type is None:
        raise node.unknown("type", node.input(0))
    if value_type.WhichOneof("value") == "tensor_type":
        return None
    elem_type = elem_type_of(value_type.sequence_type.elem_type)
    if not elem_type:
        raise CannotConvert(
            node, "the input of Identity is not a tensor", supported="a tensor, or a sequence of tensors"
        )
    element = node.build.constant("" if elem_type == T.STRING else 0, elem_type)
    return str(node.build.SequenceErase(node.build.SequenceInsert(node.input(0), element)))


@says("Replaced Identity by Concat of one tensor, or by Reshape to the same shape")
def joined_alone(node: Node) -> str:
    x, build = node.input(0), node.build
    elem_type, rank = node.scope.elem_type(x), node.scope.rank(x)
    if not elem_type:
        raise CannotConvert(node, f'"{x}" is not known to be a tensor', fix="a value_info that declares it")
    if rank:
        return str(build.Concat(x, axis=0))
    return str(build.Reshape(x, build.constant([], T.INT64) if rank == 0 else build.Shape(x)))


defined("Identity", joined_alone, opset=14)
changed("Identity", 14, Pair(down=copy_sequence))
