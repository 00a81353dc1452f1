"""EmbedLayerNormalization, of integers as well, and TorchEmbedding: rows that are looked up, added and normalized."""

from __future__ import annotations

from collections.abc import Callable

from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.dequantized import scalar
from opshift.passes.operators.shared.recipes import recast, wider
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced EmbedLayerNormalization by Gather of the embeddings, Add and LayerNormalization")
def normalized_rows(node: Node) -> list[str]:
    elem_type = node.elem_type(2)
    wide = wider(elem_type)
    normal, counted, total = _normalize(node, lambda x, _: recast(node.build, x, elem_type, wide), node.input(8))
    summed = recast(node.build, total, wide, elem_type) if node.is_used(2) else ""
    return [recast(node.build, normal, wide, elem_type), counted, summed][: len(node.outputs)]


@says(
    "Replaced QEmbedLayerNormalization by Gather of the quantized embeddings, DequantizeLinear, "
    "Add and LayerNormalization"
)
def normalized_rows_of_integers(node: Node) -> list[str]:
    def dequantize_at(x: str, index: int) -> str:
        scale, zero = (scalar(node, index + behind) for behind in (6, 11))
        return str(node.build.DequantizeLinear(x, scale, zero))

    return list(_normalize(node, dequantize_at, "")[:2])


def _normalize(node: Node, held: Callable[[str, int], str], positions: str) -> tuple[str, str, str]:
    """The normalized sum, the count of the mask, and the sum; what is `held` at an index is read as floats by it."""
    node.close("the kernel computes the variance in another order")
    build, ids = node.build, node.input(0)

    def rows(index: int, chosen: str) -> str:
        return held(build.Gather(node.input(index), chosen), index)

    words = rows(2, ids)
    if positions:
        total = build.Add(words, rows(3, positions))
    else:
        length = build.Shape(ids, start=1, end=2)
        total = build.Add(words, held(build.Slice(node.input(3), [0], length, [0]), 3))
    if node.input(4):
        first = "" if node.input(1) else build.Slice(node.input(4), [0], [1], [0])
        total = build.Add(total, held(first, 4) if first else rows(4, node.input(1)))
    gamma, beta = (held(node.input(index), index) for index in (5, 6))
    epsilon = node.attributes.get("epsilon", 1e-12)
    normal = build.LayerNormalization(total, gamma, beta, axis=-1, epsilon=epsilon)
    return normal, _count(node) if node.is_used(1) else "", total


def _count(node: Node) -> str:
    """How many elements of each row of the mask are 1; 0 for each row of ids without a mask."""
    build, mask = node.build, node.input(7)
    if not mask:
        rows = build.Shape(node.input(0), start=0, end=1)
        return str(build.Expand(build.constant(0, T.INT32), rows))
    ones = build.Cast(build.Equal(mask, build.constant(1, T.INT32)), to=T.INT32)
    return str(build.ReduceSum(ones, [1], keepdims=0))


@says("Replaced TorchEmbedding by Gather")
def rows_by_gather(node: Node) -> str:
    return str(node.build.Gather(node.input(0), node.input(1)))


defined("EmbedLayerNormalization", normalized_rows, opset=17, domain=MICROSOFT)
defined("QEmbedLayerNormalization", normalized_rows_of_integers, opset=17, domain=MICROSOFT)
defined("TorchEmbedding", rows_by_gather, opset=13, domain=MICROSOFT)
