"""IsNaN before it existed, and its definition."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import FLOAT8, carrier_casts, recast, wider
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced IsNaN by Less and Greater")
def neither_less_nor_greater(node: Node) -> str:
    build, x, elem_type = node.build, node.input(0), node.elem_type()
    if elem_type == T.FLOAT16:
        x, elem_type = build.Cast(x, to=T.FLOAT), T.FLOAT
    high, low = (build.constant(limit, elem_type) for limit in (float("inf"), float("-inf")))
    return str(build.Not(build.Or(build.Less(x, high), build.Greater(x, low))))


@says("Replaced IsNaN by Not(x <= infinity)")
def not_at_most_infinite(node: Node) -> str:
    """Not by x == x: MNN 3.6 takes NaN for equal to NaN."""
    elem_type = node.elem_type()
    x = recast(node.build, node.input(0), elem_type, wider(elem_type))
    infinity = node.build.constant(float("inf"), wider(elem_type))
    return str(node.build.Not(node.build.LessOrEqual(x, infinity)))


changed("IsNaN", 9, Pair(down=neither_less_nor_greater))
changed("IsNaN", 20, Pair(down=carrier_casts(FLOAT8, variable="T1")))
defined("IsNaN", not_at_most_infinite, opset=13)
