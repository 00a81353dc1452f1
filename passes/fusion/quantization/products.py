"""Operators on quantized values whose results are floats or integers themselves: products, and what moves numbers."""

from __future__ import annotations

from collections.abc import Mapping

from opshift.passes.fusion.quantization import requantized
from opshift.passes.fusion.quantization.blocks import weights
from opshift.passes.fusion.quantization.calls import (
    MIXED,
    FloatCall,
    IntegerOperands,
    Make,
    QuantizedKind,
    check_kernel,
    try_make,
)
from opshift.passes.fusion.quantization.convolutions import convolve
from opshift.passes.fusion.quantization.operands import FIRST, LAST, Operands, input_at, value_of
from opshift.passes.model.messages import TensorProto, normalize_domain
from opshift.passes.rewrite.builder import Builder

T = TensorProto


def with_or_without_bias(make: Make) -> list[QuantizedKind]:
    """The products that `make` makes, and their sums with a vector."""
    return [QuantizedKind("Add", _with_bias(make)), QuantizedKind("MatMul", make), QuantizedKind("Mul", make)]


def _with_bias(make: Make) -> Make:
    """The same of a sum with a vector."""

    def of_sum(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
        for product, bias in (call.inputs, call.inputs[::-1]):
            if product not in of.uses.makers or not of.alone(product) or of.scope.elem_type(bias) != T.FLOAT:
                continue
            at = of.uses.makers[product]
            node = of.scope.body.node[at]
            if normalize_domain(node.domain) or node.op_type not in ("MatMul", "Mul"):
                continue
            inner = FloatCall(node, list(node.input), [])
            made = try_make(make, of, build, inner, elem_type)
            if made is not None and _is_row(of, bias, made):
                call.inside.extend([at, *inner.inside])
                return IntegerOperands([*made.inputs, bias], {})
        return None

    return of_sum


def _is_row(of: Operands, bias: str, made: IntegerOperands) -> bool:
    """Whether a bias has one element for each column of the matrix."""
    matrix = of.scope.shape(made.inputs[1])
    return matrix is not None and len(matrix) == 2 and of.scope.shape(bias) == matrix[-1:]


def product_with_scales(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    """MatMulIntegerToFloat: the product of what is dequantized, or the product of integers times both scales."""
    if call.node.op_type == "MatMul":
        made = requantized.product(of, build, call, 0)
        if made is None:
            return None
        a, a_scale, a_zero, b, b_scale, b_zero = made.inputs
        return IntegerOperands([a, b, a_scale, b_scale, a_zero, b_zero], {})
    for product, scale in (call.inputs, call.inputs[::-1]):
        cast = of.maker_if(product, "Cast")
        node = of.maker_if(cast.input[0], "MatMulInteger") if cast is not None else None
        scales = _both(of, build, scale)
        if cast is None or node is None or scales is None or value_of(cast, "to", 0) != T.FLOAT:
            continue
        a, b, a_zero, b_zero = (input_at(node, index) for index in range(4))
        inner = [product, cast.input[0]]
        if not all(map(of.alone, inner)) or not of.is_one(a_zero):
            return None
        check_kernel(of, 0, a, b)
        call.inside.extend(of.uses.makers[name] for name in inner)
        return IntegerOperands([a, b, *scales, a_zero, b_zero], {})
    return None


def _both(of: Operands, build: Builder, name: str) -> list[str] | None:
    """The scale of the data and that of the weights, of which their product is known."""
    shape, made = of.scope.shape(name), of.maker_if(name, "Mul")
    if shape is None or len(shape) > 1 or of.scope.elem_type(name) != T.FLOAT:
        return None
    if made is not None and of.is_one(made.input[0]):
        return list(made.input)
    if made is not None and of.is_one(made.input[1]):
        return list(made.input)[::-1]
    return [build.constant(1.0, T.FLOAT), name]


def in_blocks(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    """MatMulNBits: a product with weights in blocks."""
    data = of.scope.elem_type(call.inputs[0])
    found = weights(of, build, call.inputs[1], data) if data in (T.FLOAT, T.FLOAT16) else None
    return None if found is None else IntegerOperands([call.inputs[0], *found[0]], found[1])


def in_blocks_with_bias(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    for product, bias in (call.inputs, call.inputs[::-1]):
        node = of.maker_if(product, "MatMul")
        made = in_blocks(of, build, FloatCall(node, list(node.input), []), elem_type) if node is not None else None
        if made is not None and of.alone(product) and of.scope.shape(bias) == [made.attributes["N"]]:
            call.inside.append(of.uses.makers[product])
            return IntegerOperands([*made.inputs, "", bias], made.attributes)
    return None


def dequantized_product(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    """A product of integers times both scales, as a product of what is dequantized."""
    for scaled, scale in (call.inputs, call.inputs[::-1]):
        cast = of.maker_if(scaled, "Cast")
        node = of.maker_if(cast.input[0], "MatMulInteger", "ConvInteger") if cast is not None else None
        scales = _both(of, build, scale)
        if cast is None or node is None or scales is None or value_of(cast, "to", 0) != T.FLOAT:
            continue
        inner = [scaled, cast.input[0]]
        zeros, matrix = (input_at(node, 2), input_at(node, 3)), node.op_type == "MatMulInteger"
        one = of.is_one(scales[1], zeros[1])
        if (
            not all(map(of.alone, inner))
            or not of.is_one(zeros[0])
            or of.scope.opset < (_WITH_SCALARS if one else _ALONG)
        ):
            return None
        if not one and (not matrix or (zeros[1] and of.scope.shape(scales[1]) != of.scope.shape(zeros[1]))):
            return None
        call.inside.extend(of.uses.makers[name] for name in inner)
        a = build.DequantizeLinear(node.input[0], *(_scalar(of, build, name) for name in (scales[0], zeros[0])))
        weights = [scales[1], zeros[1]] if not one else [_scalar(of, build, name) for name in (scales[1], zeros[1])]
        b = build.DequantizeLinear(node.input[1], *weights, axis=None if one else -1)
        attributes = {held.name: value_of(node, held.name, None) for held in node.attribute}
        return IntegerOperands([a, b], attributes, node.op_type.removesuffix("Integer"))
    return None


_WITH_SCALARS, _ALONG = 10, 13  # the opsets that DequantizeLinear came with, and its axis


def _scalar(of: Operands, build: Builder, name: str) -> str:
    return name if not name or of.scope.shape(name) == [] else str(build.Reshape(name, []))


def dynamic(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    """DynamicQuantizeMatMul: the same, of data that are quantized where they are."""
    inner = FloatCall(call.node, call.inputs, [])
    made = product_with_scales(of, build, inner, elem_type)
    if made is None:
        return None
    a, b, a_scale, b_scale, a_zero, b_zero = made.inputs
    node = of.maker_if(a, "DynamicQuantizeLinear")
    if node is None or [a, a_scale, a_zero] != list(node.output):
        return None
    call.inside.extend(inner.inside)
    return IntegerOperands([node.input[0], b, b_scale, b_zero], {})


def integers(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    """MatMulInteger: a product of int32 numbers that are 8 bits minus a zero point."""
    found = [of.wide(name, T.INT32) for name in call.inputs]
    if any(row is None or of.scope.elem_type(row[0]) not in MIXED for row in found):
        return None
    (a, a_zero), (b, b_zero) = (row for row in found if row is not None)
    return IntegerOperands([a, b, a_zero, b_zero], {}) if of.is_one(a_zero) else None


def sixteen_bits(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    found = [of.wide(name, T.INT32) for name in call.inputs]
    if any(row is None or row[1] or of.scope.elem_type(row[0]) != T.INT16 for row in found):
        return None
    return IntegerOperands([row[0] for row in found if row is not None], {})


def integer_convolution(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    """ConvInteger: convolutions of floats that are 8 bits minus a zero point, cast to int32."""
    found = convolve(of, call.node)
    if found is None or any(of.scope.elem_type(name) not in MIXED for name in found.inputs[:2]):
        return None
    if not of.is_one(found.inputs[2]):
        return None
    call.inside.extend(found.inside)
    return IntegerOperands(found.inputs, {a.name: value_of(found.conv, a.name, None) for a in found.conv.attribute})


def move_of_integers(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    """An operator that moves numbers, between a DequantizeLinear and a QuantizeLinear of the same scale."""
    node = of.maker_if(call.inputs[0], *MOVING)
    found = of.find_dequantized(node.input[0]) if node is not None else None
    if node is None or found is None or len(node.output) > 1 or not of.alone(call.inputs[0]):
        return None
    scale, zero, own = call.inputs[1], call.input(2), of.scope.elem_type(found.values)
    least = MOVING[node.op_type]
    if own not in MIXED or not zero or of.scope.elem_type(zero) != own or of.scope.opset < least:
        return None
    if not of.is_one(found.scale, scale) or not of.same(found.scale, scale) or not of.same(found.zero_point, zero):
        return None
    call.inside.append(of.uses.makers[call.inputs[0]])
    attributes = {a.name: value_of(node, a.name, None) for a in node.attribute}
    how = "moves quantized numbers without dequantizing them"
    return IntegerOperands([found.values, *node.input[1:]], attributes, node.op_type, how)


MOVING: Mapping[str, int] = {
    "MaxPool": 12,
    **dict.fromkeys(("Expand", "Flatten", "Gather", "Identity", "Reshape"), 10),
    **dict.fromkeys(("Slice", "Squeeze", "Tile", "Transpose", "Unsqueeze"), 10),
}
"""Operators whose results are some of the numbers of the first input, and since when they take 8 bits."""


def pool_with_channels_last(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    pool = of.maker_if(call.inputs[0], "MaxPool")
    x, turned = of.find_transposed(pool.input[0]) if pool is not None else ("", "")
    if pool is None or turned != FIRST or of.find_transposed(call.node.output[0])[1] != LAST or len(pool.output) > 1:
        return None
    if of.scope.elem_type(x) not in MIXED or not of.alone(call.inputs[0]) or value_of(pool, "storage_order", 0):
        return None
    call.inside.append(of.uses.makers[call.inputs[0]])
    return IntegerOperands(
        [x], {a.name: value_of(pool, a.name, None) for a in pool.attribute if a.name != "storage_order"}
    )
