"""Find the float types of a model, and make a form that really rounds to float16."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto, TensorProto
from opshift.passes.model.traversal import Body, bodies

_UNITS = {
    "bfloat16": 2.0**-7,
    "float4_e2m1fn": 2.0**-1,
    "float8_e4m3fn": 2.0**-3,
    "float8_e4m3fnuz": 2.0**-3,
    "float8_e5m2": 2.0**-2,
    "float8_e5m2fnuz": 2.0**-2,
    "float8_e8m0fnu": 1.0,
}
"""The unit of the last place of 1 of the floats that numpy does not have itself."""


def unit(dtype: Any) -> float:
    """Compute the unit in the last place of 1 for a float type, without ml_dtypes, which old onnx does not install."""
    import numpy as np

    known = _UNITS.get(dtype.name)
    return float(np.finfo(dtype).eps) if known is None else known


def _computes_in_float16(model: ModelProto) -> bool:
    """Check if a model has float16 values and no bfloat16, to run it with each result rounded to float16."""
    elem_types: set[int] = {value.type.tensor_type.elem_type for value in model.graph.input}
    for body in bodies(model):
        if isinstance(body, GraphProto):
            elem_types.update(tensor.data_type for tensor in body.initializer)
        used = {name for node in body.node if node.op_type != "Cast" for name in node.input}
        for node in body.node:
            for attribute in node.attribute:
                if attribute.name == "value" and attribute.HasField("t"):
                    elem_types.add(attribute.t.data_type)
                elif attribute.name == "to" and used.intersection(node.output):
                    elem_types.add(attribute.i)
    return TensorProto.FLOAT16 in elem_types and TensorProto.BFLOAT16 not in elem_types


def as_written(model: ModelProto) -> ModelProto:
    """Copy a float16 model with Identity nodes that make onnxruntime round to float16 after each node.

    On a CPU, onnxruntime computes float16 nodes in float32, and drops the rounding between two of them. Identity has a
    kernel for float16, but onnxruntime uses it only where two of them follow each other. Other models are returned.
    """
    if not _computes_in_float16(model):
        return model
    rounded = ModelProto()
    rounded.CopyFrom(model)
    for body in list(bodies(rounded)):
        _hold(body)
    return rounded


def _hold(body: Body) -> None:
    """Put two Identity nodes behind each node, so that onnxruntime rounds its outputs to float16.

    Runs for each graph of a float16 model.
    """
    nodes = list(body.node)
    del body.node[:]
    for node in nodes:
        body.node.append(node)
        if node.op_type in ("Constant", "Identity"):
            continue
        outputs = [name for name in node.output if name]
        body.node[-1].output[:] = [f"{name}/free" if name else "" for name in node.output]
        for name in outputs:
            for before, after in pairwise((f"{name}/free", f"{name}/held", name)):
                body.node.append(NodeProto(op_type="Identity", input=[before], output=[after]))
