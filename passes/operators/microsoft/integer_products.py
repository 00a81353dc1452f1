"""Products and sums of quantized numbers: floats between DequantizeLinear and QuantizeLinear, or wider integers."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.dequantized import (
    ROUNDS,
    dequantize,
    dequantize_along,
    in_int32,
    is_one,
    product_of_scales,
    quantize,
    scalar,
)
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced QGemm by DequantizeLinear, Gemm, and QuantizeLinear if y has a scale")
def gemm_of_dequantized(node: Node) -> str:
    if bool(node.input(7)) != bool(node.input(8)):
        raise CannotConvert(node, "only one of y_scale and y_zero_point is given", supported="both or neither")
    node.close(ROUNDS)
    build, alpha, turned = node.build, node.attributes.get("alpha", 1.0), node.attributes.get("transB", 0)
    operands = [dequantize(node, 0), dequantize_along(node, 3, 4, 5, -2 if turned else -1)]
    operands += [_addend(node, alpha)] if node.input(6) else []
    own = {name: node.attributes.get(name) for name in ("alpha", "transA", "transB")}
    y = build.emit("Gemm", operands, own)
    return quantize(node, y, 7, node.elem_type(0)) if node.input(7) else str(y)


def _addend(node: Node, alpha: float) -> str:
    """C, which is held in the scale of the products."""
    build, one = node.build, is_one(node.scope.shape(node.input(4)))
    scale = product_of_scales(node, scalar(node, 1), scalar(node, 4) if one else node.input(4), factor=alpha)
    dims, columns = node.scope.shape(node.input(6)), node.scope.shape(scale)
    if one or (dims and columns is not None and len(columns) == 1 and dims[-1] == columns[0]):
        return str(build.DequantizeLinear(node.input(6), scale, axis=None if one else -1))
    return str(build.Mul(build.Cast(node.input(6), to=T.FLOAT), scale))


@says("Replaced MatMulIntegerToFloat by DequantizeLinear, MatMul and Add of the bias")
def product_of_dequantized(node: Node) -> str:
    node.close(ROUNDS)
    build = node.build
    a = dequantize(node, 0, scale=2, zero=4)
    return _with_bias(node, build.MatMul(a, dequantize_along(node, 1, 3, 5, -1)), 3, 6)


@says("Replaced DynamicQuantizeMatMul by DynamicQuantizeLinear, DequantizeLinear, MatMul and Add of the bias")
def product_of_quantized(node: Node) -> str:
    node.close(ROUNDS)
    build = node.build
    a = build.DequantizeLinear(*build.emit("DynamicQuantizeLinear", [node.input(0)], outputs=3))
    return _with_bias(node, build.MatMul(a, dequantize_along(node, 1, 2, 3, -1)), 2, 4)


def _with_bias(node: Node, y: str, scale: int, bias: int) -> str:
    """Plus the bias, which the kernel scales, too, where scales of columns do not lie as the matrices of B do."""
    if not node.input(bias):
        return y
    of = node.scope.shape(node.input(scale))
    if not is_one(of):
        b, ranks = node.scope.shape(node.input(1)), (node.rank(scale), node.rank(1))
        apart = [
            m for m, n in zip(of or (), b or (), strict=False) if isinstance(m, int) and isinstance(n, int) and m != n
        ]
        if ranks != (1, 2) and (ranks[0] != ranks[1] or len(apart) > 1):
            raise CannotConvert(
                node,
                f"there is a bias, and the scales of shape {of} do not have one scale for each column of B, "
                f"which has shape {b}",
                supported="one scale for each column of a matrix",
            )
    return str(node.build.Add(y, node.input(bias)))


@says("Replaced MatMulInteger16 by MatMul of int32")
def product_of_integers(node: Node) -> str:
    return str(node.build.MatMul(in_int32(node, 0), in_int32(node, 1)))


@says("Replaced MulInteger by Mul of int32, with zero points subtracted")
def elementwise_product(node: Node) -> str:
    build = node.build
    a, b = in_int32(node, 0), in_int32(node, 2)
    a = build.Sub(a, build.Cast(scalar(node, 1), to=T.INT32)) if node.input(1) else a
    b = build.Sub(b, build.Cast(scalar(node, 3), to=T.INT32)) if node.input(3) else b
    return str(build.Mul(a, b))


@says("Replaced ReduceSumInteger by ReduceSum of int32")
def sum_of_integers(node: Node) -> str:
    build, axes = node.build, list(node.attributes.get("axes", []))
    total = build.ReduceSum(in_int32(node, 0), axes or None, keepdims=node.attributes.get("keepdims", 1))
    unsigned = node.scope.elem_type(node.outputs[0]) == T.UINT32
    return recast(build, total, T.INT32, T.UINT32 if unsigned else T.INT32)


defined("QGemm", gemm_of_dequantized, opset=13, domain=MICROSOFT)
defined("MatMulIntegerToFloat", product_of_dequantized, opset=19, domain=MICROSOFT)
defined("DynamicQuantizeMatMul", product_of_quantized, opset=13, domain=MICROSOFT)
defined("MatMulInteger16", product_of_integers, opset=13, domain=MICROSOFT)
defined("MulInteger", elementwise_product, opset=13, domain=MICROSOFT)
defined("ReduceSumInteger", sum_of_integers, opset=13, domain=MICROSOFT)
