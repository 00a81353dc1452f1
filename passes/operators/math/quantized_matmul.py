"""MatMulInteger and QLinearMatMul: 8-bit integers become int32, which MatMul takes; other types came (21)."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.dequantized import ROUNDS, dequantize_along, is_one, quantize, scalar
from opshift.passes.operators.shared.recipes import carrier_casts, saturate_to_bytes
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
FLOAT8 = (T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ)
HALF: dict[int, int] = {T.FLOAT16: T.FLOAT, T.BFLOAT16: T.FLOAT}


@says("Replaced MatMulInteger by subtracting zero points and MatMul in int32")
def product_of_integers(node: Node) -> str:
    a, b = _without_zero_point(node, 0, 2, rows=True), _without_zero_point(node, 1, 3, rows=False)
    return str(node.build.MatMul(a, b))


@says("Replaced QLinearMatMul by an integer product that is scaled, rounded and clipped")
def product_of_quantized(node: Node) -> str:
    node.close("brought to the scale of y in float32")
    build = node.build
    a, b = _without_zero_point(node, 0, 2, rows=True), _without_zero_point(node, 3, 5, rows=False)
    scales = build.Mul(_over_product(node, 0, 3), _over_product(node, 3, 0))
    ratio = build.Mul(build.Cast(build.MatMul(a, b), to=T.FLOAT), build.Div(scales, _of_product(node, 6)))
    return saturate_to_bytes(build, ratio, build.Cast(_of_product(node, 7), to=T.FLOAT), node.elem_type(7))


@says("Replaced QLinearMatMul by DequantizeLinear, MatMul and QuantizeLinear")
def product_of_dequantized(node: Node) -> str:
    if node.elem_type(1) != T.FLOAT or not is_one(node.scope.shape(node.input(6))):
        return product_of_quantized(node)
    node.close(ROUNDS)
    a, b = dequantize_along(node, 0, 1, 2, -2), dequantize_along(node, 3, 4, 5, -1)
    return quantize(node, node.build.MatMul(a, b), 6, node.elem_type(7))


def _without_zero_point(node: Node, index: int, zero_point: int, *, rows: bool) -> str:
    build = node.build
    value = build.Cast(node.input(index), to=T.INT32)
    if not node.input(zero_point):
        return str(value)
    moved = _row_by_row(node, zero_point, index) if rows else node.input(zero_point)
    return str(build.Sub(value, build.Cast(moved, to=T.INT32)))


def _over_product(node: Node, factor: int, other: int) -> str:
    """The scale of a factor, without the axis that the product lacks where the other factor is a vector."""
    scale, rows = factor + 1, factor < other
    if is_one(node.scope.shape(node.input(scale))):
        return _of_product(node, scale)
    if node.rank(other) > 1:
        return _row_by_row(node, scale, factor) if rows else node.input(scale)
    if node.rank(factor) == 1:
        return scalar(node, scale)
    name, rank, build = node.input(scale), node.rank(scale), node.build
    if rank == 1:
        return name
    axes = [rank - (1 if rows else 2)]
    return str(build.Squeeze(name, axes=axes) if build.opset < 13 else build.Squeeze(name, axes))


def _of_product(node: Node, index: int) -> str:
    """A number for the whole product, which has no axis where both factors are vectors."""
    shapes = (node.scope.shape(node.input(factor)) for factor in (0, 3))
    return node.input(index) if any(dims is not None and len(dims) > 1 for dims in shapes) else scalar(node, index)


def _row_by_row(node: Node, index: int, matrix: int) -> str:
    """A vector with one number for each row of the matrix, as a column."""
    dims = node.scope.shape(node.input(index))
    if dims in ([], [1]) or node.rank(index) != 1 or node.rank(matrix) == 1:
        return node.input(index)
    return str(node.build.Reshape(node.input(index), [-1, 1]))


@says("Cast 16-bit scales to float32; dequantized 8-bit floats before multiplying them")
def quantized_product(node: Node) -> Replacement:
    elem_types = [node.scope.elem_type(node.input(index)) for index in (0, 3, 7)]
    if not set(elem_types) & set(FLOAT8):
        return carrier_casts(HALF, why="the product is requantized with scales in float", variable="TS")(node)
    node.close("8-bit floats are dequantized, multiplied and quantized again")
    build = node.build
    a, b = (
        build.DequantizeLinear(node.input(at), _per_tensor(node, at + 1), _per_tensor(node, at + 2)) for at in (0, 3)
    )
    return str(build.QuantizeLinear(build.MatMul(a, b), _per_tensor(node, 6), _per_tensor(node, 7)))


def _per_tensor(node: Node, index: int) -> str:
    name = node.input(index)
    dims = node.scope.shape(name)
    if dims == []:
        return name
    if dims != [1]:
        raise CannotConvert(node, f'"{name}" has a scale for each row or column of 8-bit floats', supported="one scale")
    return str(node.build.Reshape(name, []))


changed("MatMulInteger", 10, Pair(down=product_of_integers))
changed("QLinearMatMul", 10, Pair(down=product_of_quantized))
changed("QLinearMatMul", 21, Pair(down=quantized_product))
defined("QLinearMatMul", product_of_dequantized, opset=13)
