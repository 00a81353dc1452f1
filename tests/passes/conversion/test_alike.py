"""Functions that differ in their names alone are inlined as one: the same model, and the same told of it."""

import onnx
import pytest
from onnx import helper
from opshift.passes.conversion import alike, convert
from opshift.passes.model.call_signatures import Survey

from tests.support import evaluate

COUNT = 20
HEAD = '<ir_version: 9, opset_import: ["" : 18, "f" : 1]>'


def function(name, body="s = Mul(x, x) y = Sqrt(s)"):
    return f'<domain: "f", opset_import: ["" : 18]> {name} (x) => (y) {{ {body} }}'


def chain(call, count=COUNT, body="s = Mul(x, x) y = Sqrt(s)", graph="{}"):
    nodes = " ".join(f"v{i + 1} = {call(i)}(v{i})" for i in range(count))
    held = " ".join(function(f"n{i}", body) for i in range(count))
    model = f"{HEAD} g (float[3] v0) => (float[3] v{count}) {{ {graph.format(nodes)} }} {held}"
    return onnx.parser.parse_model(model)


def both(model, monkeypatch, *targets):
    """The results with one function for all, and with each for itself."""
    ops = {(f.domain, f.name) for f in model.functions}
    given = [dict(targets) or {"": 18}, ops]
    merged = convert.attempt(model, given[0], ops=ops)
    with monkeypatch.context() as patched:
        patched.setattr(alike, "_FEWEST", 1 << 30)
        apart = convert.attempt(model, given[0], ops=ops)
    return merged, apart


def merged(model):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return alike.merge_functions(copy, Survey(copy), {(f.domain, f.name) for f in copy.functions}), copy


def test_all_calls_become_calls_of_one():
    found, copy = merged(chain(lambda i: f"f.n{i}"))
    assert {node.op_type for node in copy.graph.node} == {"n0"}
    assert found.names == {f"v{i + 1}": f"n{i}" for i in range(COUNT)}


@pytest.mark.parametrize("count", [1, alike._FEWEST - 1])
def test_a_few_are_left_alone(count):
    found, copy = merged(chain(lambda i: f"f.n{i}", count))
    assert not found.names
    assert [node.op_type for node in copy.graph.node] == [f"n{i}" for i in range(count)]


def test_calls_of_one_name_are_left_alone():
    model = chain(lambda i: f"f.n{i}")
    for node in model.graph.node:
        node.name = "call"
    assert not merged(model)[0].names


def test_functions_that_compute_something_else_stay_apart():
    model = chain(lambda i: f"f.n{i}")
    model.functions[7].node[1].op_type = "Neg"
    found, copy = merged(model)
    assert [node.op_type for node in copy.graph.node] == ["n0"] * 7 + ["n7"] + ["n0"] * (COUNT - 8)
    assert found.as_written([]) == []


@pytest.mark.parametrize("target", [18, 11, 23])
def test_the_same_model_and_the_same_changes(target, monkeypatch):
    model = chain(lambda i: f"f.n{i}")
    one, each = both(model, monkeypatch, ("", target))
    assert one.model.SerializeToString() == each.model.SerializeToString()
    assert one.changes == each.changes
    assert {change.op for change in one.changes} >= {f"n{i}" for i in range(COUNT)}
    assert (one.before, one.after) == (each.before, each.after)
    feeds = {"v0": [1.0, -2.0, 0.0]}
    assert evaluate(one.model, feeds)[0].tolist() == evaluate(model, feeds)[0].tolist() == [1.0, 2.0, 0.0]


def test_calls_in_a_graph_and_in_a_function_that_stays(monkeypatch):
    model = chain(lambda i: f"f.n{i}")
    inner = helper.make_graph(list(model.graph.node), "inner", [], [helper.make_empty_tensor_value_info(f"v{COUNT}")])
    other = onnx.parser.parse_graph(f"other () => (float[3] v{COUNT}) {{ v{COUNT} = Neg(v0) }}")
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other))
    model.graph.input.append(helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []))
    model.graph.output[0].name = "y"
    model.functions.append(onnx.parser.parse_function(function("kept", "y = f.n3(x)")))
    model.functions[-1].opset_import.append(helper.make_opsetid("f", 1))
    one, each = both(model, monkeypatch)
    assert one.model.SerializeToString() == each.model.SerializeToString()
    assert one.changes == each.changes


def test_refusals_name_the_functions_themselves(monkeypatch):
    model = chain(lambda i: f"f.n{i}")
    model.graph.node[3].input.append("v0")
    one, each = both(model, monkeypatch)
    assert one.refusals == each.refusals
    assert [(refusal.op, refusal.why) for refusal in one.refusals] == [
        ("n3", "the call has more inputs or outputs than the function n3 declares")
    ]
