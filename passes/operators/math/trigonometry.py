"""Trigonometric functions, which opset 7 brought."""

from __future__ import annotations

from opshift.passes.operators.shared.carriers import ROUNDED
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import cannot, changed, defined
from opshift.passes.rewrite.says import says


@says("Replaced Tan by Sin(x) / Cos(x)")
def sine_over_cosine(node: Node) -> str:
    node.close("the sine and the cosine are rounded before they are divided")
    return str(node.build.Div(node.build.Sin(node.input(0)), node.build.Cos(node.input(0))))


FUNCTIONS = ["Acos", "Asin", "Atan", "Cos", "Sin", "Tan"]

cannot(FUNCTIONS, 7, "opset 6 has no trigonometric function to make it of")
changed(FUNCTIONS, 22, ROUNDED)
defined("Tan", sine_over_cosine, opset=13)
