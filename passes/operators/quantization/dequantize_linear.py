"""DequantizeLinear: scales came per axis and per block, types and their attributes came.

Going down, a node that uses what the older version lacks becomes its formula, computed in float32:

    dequantized = (x - zero_point) * scale
"""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.quantization import (
    FLOAT8,
    HALVES,
    RANGES,
    SCALE,
    ZERO,
    X,
    all_constants_in_carrier_types,
    cast_parameter,
    drop_axis_of_one_scale,
    in_blocks,
    scale_of_one_element,
    spread,
    widen,
)
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto


def _dequantize(node: Node) -> str:
    """(x - zero_point) * scale; the difference of integers in int32, where it cannot wrap."""
    build, x, elem_type, out = node.build, node.input(X), node.elem_type(X), node.elem_type(SCALE)
    if out in HALVES and elem_type in (T.INT16, T.UINT16, T.INT32):
        node.close("multiplied in float32 and rounded to the type of the scale")
    if node.input(ZERO):
        wide = T.INT32 if elem_type in (*RANGES, T.INT32) else T.FLOAT
        zero = spread(node, widen(node, node.input(ZERO), elem_type, wide))
        x, elem_type = build.Sub(widen(node, x, elem_type, wide), zero), wide
    scale = spread(node, widen(node, node.input(SCALE), out, T.FLOAT))
    return widen(node, build.Mul(widen(node, x, elem_type, T.FLOAT), scale), T.FLOAT, out)


@says("Replaced the attribute output_dtype by a Cast of the scale or of the result")
def output_type_of_the_scale(node: Node) -> Replacement:
    all_constants_in_carrier_types(node)
    wanted = node.attributes.pop("output_dtype", 0)
    if not wanted or wanted == (elem_type := node.elem_type(SCALE)):
        return None
    if elem_type != T.FLOAT:
        node.set_input(SCALE, node.build.Cast(node.input(SCALE), to=T.FLOAT))
    if wanted == T.FLOAT:
        return None
    node.close("multiplied in float32 and rounded to output_dtype")
    return str(node.build.Cast(node.build.again(node.proto, node.inputs), to=wanted))


@says("Stored constant float8e8m0 scales as float32")
def scale_of_powers_of_two(node: Node) -> None:
    if node.elem_type(SCALE) not in (T.FLOAT, *HALVES) and not node.attributes.get("output_dtype", 0):
        raise CannotConvert(
            node,
            "the scale has a type that the output cannot have, and output_dtype is missing",
            supported="output_dtype",
        )
    all_constants_in_carrier_types(node)


@says("Replaced DequantizeLinear by its formula for scales per block and for 16-bit integers")
def blocks_dequantized(node: Node) -> Replacement:
    all_constants_in_carrier_types(node)
    if in_blocks(node) or node.elem_type(X) in (T.INT16, T.UINT16):
        return _dequantize(node)
    node.attributes.pop("block_size", 0)
    return None


@says("Dequantized in float32, and cast to the type of the scale")
def dequantize_in_float(node: Node) -> Replacement:
    if node.elem_type(X) in FLOAT8:
        all_constants_in_carrier_types(node)
        return _dequantize(node)
    elem_type = node.elem_type(SCALE)
    if elem_type not in HALVES:
        return None
    if node.elem_type(X) == T.INT32:
        node.close("multiplied in float32 and rounded to the type of the scale")
    inputs = node.inputs
    inputs[SCALE] = node.build.Cast(inputs[SCALE], to=T.FLOAT)
    return str(node.build.Cast(node.build.again(node.proto, inputs), to=elem_type))


@says("Replaced DequantizeLinear with a scale for each axis by its formula")
def dequantized_per_axis(node: Node) -> Replacement:
    return None if drop_axis_of_one_scale(node) else _dequantize(node)


@says("Replaced DequantizeLinear by (x - zero_point) * scale, with the difference in int32")
def dequantize_by_arithmetic(node: Node) -> str:
    scale_of_one_element(node)
    build, x, zero = node.build, node.input(X), node.input(ZERO)
    if zero:
        x = build.Sub(build.Cast(x, to=T.INT32), build.Cast(zero, to=T.INT32))
    return str(build.Mul(build.Cast(x, to=T.FLOAT), node.input(SCALE)))


@says("Replaced DequantizeLinear by (x - zero_point) * scale in float32")
def scaled_difference(node: Node) -> str:
    """As `_dequantize`, of the newest version: Cast takes every type, and constants are written as they are used."""
    build, elem_type, of_scale = node.build, node.elem_type(X), node.elem_type(SCALE)
    out = node.attributes.get("output_dtype", 0) or of_scale
    if out in HALVES and elem_type in (T.INT16, T.UINT16, T.INT32):
        node.close("multiplied in float32 and rounded to the type of the scale")
    x, wide = node.input(X), T.INT32 if elem_type == T.INT32 else T.FLOAT
    if node.input(ZERO):
        x = build.Sub(recast(build, x, elem_type, wide), cast_parameter(node, ZERO, wide))
        elem_type = wide
    y = build.Mul(recast(build, x, elem_type, T.FLOAT), cast_parameter(node, SCALE, T.FLOAT))
    return recast(build, y, T.FLOAT, out)


changed("DequantizeLinear", 10, Pair(down=dequantize_by_arithmetic))
changed("DequantizeLinear", 13, Pair(up=scale_of_one_element, down=dequantized_per_axis))
changed("DequantizeLinear", 19, Pair(down=dequantize_in_float))
changed("DequantizeLinear", 21, Pair(down=blocks_dequantized))
changed("DequantizeLinear", 23, Pair(down=output_type_of_the_scale))
changed("DequantizeLinear", 24, Pair(down=scale_of_powers_of_two))
changed("DequantizeLinear", 25, Pair(down=all_constants_in_carrier_types))
changed("DequantizeLinear", 28, Pair(down=all_constants_in_carrier_types))
defined("DequantizeLinear", scaled_difference, opset=28)
