"""Quantization before it had operators: the first versions of each, written in elementwise arithmetic.

QuantizeLinear and DequantizeLinear came at opset 10 with one scale, a scalar; DynamicQuantizeLinear at 11.
"""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.quantization.quantization import RANGES, SCALE, ZERO, X, scale_of_one_element
from opshift.passes.operators.shared.recipes import clipped, rounded_to_even
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto


@says("(x - zero_point) * scale in other operators; the difference in int32, where it cannot wrap.")
def dequantized_by_arithmetic(node: Node) -> str:
    scale_of_one_element(node)
    build, x, zero = node.build, node.input(X), node.input(ZERO)
    if zero:
        x = build.Sub(build.Cast(x, to=T.INT32), build.Cast(zero, to=T.INT32))
    return str(build.Mul(build.Cast(x, to=T.FLOAT), node.input(SCALE)))


@says("cast(clip(round(x / scale) + zero_point, lowest, highest)) in other operators.")
def quantized_by_arithmetic(node: Node) -> str:
    scale_of_one_element(node)
    build, x, zero = node.build, node.input(X), node.input(ZERO)
    if node.elem_type(X) == T.INT32:
        node.close("divided in float32")
        x = build.Cast(x, to=T.FLOAT)
    value = rounded_to_even(build, build.Div(x, node.input(SCALE)), T.FLOAT)
    if zero:
        value = build.Add(value, build.Cast(zero, to=T.FLOAT))
    kind = node.elem_type(ZERO) if zero else T.UINT8
    lowest, highest = RANGES[kind]
    return str(build.Cast(clipped(build, value, lowest, highest, T.FLOAT), to=kind))


@says("The range of x with 0 gives the scale and the zero point that QuantizeLinear takes.")
def quantized_in_steps(node: Node) -> list[str]:
    build, x = node.build, node.input(X)
    nought = build.constant(0.0, T.FLOAT)
    lowest = build.Min(build.ReduceMin(x, keepdims=0), nought)
    highest = build.Max(build.ReduceMax(x, keepdims=0), nought)
    scale = build.Div(build.Sub(highest, lowest), build.constant(255.0, T.FLOAT))
    flat = build.Cast(build.Not(build.Greater(scale, nought)), to=T.FLOAT)
    divisor = build.Add(scale, flat)  # where all of x is 0, so are zero point and y instead of 0 / 0
    zero = build.QuantizeLinear(build.Sub(nought, lowest), divisor)
    return [build.QuantizeLinear(x, divisor, zero), scale, zero]


changed("DequantizeLinear", 10, Pair(down=dequantized_by_arithmetic))
changed("QuantizeLinear", 10, Pair(down=quantized_by_arithmetic))
changed("DynamicQuantizeLinear", 11, Pair(down=quantized_in_steps))
defined("DynamicQuantizeLinear", quantized_in_steps, opset=13)
