"""MatMulNBits, alone and with what is fused around it: DequantizeLinear-21 of weights that lie as 4-bit integers
already, and a MatMul.

A row of B holds what makes one output, in blocks that share a scale. The default zero point is the middle of the range.
"""

from __future__ import annotations

from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import NodeProto, TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.quantization import checked_bits, first_of, unpack
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
WEIGHTS, SCALES, ZEROS, GROUPS, BIAS = 1, 2, 3, 4, 5  # inputs


@says("Replaced MatMulNBits by DequantizeLinear of the weights and MatMul")
def product_of_dequantized(node: Node) -> str:
    if node.attributes.get("weight_prepacked", 0):
        raise CannotConvert(
            node, "weight_prepacked=1 means that the weights are laid out for a GPU kernel", supported="0"
        )
    if node.input(GROUPS) and node.input(ZEROS):
        raise CannotConvert(
            node,
            "g_idx and zero_points are both given, and onnxruntime ignores zero_points then",
            supported="one of them",
        )
    if node.input(GROUPS) and checked_bits(node) != 4:
        raise CannotConvert(
            node, f"onnxruntime computes wrong results for g_idx with bits={checked_bits(node)}", supported="bits=4"
        )
    if 0 in (node.scope.shape(node.input(WEIGHTS)) or ()):
        return _of_no_weights(node)
    node.close("sums in another order")
    build, blocks = node.build, -(-node.attributes["K"] // node.attributes["block_size"])
    scales = _by_rows(node, SCALES, blocks)
    by_float = node.input(ZEROS) and node.elem_type(ZEROS) != T.UINT8
    weights = _by_formula(node, scales, blocks) if by_float or node.input(GROUPS) else _in_blocks(node, scales, blocks)
    product = build.MatMul(node.input(0), build.Transpose(weights, perm=[1, 0]))
    return str(build.Add(product, node.input(BIAS)) if node.input(BIAS) else product)


def _of_no_weights(node: Node) -> str:
    """Zeros: a product is left out where its weights have no element."""
    build, elem_type = node.build, node.elem_type()
    shape = build.Concat(build.Shape(node.input(0), end=-1), [node.attributes["N"]], axis=0)
    nothing = build.Expand(build.constant(0.0, elem_type), shape)
    return str(build.Add(nothing, node.input(BIAS)) if node.input(BIAS) else nothing)


def _by_rows(node: Node, index: int, blocks: int) -> str:
    """What is told of each block, which may lie in one row."""
    shape = [node.attributes["N"], blocks]
    held = node.input(index)
    return held if node.scope.shape(held) == shape else str(node.build.Reshape(held, shape))


def _in_blocks(node: Node, scales: str, blocks: int) -> str:
    build, block, size = node.build, node.attributes["block_size"], node.attributes["K"]
    values, elem_type = _integers(node, blocks * block)
    dequantized = build.DequantizeLinear(values, scales, _zeros(node, blocks, elem_type), axis=1, block_size=block)
    return first_of(build, dequantized, size) if size < blocks * block else dequantized


def _integers(node: Node, width: int) -> tuple[str, int]:
    """The weights as a row of integers for each output, and their type."""
    build, bits, rows, zeros = node.build, checked_bits(node), node.attributes["N"], node.input(ZEROS)
    if bits == 4 and (not zeros or node.scope.is_constant(zeros)):
        held = node.scope.relabel_constant(node.input(WEIGHTS), T.UINT4, [rows, width])
        if held is not None:
            return held, T.UINT4
    bytes_of_rows = build.Reshape(node.input(WEIGHTS), [rows, width * bits // 8])
    return unpack(build, bytes_of_rows, bits), T.UINT8


def _zeros(node: Node, blocks: int, elem_type: int) -> str:
    """One zero point for each block, of the type that the weights have."""
    build, bits, rows = node.build, checked_bits(node), node.attributes["N"]
    if not node.input(ZEROS):
        return build.constant(np.full((rows, blocks), 2 ** (bits - 1)), elem_type)
    if elem_type == T.UINT4:
        held = None if blocks % 2 else node.scope.relabel_constant(node.input(ZEROS), elem_type, [rows, blocks])
        return held or build.constant(_nibbles(node.scope.array(node.input(ZEROS)), rows, blocks), elem_type)
    apart = unpack(build, build.Reshape(node.input(ZEROS), [rows, -(-blocks * bits // 8)]), bits)
    return first_of(build, apart, blocks) if blocks * bits % 8 else apart


def _nibbles(held: np.ndarray[Any, Any] | None, rows: int, count: int) -> np.ndarray[Any, Any]:
    assert held is not None, "it is a constant"
    held = held.reshape(rows, -1)
    return np.stack([held & 15, held >> 4], axis=-1).reshape(rows, -1)[:, :count]


def _by_formula(node: Node, scales: str, blocks: int) -> str:
    """(q - zero point) * scale with zero points that are floats, or scales that are chosen by g_idx."""
    build, elem_type, block, size = node.build, node.elem_type(), node.attributes["block_size"], node.attributes["K"]
    values, of = _integers(node, blocks * block)
    one = build.constant(1.0, elem_type)
    if node.input(ZEROS):
        zeros = _by_rows(node, ZEROS, blocks)
    else:
        zeros = build.constant(np.full((node.attributes["N"], blocks), 2 ** (checked_bits(node) - 1)), elem_type)
    values = build.DequantizeLinear(values, one) if of == T.UINT4 else build.Cast(values, to=elem_type)
    values = first_of(build, values, size) if size < blocks * block else values
    group = node.input(GROUPS) or build.constant(np.arange(size) // block, T.INT32)
    group = group if node.scope.shape(group) == [size] else build.Slice(group, [0], [size], [0])
    zeros, scales = (build.Gather(each, group, axis=1) for each in (zeros, scales))
    return str(build.Mul(build.Sub(values, zeros), scales))


_HAS_RMS = 23  # the opset that RMSNormalization came with


@says("Replaced MatMulNBitsQkv by RMSNormalization of A + skip, DequantizeLinear and three MatMul")
def three_products(node: Node) -> list[str]:
    normal, total = _normalize(node)
    widths = [node.attributes[name] for name in ("Nq", "Nkv", "Nkv")]
    made = [_product(node, normal, at, width) for at, width in zip((3, 6, 9), widths, strict=True)]
    return [*made, total][: len(node.outputs)]


@says("Replaced MatMulNBitsMlp by RMSNormalization of A + skip, two MatMul, the activation and Mul")
def gated_products(node: Node) -> list[str]:
    if (name := node.attributes["activation"]) not in ("silu", "swish"):
        raise CannotConvert(
            node, f"the documentation of the operator does not define activation={name!r}", supported="silu"
        )
    build, (normal, total) = node.build, _normalize(node)
    gate, up = (_product(node, normal, at, node.attributes["N"]) for at in (3, 6))
    return [build.Mul(build.Mul(gate, build.Sigmoid(gate)), up), total][: len(node.outputs)]


@says("Replaced MatMulNBitsQLoRA by MatMulNBits plus the low-rank adapter")
def sum_of_products(node: Node) -> str:
    build, rank = node.build, (node.scope.shape(node.input(4)) or [None])[0]
    if any(node.scope.shape(node.input(index)) is None for index in (3, 5)) or not isinstance(rank, int):
        raise CannotConvert(node, "the shape of a low-rank adapter is unknown", supported="a static shape")
    product = _product(node, node.input(0), 1, node.attributes["N"], bias=False)
    if 0 in (node.scope.shape(node.input(5)) or ()):
        return product
    adapter = {"bits": node.attributes.get("lora_bits", 8), "block_size": node.attributes.get("lora_block_size", 32)}
    down = _product(node, node.input(0), 3, rank, bias=False, **adapter)
    return str(build.Add(product, _product(node, down, 5, node.attributes["N"], bias=False, K=rank, **adapter)))


def _normalize(node: Node) -> tuple[str, str]:
    """What is multiplied, and the sum that it was made of."""
    build, total = node.build, node.input(0)
    total = build.Add(total, node.input(1)) if node.input(1) else total
    if not node.input(2):
        return total, total
    return build.RMSNormalization(total, node.input(2), epsilon=node.attributes.get("epsilon", 1e-5)), total


def _product(node: Node, a: str, at: int, width: int, *, bias: bool = True, **others: int) -> str:
    """MatMulNBits of a value with the weights, scales and, if there is one, bias in a row of inputs."""
    inputs = [a, *node.inputs[at : at + 2], "", "", node.input(at + 2) if bias else ""]
    call = NodeProto(op_type="MatMulNBits", domain=MICROSOFT, input=inputs, output=node.outputs)
    values = {"N": width, "K": node.attributes["K"], "block_size": node.attributes.get("block_size", 32)}
    values |= {"bits": node.attributes.get("bits", 4), **others}
    call.attribute.extend(make_attribute(name, value) for name, value in values.items())
    part = Node(call, node.scope, node.opset, node.build)
    product = product_of_dequantized(part)
    node.grade, node.remarks = part.grade, list(dict.fromkeys([*node.remarks, *part.remarks]))
    return product


defined("MatMulNBits", product_of_dequantized, opset=21, domain=MICROSOFT)
defined("MatMulNBitsQkv", three_products, opset=_HAS_RMS, domain=MICROSOFT)
defined("MatMulNBitsQLoRA", sum_of_products, opset=21, domain=MICROSOFT)
defined("MatMulNBitsMlp", gated_products, opset=_HAS_RMS, domain=MICROSOFT)
