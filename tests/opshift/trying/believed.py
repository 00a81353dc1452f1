"""A make-believe backend in a file of its own, as the process that runs it imports it: onnxruntime with chosen faults."""

import os
import time

from onnx import ModelProto, NodeProto
from opshift.passes.model.traversal import bodies

from opshift.verification.engines import EngineError, OnnxRuntime


class Believed(OnnxRuntime):
    """Refuses some operators, with words that name the node or with others; dies, hangs, or computes otherwise.

    | operator | what becomes of it |
    |---|---|
    | HardSwish | refused, and the node is named |
    | Mish | refused where sizes are open, without a name |
    | Elu and Selu in one model | refused, without a name |
    | Gelu | yields other values |
    | Tanh | NaN where its exponentials overflow |
    | Celu | ends the process |
    | ThresholdedRelu | never ends |
    | Constant and nothing that reads inputs | refused |
    | Asin | refused where a size that is called N is open; there is nothing that could take its place |
    | LeakyRelu | refused, and the node is named, where it says an alpha |
    | Atan | refused, without a name; there is nothing that could take its place |
    """

    def __init__(self, model, outputs=None, folder=None):
        ops = {node.op_type for node in model.graph.node}
        named = [node.name for node in model.graph.node if node.op_type == "HardSwish"]
        if named:
            raise EngineError(f"cannot plan node '{named[0]}'")
        if "Mish" in ops and any(d.dim_param for v in model.graph.input for d in v.type.tensor_type.shape.dim):
            raise EngineError("shapes must be numbers here")
        sizes = {d.dim_param for v in model.graph.input for d in v.type.tensor_type.shape.dim}
        if "Asin" in ops and "N" in sizes:
            raise EngineError("N is not a number")
        for node in model.graph.node:
            if node.op_type == "LeakyRelu" and node.attribute:
                raise EngineError(f"cannot plan node '{node.name}'")
        if {"Elu", "Selu"} <= ops:
            raise EngineError("too many units")
        if ops <= {"Constant"}:
            raise EngineError("there is nothing to run")
        if "Atan" in ops:
            raise EngineError("no arcs")
        if "Celu" in ops:
            os._exit(1)
        if "ThresholdedRelu" in ops:
            time.sleep(60)
        super().__init__(_overflowing(model), outputs, folder)
        self.wrong = "Gelu" in ops

    def run(self, feeds):
        return [value * 1.01 if self.wrong else value for value in super().run(feeds)]


def _overflowing(model):
    made = ModelProto()
    made.CopyFrom(model)
    for body in bodies(made):
        nodes = [part for node in body.node for part in _quotient(node)]
        del body.node[:]
        body.node.extend(nodes)
    return made


def _quotient(node):
    """A Tanh as a quotient of two others, which overflow."""
    if node.op_type != "Tanh":
        return [NodeProto.FromString(node.SerializeToString())]
    (given,), (made,) = node.input, node.output
    return [
        NodeProto(op_type="Sinh", input=[given], output=[f"{made}/sinh"]),
        NodeProto(op_type="Cosh", input=[given], output=[f"{made}/cosh"]),
        NodeProto(op_type="Div", input=[f"{made}/sinh", f"{made}/cosh"], output=[made]),
    ]
