"""Elementwise operators that a backend may lack though they have always been there."""

from __future__ import annotations

from functools import reduce

from opshift.passes.operators.shared.recipes import mirrored
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says


@says("Abs becomes x where it is positive, else 0 - x, which is 0 for either zero.")
def subtracted_where_not_positive(node: Node) -> str:
    build, x = node.build, node.input(0)
    zero = build.constant(0, node.elem_type())
    return str(build.Where(build.Greater(x, zero), x, build.Sub(zero, x)))


@says("Neg becomes a product with -1.")
def times_minus_one(node: Node) -> str:
    return str(node.build.Mul(node.input(0), node.build.constant(-1, node.elem_type())))


@says("Ceil becomes -Floor(-x).")
def negated_floor(node: Node) -> str:
    build = node.build
    return str(build.Neg(build.Floor(build.Neg(node.input(0)))))


@says("Reciprocal becomes 1 / x.")
def one_divided(node: Node) -> str:
    return str(node.build.Div(node.build.constant(1, node.elem_type()), node.input(0)))


@says("Tan becomes Sin(x) / Cos(x).")
def sine_over_cosine(node: Node) -> str:
    node.close("the sine and the cosine are rounded before they are divided")
    return str(node.build.Div(node.build.Sin(node.input(0)), node.build.Cos(node.input(0))))


@says("Sum becomes additions of two operands, from the first on.")
def added_in_turn(node: Node) -> str:
    if len(node.inputs) > 2:
        node.close("the order of the additions is fixed")
    return _one_by_one(node, "Add", list(node.inputs))


@says("Mean becomes a sum, divided by the number of operands.")
def sum_over_count(node: Node) -> str:
    node.close("the order of the additions is fixed, and the sum is rounded before it is divided")
    total = _one_by_one(node, "Add", list(node.inputs))
    return str(node.build.Div(total, node.build.constant(len(node.inputs), node.elem_type())))


@says("Min becomes a maximum of negated operands; of integers, which may have no negative, of -1 - x.")
def mirrored_maximum(node: Node) -> str:
    build, kind = node.build, node.elem_type()
    return mirrored(build, str(build.emit("Max", [mirrored(build, name, kind) for name in node.inputs])), kind)


def _one_by_one(node: Node, op: str, names: list[str]) -> str:
    return reduce(lambda a, b: str(node.build.emit(op, [a, b])), names)


defined("Abs", subtracted_where_not_positive, opset=16)
defined("Neg", times_minus_one, opset=14)
defined("Ceil", negated_floor, opset=13)
defined("Reciprocal", one_divided, opset=13)
defined("Tan", sine_over_cosine, opset=13)
defined("Sum", added_in_turn, opset=13)
defined("Mean", sum_over_count, opset=13)
defined("Min", mirrored_maximum, opset=14)
