"""Sum and Mean of any number of operands: broadcasting came (8)."""

from __future__ import annotations

from functools import reduce

from opshift.passes.operators.shared.broadcast import of_one_shape
from opshift.passes.operators.shared.recipes import without_hint
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says


@says("Replaced Sum or Mean by Adds of two operands at a time, as older versions do not broadcast")
def folded_sum(node: Node) -> Replacement:
    if of_one_shape(node):
        return None
    build, (total, *others) = node.build, node.inputs
    if len(others) > 1:
        node.close("adds from the left")
    for other in others:
        total = build.Add(total, other)
    if node.op_type == "Sum":
        return str(total)
    node.close("divides the sum by the number of operands")
    return str(build.Div(total, build.constant(len(node.inputs), node.elem_type())))


@says("Replaced Sum by Add")
def add_in_turn(node: Node) -> str:
    if len(node.inputs) > 2:
        node.close("sums in a fixed order")
    return _one_by_one(node, list(node.inputs))


@says("Replaced Mean by Sum and Div")
def sum_over_count(node: Node) -> str:
    node.close("sums in a fixed order, and rounds before dividing")
    total = _one_by_one(node, list(node.inputs))
    return str(node.build.Div(total, node.build.constant(len(node.inputs), node.elem_type())))


def _one_by_one(node: Node, names: list[str]) -> str:
    return reduce(lambda a, b: str(node.build.Add(a, b)), names)


changed(["Mean", "Sum"], 6, Pair(up=without_hint))
changed(["Mean", "Sum"], 8, Pair(down=folded_sum))
defined("Sum", add_in_turn, opset=13)
defined("Mean", sum_over_count, opset=13)
