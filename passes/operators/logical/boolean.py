"""And, Or, Xor and Not: 0 and 1 as int32 on request, where anything but 0 is true again."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.broadcast import LEGACY
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
_ARITHMETIC = {"And": "Mul", "Or": "Add", "Xor": "Sub"}


@says("Replaced Not by 1 - x")
def one_minus_truth(node: Node) -> str:
    build = node.build
    return str(build.Cast(build.Sub(build.constant(1, T.INT32), build.Cast(node.input(0), to=T.INT32)), to=T.BOOL))


@says("Replaced And, Or and Xor by arithmetic on 0 and 1")
def arithmetic_of_truths(node: Node) -> str:
    build = node.build
    numbers = [build.Cast(name, to=T.INT32) for name in node.inputs]
    return str(build.Cast(build.emit(_ARITHMETIC[node.op_type], numbers), to=T.BOOL))


changed(["And", "Or", "Xor"], 7, LEGACY)
defined("Not", one_minus_truth, opset=13)
defined(["And", "Or", "Xor"], arithmetic_of_truths, opset=13)
