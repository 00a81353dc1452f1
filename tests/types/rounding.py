"""Run a model as hardware does that has half precision: float32 kernels, and each half value rounded.

onnxruntime's CPU has no float16 kernels for most operators. It computes those in float32 and drops the casts between
them, optimizations or not: Cast to float16, Exp of 12, Log is 12 there, and infinity on any device.
`onnx.reference` is no judge either: in bfloat16 it sums 4,096 ones to 256.

So all half types become float32 here, and behind each node that yields half values stand Cast, Identity, Cast, which
onnxruntime keeps where optimizations are off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from tests.types import walking

Feeds = Mapping[str, Any]

# Attributes that name an element type.
TYPED = {"to", "dtype", "output_dtype", "output_datatype", "softmax_precision", "stash_type"}

# These yield values that they were given: what they read is rounded already.
MOVES = {
    "Concat", "ConcatFromSequence", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "If", "Loop",
    "Optional", "OptionalGetElement", "Relu", "Reshape", "Scan", "SequenceAt", "SequenceConstruct", "Slice", "Split",
    "SplitToSequence", "Squeeze", "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip


def rounded(model: ModelProto) -> ModelProto:
    """The model in float32, with each value rounded that is float16 or bfloat16 in the model."""
    model = walking.flat(model)
    for graph, types in reversed(list(walking.graphs(model))):  # bodies first: nodes that hold them are copied
        nodes: list[NodeProto] = []
        for node in graph.node:
            nodes.append(node)
            if node.op_type not in MOVES:
                nodes += [added for place in range(len(node.output)) for added in _rounding(node, place, types)]
        copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)
    for graph, _ in list(walking.graphs(model)):
        _widen(graph)
    return model


def _rounding(node: NodeProto, place: int, types: walking.Types) -> list[NodeProto]:
    """Nodes that round one output of a node, which gets another name."""
    name = node.output[place]
    if types.get(name) not in walking.NARROW or node.op_type.startswith("Sequence"):
        return []
    node.output[place] = f"{name} before rounding"
    cast, kept, back = (NodeProto(op_type=op) for op in ("Cast", "Identity", "Cast"))
    cast.attribute.add(name="rounds", type=AttributeProto.INT, i=types[name])
    for one, read, written in (
        (cast, node.output[place], f"{name} in half"),
        (kept, f"{name} in half", f"{name} kept"),
        (back, f"{name} kept", name),
    ):
        one.input.append(read)
        one.output.append(written)
    back.attribute.add(name="to", type=AttributeProto.INT, i=TensorProto.FLOAT)
    return [cast, kept, back]


def _widen(graph: GraphProto) -> None:
    """Write float32 wherever the graph says float16 or bfloat16."""
    for value in (*graph.input, *graph.output):
        _widen_type(value.type)
    del graph.value_info[:]
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in TYPED and attribute.i in walking.NARROW:
                attribute.i = TensorProto.FLOAT
            if attribute.name == "rounds":
                attribute.name = "to"
            for tensor in (attribute.t, *attribute.tensors) if attribute.type != AttributeProto.INT else ():
                _widen_tensor(tensor)
            if attribute.type == AttributeProto.TYPE_PROTO:
                _widen_type(attribute.tp)


def _widen_type(of: TypeProto) -> None:
    kind = of.WhichOneof("value")
    if kind == "tensor_type" and of.tensor_type.elem_type in walking.NARROW:
        of.tensor_type.elem_type = TensorProto.FLOAT
    elif kind in ("sequence_type", "optional_type"):
        _widen_type(getattr(of, kind).elem_type)


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in walking.NARROW:
        wide = onnx.numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(onnx.numpy_helper.from_array(wide, tensor.name))


def session(model: ModelProto) -> onnxruntime.InferenceSession:
    """One in which onnxruntime changes nothing."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(model: ModelProto, feeds: Sequence[Feeds]) -> list[list[Any]]:
    """Outputs for each set of inputs, half values rounded; half inputs are given, and half outputs come, in float32."""
    ready = _ready(rounded(model))
    return [ready.run(None, {name: _wide(value) for name, value in given.items()}) for given in feeds]


def _ready(model: ModelProto) -> onnxruntime.InferenceSession:
    """A session; opset 22 only adds types to most operators, of which onnxruntime has the kernels of 21 alone."""
    try:
        return session(model)
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        if model.opset_import[0].version != 22:
            raise
        model.opset_import[0].version = 21
        return session(model)


def _wide(value: Any) -> Any:
    if isinstance(value, list):
        return [_wide(one) for one in value]
    return value.astype(np.float32) if value.dtype.name in ("float16", "bfloat16") else value
