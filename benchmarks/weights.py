"""Models that are mostly weights, written without holding them in memory."""

from __future__ import annotations

import os
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

WIDTH = 4096
LAYER = WIDTH * WIDTH * 4  # bytes: 64 MB


def model(layers: int) -> ModelProto:
    """MatMul, ReduceMax and Sub in turn: every third node changes between opsets 13 and 18. Weights are missing."""
    nodes, value = list[NodeProto](), "x"
    for i in range(layers):
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("ReduceMax", [f"m{i}"], [f"r{i}"], axes=[1]))
        nodes.append(helper.make_node("Sub", [f"m{i}", f"r{i}"], [f"v{i}"]))
        value = f"v{i}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", WIDTH]) for name in ("x", value)]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def _weight(number: int) -> TensorProto:
    return TensorProto(name=f"w{number}", data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH])


def embedded(path: Path, layers: int) -> Path:
    """A file of one piece; of more than 2 GB, too, which protobuf cannot write."""
    held = model(layers)
    graph = held.graph.SerializeToString()
    held.ClearField("graph")
    heads = [_weight(i).SerializeToString() + _tag(TensorProto, "raw_data", LAYER) for i in range(layers)]
    fields = [_tag(GraphProto, "initializer", len(head) + LAYER) + head for head in heads]
    start = held.SerializeToString()
    start += _tag(ModelProto, "graph", len(graph) + sum(map(len, fields)) + layers * LAYER) + graph
    data = os.urandom(LAYER)
    with path.open("wb") as file:
        file.write(start)
        for field in fields:
            file.write(field)
            file.write(data)
    return path


def external(path: Path, layers: int) -> Path:
    """A file whose weights lie in another one, which is all zeros and takes no room on the disk."""
    held = model(layers)
    for i in range(layers):
        tensor = _weight(i)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": f"{path.name}.data", "offset": i * LAYER, "length": LAYER}.items():
            tensor.external_data.add(key=key, value=str(value))
        held.graph.initializer.append(tensor)
    path.write_bytes(held.SerializeToString())
    with (path.parent / f"{path.name}.data").open("wb") as data:
        data.truncate(layers * LAYER)
    return path


def _tag(message: type[TensorProto | GraphProto | ModelProto], field: str, length: int) -> bytes:
    """The tag and the length of a field that holds bytes."""
    found = bytearray()
    for value in (message.DESCRIPTOR.fields_by_name[field].number << 3 | 2, length):
        while value > 127:
            found.append(value & 127 | 128)
            value >>= 7
        found.append(value)
    return bytes(found)
