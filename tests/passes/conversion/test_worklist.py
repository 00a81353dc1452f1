"""The engine leaves alone what it need not look at: constants that hold a tensor of a type that the target takes."""

import onnx.helper
import onnx.numpy_helper
import pytest
from onnx import TensorProto
from opshift.passes.conversion import convert, moves

import opshift
from tests.exported import store as exported
from tests.support import model

BODY = """
  a = Constant<value = float[2] {1.0, 2.0}>()
  i = Constant<value = int64[1] {1}>()
  j = Constant<value = int64[1] {1}>()
  b = Add(a, x)
  s = Add(i, j)
  y = Tile(b, s)
"""


def source():
    """As exporters write it: with raw data, and without the name of the default domain."""
    made = model(BODY, 13, inputs="float[2] x", outputs="float[M] y")
    for node in made.graph.node:
        node.ClearField("domain")
        for attribute in node.attribute:
            attribute.t.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(attribute.t)))
    return made


@pytest.mark.parametrize("target", [12, 11, 9])
def test_no_step_looks_at_a_tensor_that_the_target_takes(monkeypatch, target):
    crossed, cross = [], moves.cross_boundary
    monkeypatch.setattr(
        moves, "cross_boundary", lambda work, *args: (crossed.append(work.op[1]), cross(work, *args))[1]
    )
    result = convert.attempt(source(), {"": target})
    assert not result.refusals
    assert "Constant" not in crossed
    assert result.model.graph == source().graph
    assert result.changes == ()


def test_one_of_a_type_that_the_target_lacks_is_refused_and_none_other():
    given = source()
    held = onnx.helper.make_tensor("", TensorProto.BFLOAT16, [1], [1.0])
    given.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["h"], value=held))
    given.graph.node.append(onnx.helper.make_node("Identity", ["h"], ["z"]))
    given.graph.output.append(onnx.helper.make_tensor_value_info("z", TensorProto.BFLOAT16, [1]))
    refusals = convert.attempt(given, {"": 12}).refusals
    assert {refusal.node for refusal in refusals if refusal.op == "Constant"} <= {"h"}
    assert refusals


def test_before_opset_9_integers_become_initializers():
    made = convert.attempt(source(), {"": 8}).model
    assert [node.op_type for node in made.graph.node] == ["Constant", "Add", "Add", "Tile"]
    assert [tensor.name for tensor in made.graph.initializer] == ["i", "j"]


def test_short_forms_become_tensors_beside_others():
    body = "c = Constant<value_floats = [1.0, 2.0]>() d = Constant<value = float[2] {1.0, 2.0}>() e = Add(c, d) y = Add(e, x)"
    given = model(body, 13, inputs="float[2] x", outputs="float[2] y")
    result = convert.attempt(given, {"": 11})
    assert [(change.node, change.op) for change in result.changes] == [("c", "Constant")]
    assert [node.attribute[0].name for node in result.model.graph.node[:2]] == ["value", "value"]


@pytest.mark.long
def test_what_is_left_of_a_refused_node_is_not_tidied_as_if_it_had_arrived():
    """A Slice of opset 10 beside an Expand that is refused was read as one of opset 7: KeyError."""
    export = next(held for held in exported.read("torch") if held.name == "torch/resnet.dynamic/dynamo_raw-18")
    refusals = opshift.plan(export.model, "onnx2torch-1.5").refusals
    assert [refusal.op for refusal in refusals] == ["ReduceMean", "input"]
