"""LpNormalization, and its definition."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.operators.shared.carriers import bfloat16_in_float
from opshift.passes.operators.shared.recipes import recast, wider
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined
from opshift.passes.rewrite.says import says


@says("Replaced LpNormalization by x / norm, with 0 where the norm is 0")
def divide_by_norm(node: Node) -> str:
    power, build, elem_type = node.attributes.get("p", 2), node.build, node.elem_type()
    if power not in (1, 2):
        raise CannotConvert(node, f"p={power}", supported="1 and 2")
    node.close("the operator is computed from its definition")
    x = recast(build, node.input(0), elem_type, wider(elem_type))
    norm = build.emit(f"ReduceL{power}", [x], {"axes": [node.attributes.get("axis", -1)]})
    zero = build.constant(0.0, wider(elem_type))
    return recast(build, build.Where(build.Equal(norm, zero), zero, build.Div(x, norm)), wider(elem_type), elem_type)


changed("LpNormalization", 22, Pair(down=bfloat16_in_float))
defined("LpNormalization", divide_by_norm, opset=13)
