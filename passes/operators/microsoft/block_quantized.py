"""Gathers and products of integers, of codes of 4 bits and of 8-bit floats, in blocks that share a scale."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.model.types import element_name
from opshift.passes.operators.shared.dequantized import scalar
from opshift.passes.operators.shared.quantization import checked_bits, first_of, unpack
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.operators.shared.shapes import share_along
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
DATA, INDICES, SCALES, ZEROS = 0, 1, 2, 3  # inputs of GatherBlockQuantized
FP4 = (0, 0.005208333, 0.6666667, 1, 0.33333334, 0.5, 0.16666667, 0.25)
CODES = {  # quant_type of MatMulBnb4, and what its codes mean
    0: (*FP4, *(-value for value in FP4)),
    1: (
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
        *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
        *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ),
}


@says("Replaced GatherBlockQuantized by Gather of the integers, scales and zero points, and DequantizeLinear")
def gathered_and_dequantized(node: Node) -> str:
    build, rank, elem_type = node.build, node.rank(DATA), node.elem_type(DATA)
    gathered = node.attributes.get("gather_axis", 0) % rank
    quantized = node.attributes.get("quantize_axis", 1) % rank
    block = node.attributes.get("block_size", 128)
    if elem_type not in (T.UINT8, T.INT4, T.UINT4):
        raise CannotConvert(node, f"the data is {element_name(elem_type)}", supported="int4, uint4 or uint8")
    indices, inside = _indices(node, gathered)
    if elem_type == T.UINT8:
        if gathered:
            raise CannotConvert(
                node, f"onnxruntime's kernel does not support gather_axis={gathered} for uint8 data", supported="0"
            )
        single = rank + node.rank(INDICES) == 2  # of one row, a vector of one scale would be that of a whole tensor
        values, scales, zeros = _rows(node, build.Unsqueeze(indices, [0]) if single else indices)
        axis = quantized + (1 if single else node.rank(INDICES)) - 1 if quantized else 0
        y = build.DequantizeLinear(values, scales, zeros, axis=axis, block_size=block)
        y = build.Squeeze(y, [0]) if single else y
    else:  # of which there is no Gather
        y = build.DequantizeLinear(*_inputs(node), axis=quantized, block_size=block)
        y = build.Gather(y, indices, axis=gathered)
    if behind := rank - gathered - 1:
        first = node.rank(INDICES)
        inside = build.Unsqueeze(inside, list(range(first, first + behind)))
    return str(build.Where(inside, y, build.constant(0.0, node.elem_type(SCALES))))


def _inputs(node: Node) -> tuple[str, str, str]:
    return node.input(DATA), node.input(SCALES), node.input(ZEROS)


def _indices(node: Node, axis: int) -> tuple[str, str]:
    """The indices counted from the front, 0 for those outside the data, and which lie in it."""
    build, elem_type, dims = node.build, node.elem_type(INDICES), node.scope.shape(node.input(INDICES))
    given, size = recast(build, node.input(INDICES), elem_type, T.INT64), share_along(node, node.input(DATA), axis, 1)
    counted = build.Where(build.Less(given, 0), build.Add(given, size), given)
    inside = build.And(build.GreaterOrEqual(counted, 0), build.Less(counted, size))
    chosen = build.set_type(build.Where(inside, counted, 0), T.INT64, dims)
    return chosen, build.set_type(inside, T.BOOL, dims)


def _rows(node: Node, indices: str) -> tuple[str, str, str]:
    """Integers that lie in bytes on the last axis, their scales and zero points, the middle of the range by default."""
    build, bits = node.build, checked_bits(node)
    data, scales, zeros = (build.Gather(name, indices, axis=0) if name else "" for name in _inputs(node))
    if not zeros:
        zeros = build.Expand(build.constant(2 ** (bits - 1), T.UINT8), build.Shape(scales))
        zeros = build.set_type(zeros, T.UINT8, build.scope.shape(scales))
    elif bits < 8:
        zeros = first_of(build, unpack(build, zeros, bits), share_along(node, node.input(SCALES), -1, 1))
    return unpack(build, data, bits), scales, zeros


@says("Replaced MatMulBnb4 by Gather of the values of the 4-bit codes, Mul by the block scales, and MatMul")
def product_of_codes(node: Node) -> str:
    code = node.attributes["quant_type"]
    if code not in CODES:
        raise CannotConvert(node, f"quant_type={code}", supported="0 and 1")
    if not node.attributes.get("transB", 1):
        raise CannotConvert(node, "onnxruntime's CPU kernel computes wrong results for transB=0", supported="1")
    node.close("sums in another order")
    build, elem_type, block = node.build, node.elem_type(), node.attributes["block_size"]
    rows, columns = node.attributes["N"], node.attributes["K"]
    missing = -rows * columns % block
    shifts = build.BitShift(build.Unsqueeze(node.input(1), [1]), build.constant([4, 0], T.UINT8), direction="RIGHT")
    codes = build.Reshape(build.BitwiseAnd(shifts, build.constant(15, T.UINT8)), [-1])
    codes = first_of(build, codes, rows * columns) if rows * columns % 2 else codes
    codes = build.Pad(codes, [0, missing]) if missing else codes
    meant = build.Gather(build.constant(np.array(CODES[code]), elem_type), build.Cast(codes, to=T.INT32), axis=0)
    scaled = build.Mul(build.Reshape(meant, [-1, block]), build.Reshape(node.input(2), [-1, 1]))
    if missing:
        scaled = first_of(build, build.Reshape(scaled, [-1]), rows * columns)
    weights = build.Transpose(build.Reshape(scaled, [rows, columns]), perm=[1, 0])
    return str(build.MatMul(node.input(0), weights))


@says("Replaced MatMulBlockQuantizedFp8Weight by DequantizeLinear of the weights and MatMul in float32")
def product_of_eight_bit_floats(node: Node) -> str:
    node.close("multiplied in float32")
    build, elem_type, block = node.build, node.elem_type(), node.attributes.get("block_size", 128)
    weights = build.DequantizeLinear(node.input(1), node.input(2), axis=1, block_size=block)
    a = build.Cast(node.input(0), to=T.FLOAT)
    if node.input(3):
        scale = scalar(node, 3)
        a = build.DequantizeLinear(build.QuantizeLinear(a, scale, output_dtype=T.FLOAT8E4M3FN), scale)
    product = build.MatMul(a, build.Transpose(weights, perm=[1, 0]))
    if node.input(4):
        product = build.Add(product, build.Cast(node.input(4), to=T.FLOAT))
    return str(build.Cast(product, to=elem_type))


defined("MatMulBlockQuantizedFp8Weight", product_of_eight_bit_floats, opset=21, domain=MICROSOFT)
defined("GatherBlockQuantized", gathered_and_dequantized, opset=21, domain=MICROSOFT)
defined("MatMulBnb4", product_of_codes, opset=21, domain=MICROSOFT)
