"""MatMulNBits: a product with weights of 4 or 8 bits, in blocks that share a scale, as DequantizeLinear-21 has them."""

from __future__ import annotations

from typing import Any

from opshift.passes.fusion.quantization.operands import Operands, input_at, value_of
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import NodeProto, TensorProto
from opshift.passes.rewrite.builder import Builder

T = TensorProto
Array = Any
_BITS: dict[int, int] = {T.UINT4: 4, T.INT4: 4, T.UINT8: 8, T.INT8: 8}
_SIGNED = (T.INT4, T.INT8)
_LEAST = 16
"""The size of the smallest blocks that the kernel knows; all are powers of 2."""


def weights(of: Operands, build: Builder, name: str, elem_type: int) -> tuple[list[str], dict[str, int]] | None:
    """The bytes of a matrix of weights, its scales and zero points, as MatMulNBits reads them, and its attributes."""
    turned = of.maker_if(name, "Transpose")
    node = of.maker_if(turned.input[0] if turned is not None else name, "DequantizeLinear")
    if node is None or (turned is not None and list(value_of(turned, "perm", (1, 0))) != [1, 0]):
        return None
    rows_last = turned is None  # else a row holds what makes one output
    block, axis = value_of(node, "block_size", 0), value_of(node, "axis", 1)
    held, scales, zeros = (of.scope.shape(part) if part else None for part in (*node.input[:2], input_at(node, 2)))
    of_values = of.scope.elem_type(node.input[0])
    if held is None or len(held) != 2 or scales is None or len(scales) != 2 or block < _LEAST or block & (block - 1):
        return None
    if of_values not in _BITS or of.scope.elem_type(node.input[1]) != elem_type or axis % 2 != (0 if rows_last else 1):
        return None
    if "output_dtype" in {a.name for a in node.attribute} or not of.scope.is_constant(node.input[0]):
        return None
    if input_at(node, 2) and (zeros != scales or not of.scope.is_constant(node.input[2])):
        return None
    size, rows = held if rows_last else held[::-1]
    if not isinstance(size, int) or not isinstance(rows, int):
        return None
    found = _pack(of, build, node, size, rows, rows_last=rows_last)
    return None if found is None else (found, {"K": size, "N": rows, "bits": _BITS[of_values], "block_size": block})


def _pack(of: Operands, build: Builder, node: NodeProto, size: int, rows: int, *, rows_last: bool) -> list[str] | None:
    """Three inputs of MatMulNBits; bytes that lie as they must are not read."""
    elem_type, block = of.scope.elem_type(node.input[0]), value_of(node, "block_size", 0)
    blocks, bits = -(-size // block), _BITS[elem_type]
    bytes_ = None
    if not rows_last and elem_type not in _SIGNED and size % block == 0:
        bytes_ = of.scope.relabel_constant(node.input[0], T.UINT8, [rows, blocks, block * bits // 8])
    if bytes_ is None:
        values = _to_unsigned(of, node.input[0], elem_type, rows_last=rows_last)
        if values is None:
            return None
        values = np.pad(values, ((0, 0), (0, blocks * block - size)))
        bytes_ = build.constant(_bytes(values, bits).reshape(rows, blocks, -1), T.UINT8)
    scales = node.input[1]
    if rows_last:
        held, own = of.scope.array(scales), of.scope.elem_type(scales)
        scales = build.Transpose(scales, perm=[1, 0]) if held is None else build.constant(held.T, own)
    zeros = _to_unsigned(of, input_at(node, 2), elem_type, rows_last=rows_last) if input_at(node, 2) else None
    if zeros is None:
        zeros = np.full((rows, blocks), 2 ** (bits - 1) if elem_type in _SIGNED else 0, np.uint8)
    if (zeros == 2 ** (bits - 1)).all():  # which is what is meant without any
        return [bytes_, scales, ""]
    if zeros.shape[1] * bits % 8:
        zeros = np.pad(zeros, ((0, 0), (0, 1)))
    return [bytes_, scales, build.constant(_bytes(zeros, bits), T.UINT8)]


def _to_unsigned(of: Operands, name: str, elem_type: int, *, rows_last: bool) -> Array | None:
    """Integers counted from the least one of their type, a row for each output."""
    held = of.scope.array(name)
    if held is None:
        return None
    held = held.astype(np.int16) + (2 ** (_BITS[elem_type] - 1) if elem_type in _SIGNED else 0)
    return (held.T if rows_last else held).astype(np.uint8)


def _bytes(values: Array, bits: int) -> Array:
    """Two integers of 4 bits in each byte, the first one in its lower half."""
    return values if bits == 8 else values[:, 0::2] | values[:, 1::2] << 4
