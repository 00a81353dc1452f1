"""FusedMatMul: a MatMul with transposed operands and a factor."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

_READ_AS_IT_LIES = (
    "transA=1 and B is a vector, where onnxruntime reads A as it lies in memory: neither A nor its transpose "
    "(3x3: 0.8 instead of -2.1)"
)


@says("MatMul of operands that are transposed first, times alpha.")
def product_of_transposed(node: Node) -> str:
    build, alpha = node.build, node.attributes.get("alpha", 1.0)
    if node.attributes.get("transA", 0) and node.rank(0) > 1 and node.rank(1) == 1:
        raise CannotConvert(node, _READ_AS_IT_LIES)
    product = build.MatMul(_transposed(node, 0, "A"), _transposed(node, 1, "B"))
    if alpha == 1.0:
        return str(product)
    node.close("the product is rounded before it is scaled")
    return str(build.Mul(product, build.constant(alpha, node.elem_type())))


def _transposed(node: Node, index: int, name: str) -> str:
    """The operand with its last two axes swapped, or its first axis moved in front of the last one, or both."""
    swapped, batch = (node.attributes.get(f"trans{part}{name}", 0) for part in ("", "Batch"))
    if not swapped and not batch:
        return node.input(index)
    rank = node.rank(index)
    if rank < 2:
        return node.input(index)
    axes = list(range(rank))
    if batch:
        axes = [*axes[1:-1], axes[0], axes[-1]]
    if swapped:
        axes[-2:] = axes[:-3:-1]
    return str(node.build.Transpose(node.input(index), perm=axes))


defined("FusedMatMul", product_of_transposed, opset=13, domain=MICROSOFT)
