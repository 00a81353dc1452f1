"""Quantization before it existed: the formulas, in float32."""

from __future__ import annotations

from opshift.passes.protos import TensorProto
from opshift.passes.registry import Pair, changed
from opshift.passes.steps._recipes import rounded_to_even, saturated
from opshift.passes.view import Node

T = TensorProto


def quantized_by_formula(node: Node) -> str:
    """QuantizeLinear becomes cast(clip(round(x / scale) + zero_point))."""
    build, kind = node.build, node.elem_type(2) if node.input(2) else T.UINT8
    x = node.input(0) if node.elem_type() == T.FLOAT else build.Cast(node.input(0), to=T.FLOAT)
    zero_point = build.Cast(node.input(2), to=T.FLOAT) if node.input(2) else ""
    return saturated(build, build.Div(x, node.input(1)), zero_point, kind)


def dequantized_by_formula(node: Node) -> str:
    """DequantizeLinear becomes (x - zero_point) * scale, the difference taken in int32."""
    build = node.build
    x, zero_point = (
        name if not name or node.elem_type(index) == T.INT32 else build.Cast(name, to=T.INT32)
        for index, name in ((0, node.input(0)), (2, node.input(2)))
    )
    moved = build.Sub(x, zero_point) if zero_point else x
    return str(build.Mul(build.Cast(moved, to=T.FLOAT), node.input(1)))


def quantized_by_range(node: Node) -> list[str]:
    """DynamicQuantizeLinear becomes QuantizeLinear with the scale and zero point of the range of x and 0."""
    build, x = node.build, node.input(0)
    zero, highest = build.constant(0.0, T.FLOAT), build.constant(255.0, T.FLOAT)
    low = build.Min(build.ReduceMin(x, keepdims=0), zero)
    high = build.Max(build.ReduceMax(x, keepdims=0), zero)
    scale = build.Div(build.Sub(high, low), highest)
    place = build.Clip(build.Div(build.Sub(zero, low), scale), min=0.0, max=255.0)
    zero_point = build.Cast(rounded_to_even(build, place, T.FLOAT), to=T.UINT8)
    return [build.QuantizeLinear(x, scale, zero_point), scale, zero_point]


changed("QuantizeLinear", 10, Pair(down=quantized_by_formula))
changed("DequantizeLinear", 10, Pair(down=dequantized_by_formula))
changed("DynamicQuantizeLinear", 11, Pair(down=quantized_by_range))
