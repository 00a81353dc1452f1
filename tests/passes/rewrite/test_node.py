"""A call as a step sees it: what it asks, and what it is told of."""

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from opshift.passes.errors import CannotConvert
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node

from tests.passes.rewrite.support import call
from tests.support import model


@pytest.fixture
def node():
    source = model(
        "y, z = TopK<axis=1>(x, k) w = Relu(y)", 11, inputs="float[2,3] x, int64[1] k", outputs="float[2,1] w"
    )
    source.graph.node[0].input.append("")
    return call(source, 11)


def _set(name, value):
    return lambda node: setattr(node, name, value)


@pytest.mark.parametrize(
    ("edit", "touched"),
    [
        (_set("op_type", "ArgMax"), True),
        (_set("outputs", ["y"]), True),
        (_set("outputs", ["y", ""]), True),
        (_set("outputs", ["y", "z", "", ""]), False),
        (_set("inputs", ["x"]), True),
        (lambda node: node.set_input(1, "other"), True),
        (lambda node: node.attributes.update(axis=0), True),
        (lambda node: node.attributes.update(sorted=0), True),
        (lambda node: node.attributes.pop("axis"), True),
        (lambda node: node.attributes.pop("sorted", None), False),
        (lambda node: node.attributes.get("axis"), False),
        (lambda node: node.close("why"), False),
        (lambda node: node.drop_omitted(), False),
    ],
)
def test_what_changes_a_call_is_noticed(node, edit, touched):
    assert not node.touched
    edit(node)
    assert node.touched is touched


def test_omitted_names_at_the_end_are_not_written(node):
    node.outputs = ["y", "", ""]
    node.inputs = ["x", "", "k", "", ""]
    assert (node.outputs, node.inputs) == (["y"], ["x", "", "k"])
    node.outputs = node.inputs = ["", ""]
    assert (node.outputs, node.inputs) == ([], [])
    node.set_input(2, "x")
    assert node.inputs == ["", "", "x"]
    node.set_input(0, "k")
    assert node.inputs == ["k", "", "x"]
    assert [node.input(index) for index in range(4)] == ["k", "", "x", ""]
    node.set_input(2, "")
    assert node.inputs == ["k"]
    node.proto.input.extend(["x", "", ""])
    node.drop_omitted()
    assert node.inputs == ["k", "x"]


def test_inputs_that_are_given_up_may_be_unused_now(node):
    node.inputs = ["x", "x"]
    assert node.scope.context.released == {"k", ""}


def test_outputs_that_somebody_reads_are_used(node):
    assert [node.is_used(index) for index in range(3)] == [True, False, False]
    node.proto.output[0] = ""
    assert not node.is_used(0)


def test_a_name_is_that_of_the_first_output_there_is(node):
    assert node.name == "y"
    node.proto.output[0] = ""
    assert node.name == "z"
    del node.proto.output[:]
    assert node.name == ""
    node.proto.name = "top"
    assert (node.name, node.op_type, node.domain) == ("top", "TopK", "")


def test_a_schema_is_that_of_the_version_it_is_written_at(node):
    assert (node.schema.name, node.schema.since) == ("TopK", 11)
    assert Node(node.proto, node.scope, 10, node.build).schema.since == 10
    node.op_type = "NoSuchOperator"
    assert node.schema is None


def test_a_close_change_says_why(node):
    assert (node.grade, node.remarks) == ("exact", [])
    node.close("one")
    node.close("two")
    assert (node.grade, node.remarks) == ("close", ["one", "two"])


def test_types_and_ranks_that_are_unknown_are_refused(node):
    assert (node.elem_type(), node.rank(), node.elem_type(1), node.rank(1)) == (1, 2, 7, 1)
    with pytest.raises(CannotConvert, match='the type of "" is unknown'):
        node.elem_type(2)
    with pytest.raises(CannotConvert, match='the rank of "" is unknown'):
        node.rank(2)


def test_attributes_are_a_mapping(node):
    node.attributes["sorted"] = 0
    assert (list(node.attributes), len(node.attributes)) == (["axis", "sorted"], 2)
    assert ("axis" in node.attributes, "largest" in node.attributes) == (True, False)
    node.attributes["axis"] = 0
    assert dict(node.attributes) == {"axis": 0, "sorted": 0}
    del node.attributes["axis"]
    assert node.attributes.find("axis") is None
    for ask in (node.attributes.__getitem__, node.attributes.__delitem__):
        with pytest.raises(KeyError, match="axis"):
            ask("axis")


def test_an_attribute_is_of_the_type_that_the_arriving_schema_declares():
    """A whole number for a float, and an empty list, which could be of anything."""
    node = call(model("y = LeakyRelu(x)", 16, inputs="float[2] x", outputs="float[2] y"), 16)
    node.attributes.update(alpha=1, axes=[])
    assert [attribute.type for attribute in node.proto.attribute] == [
        onnx.AttributeProto.FLOAT,
        onnx.AttributeProto.INTS,
    ]
    node.op_type = "StringNormalizer"
    node.attributes["stopwords"] = []
    assert node.attributes.find("stopwords").type == onnx.AttributeProto.STRINGS


def test_an_attribute_of_the_function_has_no_value(node):
    node.proto.attribute[0].ref_attr_name = "outer"
    with pytest.raises(CannotConvert, match="attribute axis refers to the attribute outer of the function"):
        node.attributes["axis"]
    assert "axis" in node.attributes


def _stored(tensor, file):
    made = onnx.TensorProto(dims=tensor.dims, data_type=tensor.data_type, data_location=onnx.TensorProto.EXTERNAL)
    made.external_data.add(key="location", value=file)
    return made


def test_tensors_of_attributes_are_read_from_their_files(tmp_path):
    values, places = (np.asarray(v, dtype) for v, dtype in (([1.5, 2.5], np.float32), ([0, 2], np.int64)))
    (tmp_path / "values").write_bytes(values.tobytes())
    (tmp_path / "places").write_bytes(places.tobytes())
    kept = [_stored(onnx.numpy_helper.from_array(a), f) for a, f in ((values, "values"), (places, "places"))]
    sparse = onnx.SparseTensorProto(values=kept[0], indices=kept[1], dims=[3])
    source = model("y = Constant() z = Constant()", 13, inputs="", outputs="float[2] y, float[3] z")
    source.graph.node[0].attribute.append(onnx.helper.make_attribute("value", kept[0]))
    source.graph.node[1].attribute.append(onnx.helper.make_attribute("sparse_value", sparse))
    found = call(source, 13, folder=str(tmp_path)).attributes["value"]
    assert onnx.numpy_helper.to_array(found).tolist() == [1.5, 2.5]
    found = call(source, 13, index=1, folder=str(tmp_path)).attributes["sparse_value"]
    assert onnx.numpy_helper.to_array(found.values).tolist() == [1.5, 2.5]
    assert onnx.numpy_helper.to_array(found.indices).tolist() == [0, 2]
    assert list(found.dims) == [3]
    (tmp_path / "places").unlink()
    with pytest.raises(CannotConvert, match="the external data of attribute sparse_value cannot be read"):
        call(source, 13, index=1, folder=str(tmp_path)).attributes["sparse_value"]


def test_a_call_without_outputs_gives_its_name_to_what_is_built():
    source = model("y = Relu(x)", 14, inputs="float[2] x", outputs="float[2] y")
    node = call(source, 14)
    assert node.build.Abs("x") == "y/Abs"
    assert Builder(node.scope, 14).Abs("x") == "Abs/Abs"
