"""EmbedLayerNormalization and TorchEmbedding: rows that are looked up, added and normalized."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.recipes import recast, wider
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto


@says("LayerNormalization of the sum of the rows that words, positions and segments name; the mask is counted.")
def normalized_rows(node: Node) -> list[str]:
    node.close("the kernel computes the variance in another order")
    build, kind = node.build, node.elem_type(2)
    wide = wider(kind)
    ids, positions = node.input(0), node.input(8)
    words = _rows(node, 2, ids)
    if positions:
        total = build.Add(words, _rows(node, 3, positions))
    else:
        length = build.Shape(ids, start=1, end=2)
        first = build.Slice(node.input(3), [0], length, [0])
        total = build.Add(words, recast(build, first, kind, wide))
    if node.input(4):
        first_alone = recast(build, build.Slice(node.input(4), [0], [1], [0]), kind, wide)
        total = build.Add(total, _rows(node, 4, node.input(1)) if node.input(1) else first_alone)
    gamma, beta = (recast(build, node.input(index), kind, wide) for index in (5, 6))
    epsilon = node.attributes.get("epsilon", 1e-12)
    normal = build.LayerNormalization(total, gamma, beta, axis=-1, epsilon=epsilon)
    results = [recast(build, normal, wide, kind), _counted(node) if node.is_used(1) else ""]
    results.append(recast(build, total, wide, kind) if node.is_used(2) else "")
    return results[: len(node.outputs)]


def _rows(node: Node, index: int, ids: str) -> str:
    kind = node.elem_type(2)
    return recast(node.build, node.build.Gather(node.input(index), ids), kind, wider(kind))


def _counted(node: Node) -> str:
    """How many elements of each row of the mask are 1; 0 for each row of ids without a mask."""
    build, mask = node.build, node.input(7)
    if not mask:
        rows = build.Shape(node.input(0), start=0, end=1)
        return str(build.Expand(build.constant(0, T.INT32), rows))
    ones = build.Cast(build.Equal(mask, build.constant(1, T.INT32)), to=T.INT32)
    return str(build.ReduceSum(ones, [1], keepdims=0))


@says("Gather; padding_idx and scale_grad_by_freq are about gradients.")
def looked_up(node: Node) -> str:
    return str(node.build.Gather(node.input(0), node.input(1)))


defined("EmbedLayerNormalization", normalized_rows, opset=17, domain=MICROSOFT)
defined("TorchEmbedding", looked_up, opset=13, domain=MICROSOFT)
