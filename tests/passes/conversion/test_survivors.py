"""What a conversion leaves as it was: names, texts, custom domains, and constants that others read."""

import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from onnx import TensorProto
from opshift.passes.conversion import convert

from tests.passes.conversion.test_convert import ROWS, converted
from tests.support import check_refused, model, show


def annotated():
    source = model("t = ReduceSum(x, a) y = ReduceL1(t, a)", 18, constants="int64[1] a = {1}", **ROWS)
    source.doc_string, source.producer_name = "a model", "someone"
    source.metadata_props.add(key="author", value="somebody")
    graph = source.graph
    graph.doc_string = "a graph"
    for node in graph.node:
        node.name, node.doc_string = f"the_{node.op_type}", f"about {node.op_type}"
        node.metadata_props.add(key="scope", value=node.op_type)
    graph.value_info.append(onnx.helper.make_tensor_value_info("t", TensorProto.FLOAT, ["N", 1]))
    annotation = graph.quantization_annotation.add(tensor_name="t")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    return source


@pytest.mark.parametrize("target", [12, 17, 28])
def test_names_documents_and_metadata_survive(target):
    source = annotated()
    result = converted(source, target)
    assert (result.doc_string, result.producer_name) == ("a model", "someone")
    assert result.metadata_props == source.metadata_props
    assert result.graph.doc_string == "a graph"
    assert result.graph.value_info == source.graph.value_info
    assert result.graph.quantization_annotation == source.graph.quantization_annotation
    assert result.graph.input == source.graph.input
    for node in result.graph.node:
        assert node.name == f"the_{node.op_type}"
        assert node.doc_string == f"about {node.op_type}"
        assert node.metadata_props[0].value == node.op_type


def test_a_replaced_node_hands_its_name_on():
    source = model("y = ReduceL2(x, a)", 18, inputs="float[N,3] x, int64[1] a", outputs="float[N,1] y")
    source.graph.node[0].name = "norm"
    source.graph.node[0].metadata_props.add(key="scope", value="head")
    below = converted(source, 17)
    assert [n.name for n in below.graph.node] == ["norm/Mul", "norm/ReduceSum", "norm"]
    assert below.graph.node[-1].metadata_props[0].value == "head"


def test_what_has_no_type_is_refused_where_fewer_types_are_allowed():
    io = {"inputs": "float[2] x", "outputs": "float[2] y", "domains": '"acme" : 1'}
    check_refused("u = acme.Op(x) w = Abs(u) y = acme.Op(w)", 13, 12, 'the type of "u" is unknown', **io)


def test_an_inlined_operator_hands_its_name_on():
    source = model("y = ReduceL1(x, a)", 18, constants="int64[1] a = {1}", **ROWS)
    source.graph.node[0].name = "norm"
    result = convert.attempt(source, {"": 18}, ops=[("", "ReduceL1")])
    assert [(n.op_type, n.name) for n in result.model.graph.node] == [
        ("Abs", "norm/Abs"),
        ("ReduceSum", "norm"),
    ]


def test_custom_domains_are_left_alone():
    source = model(
        "t = my.Thing<axes=[1], k: graph = inside (float[N,3] q) => (float[N,1] r) { r = ReduceSum<axes=[1]>(q) }>(x) y = ReduceSum<axes=[1]>(t)",
        12, domains='"my" : 3', inputs="float[N,3] x", outputs="float[N,1] y",
    )  # fmt: skip
    above = convert.attempt(source, {"": 13}).model
    assert [(i.domain, i.version) for i in above.opset_import] == [("", 13), ("my", 3)]
    thing = above.graph.node[0]
    assert (thing.domain, list(thing.attribute[0].ints)) == ("my", [1])
    assert "ReduceSum(q, [1])" in show(above), "a graph in a custom operator's attribute is converted"


def test_an_initializer_that_others_use_stays():
    source = model(
        "y = ReduceSum(x, a) z = Unsqueeze(x, a)", 13, constants="int64[1] a = {1}",
        inputs="float[N,3] x", outputs="float[N,1] y, float[N,1,3] z",
    )  # fmt: skip
    result = convert.attempt(source, {"": 13})
    assert [t.name for t in result.model.graph.initializer] == ["a"]


def test_equal_constants_are_shared():
    body = "t = ReduceMax<axes=[1]>(x) u = ReduceMin<axes=[1]>(x) v = ReduceMax<axes=[0]>(t) y = Add(v, u)"
    above = converted(model(body, 17, inputs="float[N,3] x", outputs="float[N,1] y"), 18)
    assert sorted(onnx.numpy_helper.to_array(t).tolist() for t in above.graph.initializer) == [[0], [1]]
