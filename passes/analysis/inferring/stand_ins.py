"""Stand-ins for vendor operators: nodes of ONNX with the same output types, which onnx can infer."""

from __future__ import annotations

from collections.abc import Mapping

from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import NodeProto, TypeProto
from opshift.passes.model.schemas import MICROSOFT

OPSET = 22
"""The opset of the stand-ins."""

_AS_INPUT = {
    **dict.fromkeys(
        ["BiasAdd", "BiasDropout", "BiasGelu", "BiasSoftmax", "BranchwiseRMSNorm", "FastGelu", "Gelu"], (0,)
    ),
    **dict.fromkeys(["GatedAdd", "GatedRMSNorm", "GroupNorm", "Inverse", "QuickGelu", "ScaledSiLU", "Trilu"], (0,)),
    **dict.fromkeys(["BitmaskBiasDropout", "BitmaskDropout", "RotaryEmbedding"], (0,)),
    "SkipGroupNorm": (0, 1),
    "SkipLayerNormalization": (0, 3),
    "SkipSimplifiedLayerNormalization": (0, 3),
}
"""Operators with outputs of the type and shape of their first input, and the places of these outputs."""

_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_RENAMED = {
    "FusedConv": ("Conv", 2, _CONV),
    "FusedGemm": ("Gemm", 2, ("transA", "transB")),
    "GemmFastGelu": ("MatMul", 2, ()),
}
"""Operators that compute the shape of an ONNX operator, with the number of inputs and the attributes to keep."""

RECURRENT = "DynamicQuantizeLSTM"
_PRODUCTS = ("FusedMatMul", "FusedMatMulActivation", "TransposeMatMul")


def stand_ins(node: NodeProto, types: Mapping[str, TypeProto]) -> list[NodeProto]:
    """Make the stand-ins of a node, which compute its outputs by name; an empty list for unknown operators."""
    if node.domain != MICROSOFT:
        return []
    op = node.op_type
    if op in _AS_INPUT:
        asked = [node.output[i] for i in _AS_INPUT[op] if i < len(node.output) and node.output[i]]
        return [NodeProto(op_type="Identity", input=node.input[:1], output=[name]) for name in asked]
    if op in _RENAMED:
        name, inputs, attributes = _RENAMED[op]
        kept = [a for a in node.attribute if a.name in attributes]
        return [NodeProto(op_type=name, input=node.input[:inputs], output=node.output[:1], attribute=kept)]
    if op == RECURRENT:
        return [_recurrent(node)]
    return _product(node, types) if op in _PRODUCTS else []


def stand_for_recurrent(node: NodeProto) -> None:
    """Replace a DynamicQuantizeLSTM by a stand-in, in a model that is only inferred."""
    node.CopyFrom(_recurrent(node))


def _recurrent(node: NodeProto) -> NodeProto:
    """Make an LSTM as a stand-in: the sizes of outputs depend only on the first input and on attributes."""
    kept = [a for a in node.attribute if a.name in ("direction", "hidden_size")]
    return NodeProto(op_type="LSTM", input=[node.input[0]] * 3, output=node.output, attribute=kept)


def _product(node: NodeProto, types: Mapping[str, TypeProto]) -> list[NodeProto]:
    flags = {a.name: a.i for a in node.attribute if a.i}
    made, operands = list[NodeProto](), list[str]()
    for operand, name in zip("AB", node.input, strict=False):
        value_type = types.get(name)
        if value_type is None or not value_type.tensor_type.HasField("shape"):
            return []
        perm = transposition(
            len(value_type.tensor_type.shape.dim),
            bool(flags.get(f"trans{operand}")),
            bool(flags.get(f"transBatch{operand}")),
        )
        operands.append(f"{operand} {name}")
        attribute = make_attribute("perm", perm)
        made.append(NodeProto(op_type="Transpose", input=[name], output=operands[-1:], attribute=[attribute]))
    return [*made, NodeProto(op_type="MatMul", input=operands, output=node.output[:1])]


def transposition(rank: int, swapped: bool, batch: bool) -> list[int]:
    """Compute how FusedMatMul permutes an operand: transBatch moves the first axis before the last one, and trans swaps
    the last two.
    """
    axes = list(range(rank))
    if rank < 2:
        return axes
    if batch:
        axes = [*axes[1:-1], axes[0], axes[-1]]
    if swapped:
        axes[-2:] = axes[:-3:-1]
    return axes
