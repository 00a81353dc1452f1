"""DynamicQuantizeLinear, which opset 11 brought."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.quantization import X
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced DynamicQuantizeLinear by ReduceMin, ReduceMax, arithmetic and QuantizeLinear")
def quantize_in_steps(node: Node) -> list[str]:
    build, x = node.build, node.input(X)
    nought = build.constant(0.0, T.FLOAT)
    lowest = build.Min(build.ReduceMin(x, keepdims=0), nought)
    highest = build.Max(build.ReduceMax(x, keepdims=0), nought)
    scale = build.Div(build.Sub(highest, lowest), build.constant(255.0, T.FLOAT))
    flat = build.Cast(build.Not(build.Greater(scale, nought)), to=T.FLOAT)
    divisor = build.Add(scale, flat)  # where all of x is 0, so are zero point and y instead of 0 / 0
    zero = build.QuantizeLinear(build.Sub(nought, lowest), divisor)
    return [build.QuantizeLinear(x, divisor, zero), scale, zero]


changed("DynamicQuantizeLinear", 11, Pair(down=quantize_in_steps))
defined("DynamicQuantizeLinear", quantize_in_steps, opset=13)
