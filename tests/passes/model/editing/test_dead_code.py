"""What nothing reads goes, and what it alone hung on."""

import onnx
import onnx.helper
import pytest
from opshift.passes.model.editing import dead_code

from tests.support import model

IO = {"inputs": "float[2] x, bool c", "outputs": "float[2] y"}


def made_by(body):
    return [", ".join(node.output) for node in body.node]


@pytest.mark.parametrize(
    ("body", "released", "left", "dropped"),
    [
        ("a = Abs(x) y = Relu(x)", {"a"}, ["y"], True),
        ("a = Abs(x) y = Relu(x)", {"b", "", "x"}, ["a", "y"], False),
        ("a = Abs(x) y = Relu(a)", {"a"}, ["a", "y"], False),
        ("y = Relu(x)", {"y"}, ["y"], False),
        ("b = Abs(x) a = Neg(b) y = Relu(x)", {"a"}, ["y"], True),
        ("b = Abs(x) a = Neg(b) y = Relu(b)", {"a"}, ["b", "y"], True),
        ("b = Abs(x) d = Neg(b) a = Add(b, d) y = Relu(x)", {"a"}, ["y"], True),
        ("a, b = Split(x) d = Abs(a) y = Relu(b)", {"d"}, ["a, b", "y"], True),
        ("a, b = Split(x) d = Abs(a) y = Relu(x)", {"d", "b"}, ["y"], True),
        ("a, b = Split(x) d = Abs(a) y = Relu(x)", {"d"}, ["a, b", "y"], True),
        ("a = Abs(x) y = Relu(x) b = Neg(x)", {"a"}, ["y", "b"], True),
        ("a = Abs(x) y = Relu(x) b = Neg(x)", {"a", "b"}, ["y"], True),
    ],
)
def test_nodes_whose_values_were_released_go(body, released, left, dropped):
    source = model(body, 13, **IO)
    assert dead_code.drop_unused(source, released) is dropped
    assert made_by(source.graph) == left


def test_constants_go_without_a_look_at_nodes():
    source = model("y = Add(x, v)", 13, constants="float[2] u = {1, 2}, float[2] v = {1, 2}, float[2] w = {1, 2}", **IO)
    assert not dead_code.drop_unused(source, {"u", "v"})
    assert [tensor.name for tensor in source.graph.initializer] == ["v", "w"]
    source.graph.input.add(name="w")
    assert not dead_code.drop_unused(source, {"w"})
    assert [tensor.name for tensor in source.graph.initializer] == ["v", "w"]


def test_constants_go_with_their_readers():
    source = model(
        "a = Add(x, w) b = Mul(a, v) y = Add(x, v)", 13, constants="float[2] v = {1, 2}, float[2] w = {1, 2}", **IO
    )
    assert dead_code.drop_unused(source, {"b"})
    assert (made_by(source.graph), [tensor.name for tensor in source.graph.initializer]) == (["y"], ["v"])


def test_what_graphs_read_from_outside_is_read():
    source = model("a = Abs(x) b = Neg(a) y = Relu(x)", 13, **IO)
    inner = onnx.parser.parse_graph("g () => (float[2] v) { u = Neg(b) v = Relu(u) }")
    source.graph.node.append(onnx.helper.make_node("If", ["c"], ["w"], then_branch=inner, else_branch=inner))
    held = source.SerializeToString()
    assert not dead_code.drop_unused(source, {"b"})
    assert source.SerializeToString() == held
    assert dead_code.names_read(source.graph.node[-1]) == ["c", "b", "b"]
    assert dead_code.drop_unused(source, {"w"})
    assert made_by(source.graph) == ["y"]


def test_nodes_of_graphs_and_functions_go():
    source = model("y = Relu(x)", 13, **IO)
    inner = onnx.parser.parse_graph("g () => (float[2] v) { u = Neg(x) v = Relu(x) }")
    source.graph.node.append(onnx.helper.make_node("If", ["c"], ["w"], then_branch=inner, else_branch=inner))
    nodes = [onnx.parser.parse_node(text) for text in ("k = Abs(i)", "o = Relu(i)")]
    source.functions.append(onnx.helper.make_function("own", "F", ["i"], ["o"], nodes, []))
    assert dead_code.drop_unused(source, {"u", "k", "o", "v"})
    assert made_by(source.functions[0]) == ["o"]
    assert [made_by(attribute.g) for attribute in source.graph.node[1].attribute] == [["v"], ["v"]]


def test_what_is_live_is_found_from_the_end():
    nodes = [onnx.parser.parse_node(text) for text in ("a = Abs(x)", "b = Neg(x)", "d = Add(a, a)", "e = Relu(b)")]
    nodes.append(onnx.NodeProto(op_type="Print", input=["b", ""]))
    needed = {"d"}
    assert dead_code.live(nodes, needed) == [True, True, True, False, True]
    assert needed == {"a", "b", "d", "x"}


def test_a_sweep_drops_what_nobody_reads_and_tells():
    source = model(
        "a = Abs(x) y = Add(x, v) k = Neg(x)",
        13,
        constants="float[2] u = {1, 2}, float[2] v = {1, 2}, float[2] w = {1, 2}, float[2] s = {1, 2}",
        **IO,
    )
    graph = source.graph
    inner = onnx.parser.parse_graph("g () => (float[2] r) { p = Neg(u) q = Neg(w) r = Relu(q) }")
    graph.node.append(onnx.helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=inner))
    graph.output.add(name="z")
    graph.input.add(name="s")
    stated = onnx.helper.make_tensor_value_info
    graph.value_info.extend(
        [stated("a", 1, [2]), stated("z", 1, [2]), stated("v", 1, [2]), stated("w", 1, [3]), stated("u", 1, [2])]
    )
    gone = []
    read = dead_code.sweep(graph, frozenset({"k"}), lambda node: gone.append(node.output[0]))
    assert sorted(gone) == ["a", "p", "p"]
    assert made_by(graph) == ["y", "k", "z"]
    assert made_by(graph.node[2].attribute[0].g) == ["q", "r"]
    assert [tensor.name for tensor in graph.initializer] == ["v", "w", "s"]
    assert [value.name for value in graph.value_info] == ["z", "v"]
    assert read >= {"x", "v", "w", "c", "y", "z", "k"}
    assert not read & {"u", "a", "p"}


@pytest.mark.parametrize(
    ("elem_type", "dims", "right"),
    [(1, [2, 3], True), (1, [2, 4], False), (11, [2, 3], False), (1, None, False), (1, [2], False)],
)
def test_a_type_is_that_of_the_constant(elem_type, dims, right):
    tensor = onnx.TensorProto(data_type=1, dims=[2, 3])
    assert dead_code.is_stated(tensor, onnx.helper.make_tensor_value_info("x", elem_type, dims)) is right
