"""What takes a call's place takes over what is said of it."""

import onnx
import pytest
from onnx import NodeProto, StringStringEntryProto, TensorProto
from opshift.passes.errors import CannotConvert
from opshift.passes.model.types import tensor_type
from opshift.passes.rewrite import replace

from tests.passes.rewrite.support import call
from tests.support import model


@pytest.fixture
def node():
    source = model(
        "y, z = TopK<axis=1>(x, k) w = Relu(y)", 11, inputs="float[2,3] x, int64[1] k", outputs="float[2,1] w"
    )
    source.graph.node[0].doc_string = "why"
    source.graph.node[0].metadata_props.append(StringStringEntryProto(key="a", value="b"))
    return call(source, 11)


def calls(nodes):
    return [f"{', '.join(n.output)} = {n.op_type}({', '.join(n.input)})" for n in nodes]


def test_made_values_take_over_the_names_of_outputs(node):
    build = node.build
    inner = build.Abs("x")
    made = build.set_type(build.Neg(inner), TensorProto.FLOAT, [2, 1])
    nodes = replace.take_over(node, [made, build.Cast(made, to=TensorProto.INT64)])
    assert calls(nodes) == [f"{inner} = Abs(x)", f"y = Neg({inner})", "z = Cast(y)"]
    assert node.scope.typed == {"y": tensor_type(TensorProto.FLOAT, [2, 1])}
    assert node.scope.maker("y") is nodes[1]
    assert node.scope.opset_of(nodes[1]) == 11
    assert node.scope.context.released == {"x", "k"}
    assert [(n.doc_string, len(n.metadata_props)) for n in nodes] == [("", 0), ("why", 1), ("", 0)]


def test_a_value_that_stands_for_two_outputs_is_repeated(node):
    made = node.build.Abs("x")
    assert calls(replace.take_over(node, [made, made])) == ["y = Abs(x)", "z = Identity(y)"]


def test_a_value_that_was_there_is_repeated(node):
    assert calls(replace.take_over(node, ["x", "z"])) == ["y = Identity(x)"]


def test_what_nobody_reads_needs_no_value(node):
    assert calls(replace.take_over(node, [node.build.Abs("x"), ""])) == ["y = Abs(x)"]


def test_what_is_read_needs_a_value(node):
    with pytest.raises(
        CannotConvert, match='"y" is used, but the operator\'s documentation does not say what it means'
    ):
        replace.take_over(node, ["", node.build.Abs("x")])


def test_what_was_dissolved_has_no_value(node):
    node.scope.dissolve("y", ["x"])
    assert calls(replace.take_over(node, ["", "k"])) == ["z = Identity(k)"]


def test_an_omitted_output_has_no_value(node):
    node.proto.output[1] = ""
    assert calls(replace.take_over(node, [node.build.Abs("x"), "k"])) == ["y = Abs(x)"]


def test_a_value_more_than_outputs_is_an_error(node):
    with pytest.raises(ValueError, match="longer"):
        replace.take_over(node, ["x", "k", "x"])


@pytest.mark.parametrize(("name", "names"), [("", ["", ""]), ("top", ["top/Abs", "top"])])
def test_the_heir_has_the_name_and_others_are_named_after_it(node, name, names):
    node.proto.name = name
    nodes = [NodeProto(op_type="Abs", input=["x"], output=["a"]), NodeProto(op_type="Neg", input=["a"], output=["y"])]
    replace.inherit(nodes, node)
    assert [n.name for n in nodes] == names


def test_without_the_first_output_the_last_node_is_the_heir(node):
    node.proto.name = "top"
    nodes = [NodeProto(op_type="Abs", output=["a"], name="own"), NodeProto(op_type="Neg", doc_string="old")]
    replace.inherit(nodes, node)
    assert [(n.name, n.doc_string) for n in nodes] == [("own", ""), ("top", "why")]
    replace.inherit([], node)


def test_what_is_not_said_takes_nothing_away(node):
    """But for what was said of the operator that was copied."""
    node.proto.ClearField("doc_string")
    del node.proto.metadata_props[:]
    heir = NodeProto(op_type="Neg", output=["y"], name="own", doc_string="old")
    heir.metadata_props.append(StringStringEntryProto(key="c", value="d"))
    replace.inherit([heir], node)
    assert (heir.name, heir.doc_string, len(heir.metadata_props)) == ("own", "old", 0)


@pytest.fixture
def planned(node):
    proto = node.proto
    staged = proto.device_configurations.add(configuration_id="two", pipeline_stage=0)
    for name in ("x", "k", "y"):
        staged.sharding_spec.add(tensor_name=name)
    proto.device_configurations.add(configuration_id="one").sharding_spec.add(tensor_name="z")
    return node


@pytest.mark.newest
def test_the_stage_goes_to_all_that_is_made_and_the_split_to_none(planned):
    nodes = [NodeProto(op_type="Abs", output=["a"]), NodeProto(op_type="Neg", output=["y"]), planned.proto]
    replace.inherit(nodes, planned)
    for made in nodes[:2]:
        [held] = made.device_configurations
        assert (held.configuration_id, held.HasField("pipeline_stage"), held.pipeline_stage) == ("two", True, 0)
        assert not held.sharding_spec
    assert len(planned.proto.device_configurations) == 2


@pytest.mark.newest
def test_plans_are_lost_for_what_is_no_operand_any_more(planned):
    assert replace.find_lost_plans(planned.proto, True) == {'"x"', '"k"', '"y"', '"z"'}
    assert replace.find_lost_plans(planned.proto, False) == set()
    planned.inputs = ["x"]
    planned.outputs = ["y"]
    assert replace.find_lost_plans(planned.proto, False) == {'"k"', '"z"'}
    replace.drop_stale_shards(planned.proto)
    kept = [[spec.tensor_name for spec in held.sharding_spec] for held in planned.proto.device_configurations]
    assert kept == [["x", "y"], []]
    assert replace.find_lost_plans(onnx.NodeProto(), True) == set()
