"""Models to measure on, written once into a folder."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper


def reduce_chain(nodes: int, opset: int = 13) -> onnx.ModelProto:
    """Alternating ReduceMax and Relu: every second node changes between opsets 13 and 18."""
    chain, value = [], "x"
    for index in range(nodes):
        output = f"v{index}"
        if index % 2:
            chain.append(helper.make_node("Relu", [value], [output], name=f"n{index}"))
        else:
            chain.append(helper.make_node("ReduceMax", [value], [output], name=f"n{index}", axes=[1]))
        value = output
    graph = helper.make_graph(
        chain,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8])],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, ["N", 1])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def write(folder: Path, nodes: int) -> Path:
    """The file of a chain of so many nodes."""
    path = folder / f"chain-{nodes}.onnx"
    onnx.save(reduce_chain(nodes), path)
    return path
