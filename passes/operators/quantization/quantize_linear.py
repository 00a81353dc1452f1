"""QuantizeLinear: scales came per axis and per block, types and their attributes came.

Going down, a node that uses what the older version lacks becomes its formula, computed in float32:

    quantized = cast(clip(round(x / scale) + zero_point, lowest, highest))
"""

from __future__ import annotations

from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model import schemas
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import ELEMENT_TYPES, element_name, plain_type
from opshift.passes.operators.shared.quantization import (
    HALVES,
    RANGES,
    SCALE,
    ZERO,
    X,
    cast_parameter,
    constants_in_carrier_types,
    drop_axis_of_one_scale,
    in_blocks,
    scale_of_one_element,
    spell,
    spread,
    widen,
)
from opshift.passes.operators.shared.recipes import clip, recast, round_to_even
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
NARROW = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}
LIMITS = {ELEMENT_TYPES[f"tensor({name})"]: ends for name, ends in NARROW.items() if f"tensor({name})" in ELEMENT_TYPES}
LIMITS |= RANGES


def _quantize(node: Node, elem_type: int) -> str:
    """cast(clip(round(x / scale) + zero_point, lowest, highest)); Round takes halves to even numbers, too."""
    build, value = node.build, node.build.Round(_ratio(node))
    if node.input(ZERO):
        value = build.Add(value, spread(node, build.Cast(node.input(ZERO), to=T.FLOAT)))
    lowest, highest = (build.constant(float(limit), T.FLOAT) for limit in RANGES[elem_type])
    return str(build.Cast(build.Clip(value, lowest, highest), to=elem_type))


def _ratio(node: Node) -> str:
    """x / scale in float32."""
    if node.elem_type(X) != T.FLOAT:
        node.close("divided in float32")
    x, scale = (widen(node, node.input(index), node.elem_type(index), T.FLOAT) for index in (X, SCALE))
    return str(node.build.Div(x, spread(node, scale)))


def _output_type(node: Node) -> int:
    """The type of the zero point, or output_dtype, or uint8; refused where the older version lacks it."""
    kind = node.attributes.get("output_dtype", 0)
    if node.input(ZERO):
        kind = node.elem_type(ZERO)
    older = schemas.schema("", node.op_type, node.build.opset)
    formal = older and older.output(0)
    if kind and formal and spell(kind) not in formal.types:
        raise CannotConvert(
            node, f"the output is {element_name(kind)}", supported=", ".join(sorted(map(plain_type, formal.types)))
        )
    return int(kind or T.UINT8)


@says("Kept QuantizeLinear, as the older opset has its output type")
def older_output_type(node: Node) -> None:
    _output_type(node)


@says("Cast x and scale to the type that precision names, or to the type of the scale")
def divide_in_one_type(node: Node) -> None:
    _output_type(node)
    precision = node.attributes.pop("precision", 0) or node.elem_type(SCALE)
    if precision not in (T.FLOAT, T.FLOAT16, T.BFLOAT16, T.INT32):
        raise CannotConvert(node, f"precision is {element_name(precision)}", supported="float32, float16 and bfloat16")
    for index in (X, SCALE):
        elem_type = node.elem_type(index)
        if elem_type != precision:
            node.set_input(index, widen(node, node.input(index), elem_type, precision))


@says("Replaced QuantizeLinear by its formula for blocks and 16-bit integers; moved output_dtype to the zero point")
def blocks_quantized(node: Node) -> Replacement:
    elem_type, blocked = _type_or_wider(node), in_blocks(node)
    if elem_type in (T.INT16, T.UINT16) or (blocked and elem_type in RANGES):
        return _quantize(node, elem_type)
    if blocked:
        return _float8_blocks(node, elem_type)
    node.attributes.pop("block_size", 0)
    node.attributes.pop("output_dtype", 0)
    if not node.input(ZERO) and elem_type != T.UINT8:
        node.set_input(ZERO, _zeros(node, elem_type))
    return None


def _type_or_wider(node: Node) -> int:
    """16-bit integers can be cast to; any other output type must be one that the older version has."""
    named = node.elem_type(ZERO) if node.input(ZERO) else node.attributes.get("output_dtype", 0)
    return named if named in (T.INT16, T.UINT16) else _output_type(node)


def _float8_blocks(node: Node, elem_type: int) -> str:
    """Divided by the repeated scales first, then quantized with the scale 1, which saturates as before."""
    zero = node.scope.array(node.input(ZERO)) if node.input(ZERO) else None
    if node.input(ZERO) and (zero is None or zero.astype("float32").any()):
        raise CannotConvert(
            node, "QuantizeLinear to float8 in blocks has a zero point", supported="a zero point that is constant 0"
        )
    scalars = [node.build.constant(1.0, T.FLOAT), node.build.constant(0.0, elem_type)]
    inputs = [_ratio(node), *scalars]
    return str(node.build.again(node.proto, inputs, axis=None, block_size=None, output_dtype=None))


def _zeros(node: Node, elem_type: int) -> str:
    """Zero points in the shape of the scale."""
    build, dims = node.build, node.scope.shape(node.input(SCALE))
    if dims is None or any(not isinstance(dim, int) for dim in dims):
        return str(build.Cast(build.ConstantOfShape(build.Shape(node.input(SCALE))), to=elem_type))
    sizes = [dim for dim in dims if isinstance(dim, int)]
    return str(build.constant(T(data_type=elem_type, dims=sizes, raw_data=bytes(prod(sizes)))))


@says("Cast x and scale to float32, and dropped the attribute saturate")
def quantize_from_float(node: Node) -> None:
    _output_type(node)
    elem_type = node.elem_type(SCALE)
    if elem_type != T.FLOAT:
        node.close("divided in float32")
        node.set_input(SCALE, node.build.Cast(node.input(SCALE), to=T.FLOAT))
        if elem_type in HALVES:
            node.set_input(X, node.build.Cast(node.input(X), to=T.FLOAT))
    node.attributes.pop("saturate", 1)


@says("Cast int32 x to float32, the type of the scale")
def integers_as_float(node: Node) -> None:
    elem_type = node.scope.elem_type(node.input(X))
    if elem_type != T.FLOAT:  # what is unknown may be float32, which the cast leaves as it is
        node.close("divided in float32")
        node.set_input(X, node.build.Cast(node.input(X), to=T.FLOAT))


@says("Replaced QuantizeLinear with a scale for each axis by its formula")
def quantized_per_axis(node: Node) -> Replacement:
    return None if drop_axis_of_one_scale(node) else _quantize(node, _output_type(node))


@says("Replaced QuantizeLinear by Cast(Clip(Round(x / scale) + zero_point))")
def quantize_by_arithmetic(node: Node) -> str:
    scale_of_one_element(node)
    build, x, zero = node.build, node.input(X), node.input(ZERO)
    if node.elem_type(X) == T.INT32:
        node.close("divided in float32")
        x = build.Cast(x, to=T.FLOAT)
    value = round_to_even(build, build.Div(x, node.input(SCALE)), T.FLOAT)
    if zero:
        value = build.Add(value, build.Cast(zero, to=T.FLOAT))
    elem_type = node.elem_type(ZERO) if zero else T.UINT8
    lowest, highest = RANGES[elem_type]
    return str(build.Cast(clip(build, value, lowest, highest, T.FLOAT), to=elem_type))


@says("Replaced QuantizeLinear by saturate(round(x / scale) + zero_point)")
def rounded_quotient(node: Node) -> str:
    build, of_scale = node.build, node.elem_type(SCALE)
    elem_type = node.elem_type(ZERO) if node.input(ZERO) else node.attributes.get("output_dtype", 0) or T.UINT8
    precision = node.attributes.get("precision", 0) or (of_scale if of_scale in HALVES else T.FLOAT)
    if precision not in (T.FLOAT, *HALVES):
        raise CannotConvert(node, f"precision is {element_name(precision)}", supported="float32, float16 and bfloat16")
    x = recast(build, node.input(X), node.elem_type(X), precision)
    value = recast(build, build.Div(x, cast_parameter(node, SCALE, precision)), precision, T.FLOAT)
    if elem_type not in LIMITS:
        if _shifts(node):  # a zero point of the run time that is 0 leaves -0.0 what it is
            value = build.Sub(value, build.Sub(build.constant(0.0, T.FLOAT), cast_parameter(node, ZERO, T.FLOAT)))
        return str(build.Cast(value, to=elem_type, saturate=node.attributes.get("saturate")))
    value = build.Round(value)
    value = build.Add(value, cast_parameter(node, ZERO, T.FLOAT)) if _shifts(node) else value
    lowest, highest = (build.constant(float(limit), T.FLOAT) for limit in LIMITS[elem_type])
    return str(build.Cast(build.Clip(value, lowest, highest), to=elem_type))


def _shifts(node: Node) -> bool:
    """Whether there is a zero point that may be another than 0."""
    held = node.scope.array(node.input(ZERO)) if node.input(ZERO) else None
    return bool(node.input(ZERO)) and (held is None or bool(held.astype("float32").any()))


changed("QuantizeLinear", 10, Pair(down=quantize_by_arithmetic))
changed("QuantizeLinear", 13, Pair(up=scale_of_one_element, down=quantized_per_axis))
changed("QuantizeLinear", 19, Pair(up=integers_as_float, down=quantize_from_float))
changed("QuantizeLinear", 21, Pair(down=blocks_quantized))
changed("QuantizeLinear", 23, Pair(down=divide_in_one_type))
changed("QuantizeLinear", 24, Pair(down=constants_in_carrier_types))
changed("QuantizeLinear", 25, Pair(down=older_output_type))
changed("QuantizeLinear", 28, Pair(down=older_output_type))
defined("QuantizeLinear", rounded_quotient, opset=28)
