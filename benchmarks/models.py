"""Models to measure on, written once into a folder."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
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


def weights(nodes: int) -> onnx.ModelProto:
    """Additions of a weight each, in front of one node that changes."""
    chain = [helper.make_node("Add", [f"v{i - 1}" if i else "x", f"w{i}"], [f"v{i}"]) for i in range(nodes - 1)]
    held = [helper.make_tensor(f"w{i}", TensorProto.FLOAT, [1], [0.5]) for i in range(nodes - 1)]
    chain.append(helper.make_node("ReduceMax", [f"v{nodes - 2}"], ["y"], axes=[1]))
    return _model(chain, "y", 13, held)


def nested(nodes: int, depth: int = 20) -> onnx.ModelProto:
    """Ifs in the then branches of Ifs, with an equal share of the nodes in each."""
    share, graph, inner = max(2, nodes // depth), None, ""
    for level in reversed(range(depth)):
        start = f"l{level - 1}" if level else "x"
        names = [start, *(f"v{level}_{i}" for i in range(share - 1)), f"l{level}"]
        chain = [
            helper.make_node("Relu", [a], [b]) if i % 2 else helper.make_node("ReduceMax", [a], [b], axes=[1])
            for i, (a, b) in enumerate(pairwise(names))
        ]
        result = names[-1]
        if graph is not None:
            other = _graph([helper.make_node("Identity", [result], [f"o{level}"])], f"o{level}")
            result = f"y{level}"
            chain.append(helper.make_node("If", ["c"], [result], then_branch=graph, else_branch=other))
        graph, inner = _graph(chain, result), result
    assert graph is not None, "there is at least one level"
    made = _model(list(graph.node), inner, 13)
    made.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    return made


def loops(nodes: int, depth: int = 20) -> onnx.ModelProto:
    """Loops in the bodies of Loops, which carry a value, with an equal share of the nodes in each."""
    share, body = max(3, nodes // depth), None
    for level in reversed(range(depth)):
        names = [f"a{level}" if level else "x", *(f"v{level}_{i}" for i in range(share - 2)), f"l{level}"]
        chain = [
            helper.make_node("Relu", [a], [b]) if i % 2 else helper.make_node("ReduceMax", [a], [b], axes=[1])
            for i, (a, b) in enumerate(pairwise(names))
        ]
        if body is not None:
            chain.append(helper.make_node("Loop", ["m", "", names[-1]], [f"y{level}"], body=body))
        result = chain[-1].output[0]
        body = _graph([helper.make_node("Identity", [f"c{level}"], [f"d{level}"]), *chain], f"d{level}")
        body.output[0].CopyFrom(helper.make_tensor_value_info(f"d{level}", TensorProto.BOOL, []))
        body.output.append(helper.make_tensor_value_info(result, TensorProto.FLOAT, ["N", 1]))
        body.input.append(helper.make_tensor_value_info(f"i{level}", TensorProto.INT64, []))
        body.input.append(helper.make_tensor_value_info(f"c{level}", TensorProto.BOOL, []))
        body.input.append(helper.make_tensor_value_info(f"a{level}", TensorProto.FLOAT, ["N", 1]))
    assert body is not None, "there is at least one level"
    made = _model(list(body.node)[1:], body.output[1].name, 13)
    made.graph.input.append(helper.make_tensor_value_info("m", TensorProto.INT64, []))
    return made


def norms(nodes: int) -> onnx.ModelProto:
    """A chain of ReduceL2 at opset 18, which has a definition there."""
    names = ["x", *(f"v{i}" for i in range(nodes))]
    chain = [helper.make_node("ReduceL2", [a, "axes"], [b]) for a, b in pairwise(names)]
    return _model(chain, names[-1], 18, [_axes()])


def celus(nodes: int) -> onnx.ModelProto:
    """A chain of Celu at opset 12, whose definition hangs on the type of its input."""
    names = ["x", *(f"v{i}" for i in range(nodes))]
    return _model([helper.make_node("Celu", [a], [b]) for a, b in pairwise(names)], names[-1], 12, width=8)


def layer_norms(nodes: int) -> onnx.ModelProto:
    """A chain of LayerNormalization at opset 18, whose definition hangs on the types of its inputs."""
    names = ["x", *(f"v{i}" for i in range(nodes))]
    chain = [helper.make_node("LayerNormalization", [a, "scale"], [b]) for a, b in pairwise(names)]
    made = _model(chain, names[-1], 18, width=8)
    made.graph.input.append(helper.make_tensor_value_info("scale", TensorProto.FLOAT, [8]))  # the peer needs its type
    return made


def written_gelus(nodes: int) -> onnx.ModelProto:
    """A chain of Gelu in five nodes each."""
    return _written(nodes, "Div x root, Erf 0, Add 1 one, Mul x 2, Mul 3 half")


def written_norms(nodes: int) -> onnx.ModelProto:
    """A chain of LayerNormalization in nine nodes each."""
    deviation = "ReduceMean x last, Sub x 0, Pow 1 two, ReduceMean 2 last, Add 3 half, Sqrt 4"
    return _written(nodes, f"{deviation}, Div 1 5, Mul 6 scale, Add 7 bias")


def written_swishes(nodes: int) -> onnx.ModelProto:
    """A chain of HardSwish in four nodes each."""
    return _written(nodes, "Add x three, Clip 0 zero six, Div 1 six, Mul x 2")


def rectified(nodes: int) -> onnx.ModelProto:
    """A chain of Relu and Add, which begins like several operators and is none."""
    return _written(nodes, "Relu x, Add 0 half")


def _written(nodes: int, parts: str) -> onnx.ModelProto:
    """A chain of the same nodes over and over; operands are `x`, what came before, a node of these, or a constant."""
    chain: list[onnx.NodeProto] = []
    read = [part.split() for part in parts.split(", ")]
    numbers = {"root": 2**0.5, "one": 1.0, "half": 0.5, "two": 2.0, "three": 3.0, "six": 6.0, "zero": 0.0}
    held = [helper.make_tensor(name, TensorProto.FLOAT, [], [value]) for name, value in numbers.items()]
    held.append(helper.make_tensor("scale", TensorProto.FLOAT, [8], [0.5] * 8))
    held.append(helper.make_tensor("bias", TensorProto.FLOAT, [8], [0.25] * 8))
    held.append(helper.make_tensor("last", TensorProto.INT64, [1], [-1]))
    value = "x"
    for copy in range(nodes // len(read)):
        names = {"x": value, **{str(place): f"v{copy}_{place}" for place in range(len(read))}}
        for place, (op, *operands) in enumerate(read):
            chain.append(helper.make_node(op, [names.get(name, name) for name in operands], [names[str(place)]]))
        value = names[str(len(read) - 1)]
    return _model(chain, value, 20, held, width=8)


FUNCTIONS = "functions"
"""The domain of the functions that the following models hold."""


def calls(nodes: int) -> onnx.ModelProto:
    """A chain of calls of one function of three nodes."""
    names = ["x", *(f"v{i}" for i in range(nodes))]
    chain = [helper.make_node("norm", [a, "axes"], [b], domain=FUNCTIONS) for a, b in pairwise(names)]
    return _with_functions(_model(chain, names[-1], 18, [_axes()]), [_norm("norm")])


def functions(nodes: int) -> onnx.ModelProto:
    """The same with a function of its own for each call."""
    names = ["x", *(f"v{i}" for i in range(nodes))]
    chain = [helper.make_node(f"norm{b}", [a, "axes"], [b], domain=FUNCTIONS) for a, b in pairwise(names)]
    return _with_functions(_model(chain, names[-1], 18, [_axes()]), [_norm(node.op_type) for node in chain])


def function_chain(nodes: int) -> onnx.ModelProto:
    """One call of a function that calls the next, which calls the next, as many as there are."""
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(FUNCTIONS, 1)]
    held = []
    for index in range(nodes):
        following = helper.make_node(f"f{index + 1}", ["a"], ["y"], domain=FUNCTIONS)
        last = helper.make_node("Abs", ["a"], ["y"])
        body = [helper.make_node("Neg", ["x"], ["a"]), following if index + 1 < nodes else last]
        held.append(helper.make_function(FUNCTIONS, f"f{index}", ["x"], ["y"], body, imports))
    call = helper.make_node("f0", ["x"], ["y"], domain=FUNCTIONS)
    return _with_functions(_model([call], "y", 18, width=8), held)


def _norm(name: str) -> onnx.FunctionProto:
    body = [
        helper.make_node("Mul", ["x", "x"], ["squares"]),
        helper.make_node("ReduceSum", ["squares", "axes"], ["sum"]),
        helper.make_node("Sqrt", ["sum"], ["y"]),
    ]
    return helper.make_function(FUNCTIONS, name, ["x", "axes"], ["y"], body, [helper.make_opsetid("", 18)])


def _axes() -> TensorProto:
    return helper.make_tensor("axes", TensorProto.INT64, [1], [1])


def _with_functions(model: onnx.ModelProto, held: Sequence[onnx.FunctionProto]) -> onnx.ModelProto:
    model.functions.extend(held)
    model.opset_import.append(helper.make_opsetid(FUNCTIONS, 1))
    return model


def _graph(nodes: list[onnx.NodeProto], result: str, width: int = 1) -> onnx.GraphProto:
    value = helper.make_tensor_value_info(result, TensorProto.FLOAT, ["N", width])
    return helper.make_graph(nodes, result, [], [value])


def _model(
    nodes: list[onnx.NodeProto], result: str, opset: int, held: Sequence[TensorProto] = (), width: int = 1
) -> onnx.ModelProto:
    graph = _graph(nodes, result, width)
    graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8]))
    graph.initializer.extend(held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def write(path: Path, model: onnx.ModelProto) -> Path:
    """The model as a file."""
    onnx.save(model, path)
    return path
