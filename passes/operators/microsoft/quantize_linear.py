"""QuantizeLinear and DequantizeLinear of more types than ONNX had when they came: those of opset 21 have them all."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced com.microsoft's operator by ONNX's operator of the same name")
def of_onnx(node: Node) -> str:
    build, inputs, axis = node.build, list(node.inputs), node.attributes.get("axis")
    if node.scope.shape(inputs[1]) == [1]:
        inputs[1:] = [build.Reshape(name, []) for name in inputs[1:]]
        axis = None
    if node.op_type == "QuantizeLinear":  # which divides in float32, whatever the types are
        inputs[:2] = [recast(build, name, node.elem_type(i), T.FLOAT) for i, name in enumerate(inputs[:2])]
    return str(build.emit(node.op_type, inputs, {"axis": axis}))


defined(["DequantizeLinear", "QuantizeLinear"], of_onnx, opset=21, domain=MICROSOFT)
