"""MatMul, which took no integers before 9."""

from __future__ import annotations

from opshift.passes.operators.shared.products import INTEGERS, summed_products
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says


@says("Replaced MatMul of integers by Mul with broadcasting and ReduceSum")
def product_of_integers(node: Node) -> Replacement:
    if node.elem_type() not in INTEGERS:
        return None
    return summed_products(node.build, node.input(0), node.input(1), node.rank(0), node.rank(1))


changed("MatMul", 9, Pair(down=product_of_integers))
