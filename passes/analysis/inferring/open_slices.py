"""ONNX's inference with what it gets wrong set right: at opset 10 it takes what Slice cuts from a size with a name for
the whole of it, while Slice of opset 11, which computes the same, leaves such a size open."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import FunctionProto, ModelProto, NodeProto, default_domain
from opshift.passes.model.traversal import Op, bodies, declarations

WRONG, RIGHT = 10, 11
"""The version of Slice that is inferred wrong, and the one that it is taken for."""
ASIDE = "opshift.slice"


def inferred(model: ModelProto, ops: Container[Op] | None = None) -> ModelProto:
    """A copy with the types and shapes that follow from those of the inputs and of constants.

    Of a call of Attention whose values have an unknown size, ONNX infers one of 0: nothing is asked of it then. `ops`
    are those that the model calls, if they are known, by the empty name of the default domain.
    """
    made = _inferred(model, ops)
    if ops is not None and ("", "Attention") not in ops:
        return made
    attentions = [node for body in bodies(model) for node in body.node if _is_attention(node)]
    empty = {
        value.name
        for value in (declarations(made) if attentions else ())
        if (dims := value.type.tensor_type.shape.dim) and len(dims) == 3 and _is_empty(dims[2])
    }
    wrong = [node for node in attentions if node.output[0] in empty]
    if not wrong:
        return made
    for node in wrong:
        node.op_type = ASIDE
    try:
        made = _inferred(model, ops)
    finally:
        for node in wrong:
            node.op_type = "Attention"
    for body in bodies(made):
        for node in body.node:
            if node.op_type == ASIDE:
                node.op_type = "Attention"
    return made


def _is_empty(dim: Any) -> bool:
    return bool(dim.HasField("dim_value") and not dim.dim_value)


def _is_attention(node: NodeProto) -> bool:
    return node.op_type == "Attention" and not default_domain(node.domain)


def _inferred(model: ModelProto, ops: Container[Op] | None) -> ModelProto:
    import onnx.shape_inference

    slices = opsets(model).get("") == WRONG and (ops is None or ("", "Slice") in ops)
    turned = list(_slices(model)) if slices else []
    if not turned:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    spelled = [node.domain for node in turned]
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    model.functions.append(_slice())
    for holder in holders:
        holder.opset_import.add(domain=ASIDE, version=1)
    for node in turned:
        node.domain = ASIDE
    try:
        made = onnx.shape_inference.infer_shapes(model, data_prop=True)
    finally:
        _turn_back(model, turned, spelled)
    _turn_back(made, [node for body in bodies(made) for node in body.node if node.domain == ASIDE], spelled)
    return made


def _slices(model: ModelProto) -> Iterator[NodeProto]:
    for body in bodies(model):
        yield from (node for node in body.node if node.op_type == "Slice" and not default_domain(node.domain))


def _slice() -> FunctionProto:
    """Slice of the newer version, whose last inputs may be left out."""
    operands = ["data", "starts", "ends", "axes", "steps"]
    made = FunctionProto(domain=ASIDE, name="Slice", input=operands, output=["output"])
    made.opset_import.add(domain="", version=RIGHT)
    made.node.add(op_type="Slice", input=operands, output=["output"])
    return made


def _turn_back(model: ModelProto, turned: list[NodeProto], spelled: list[str]) -> None:
    for node, domain in zip(turned, spelled, strict=True):
        node.domain = domain
    del model.functions[-1]
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    for holder in holders:
        del holder.opset_import[-1]
