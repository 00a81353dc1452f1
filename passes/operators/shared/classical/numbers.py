"""What operators of ai.onnx.ml that work on numbers have in common."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node

T = TensorProto


def rows_as(node: Node, elem_type: int) -> str:
    """The rows of features in an element type; one alone becomes a matrix."""
    rank, x = node.scope.rank(node.input(0)), node.input(0)
    if rank not in (None, 1, 2):
        raise CannotConvert(
            node, f"{node.op_type} gets features of rank {rank}", supported="a matrix of rows, or one row"
        )
    if rank == 1:
        x = node.build.Reshape(x, [1, -1])
    return recast(node.build, x, node.elem_type(), elem_type)


def width(node: Node) -> int | None:
    """The number of features, where it is known."""
    return node.scope.size(node.input(0), -1) if node.scope.rank(node.input(0)) else None


def wide_of(node: Node) -> int:
    """The type to compute in: double for double, float32 for others."""
    return T.DOUBLE if node.elem_type() == T.DOUBLE else T.FLOAT
