"""Sum and Mean of any number of operands: broadcasting came (8)."""

from __future__ import annotations

from functools import reduce

from opshift.passes.operators.shared.broadcast import of_one_shape
from opshift.passes.operators.shared.recipes import without_hint
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says


@says("Operands had to be of one shape: those of different shapes are added one after another.")
def folded_sum(node: Node) -> Replacement:
    if of_one_shape(node):
        return None
    build, (total, *others) = node.build, node.inputs
    if len(others) > 1:
        node.close("the operands are added from the left")
    for other in others:
        total = build.Add(total, other)
    if node.op_type == "Sum":
        return str(total)
    node.close("a sum divided by the number of operands")
    return str(build.Div(total, build.constant(len(node.inputs), node.elem_type())))


@says("Sum becomes additions of two operands, from the first on.")
def added_in_turn(node: Node) -> str:
    if len(node.inputs) > 2:
        node.close("the order of the additions is fixed")
    return _one_by_one(node, list(node.inputs))


@says("Mean becomes a sum, divided by the number of operands.")
def sum_over_count(node: Node) -> str:
    node.close("the order of the additions is fixed, and the sum is rounded before it is divided")
    total = _one_by_one(node, list(node.inputs))
    return str(node.build.Div(total, node.build.constant(len(node.inputs), node.elem_type())))


def _one_by_one(node: Node, names: list[str]) -> str:
    return reduce(lambda a, b: str(node.build.Add(a, b)), names)


changed(["Mean", "Sum"], 6, Pair(up=without_hint))
changed(["Mean", "Sum"], 8, Pair(down=folded_sum))
defined("Sum", added_in_turn, opset=13)
defined("Mean", sum_over_count, opset=13)
