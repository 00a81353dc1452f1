"""What a builder emits, and what is known of it then."""

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import pytest
from onnx import TensorProto
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.model.types import tensor_type
from opshift.passes.rewrite.builder import Builder

from tests.passes.rewrite.support import call
from tests.support import evaluate, model


@pytest.fixture
def node():
    return call(model("y = Relu(x)", 18, inputs="float[2,3] x, int64 n", outputs="float[2,3] y"), 18)


def written(build):
    return [onnx.printer.to_text(node) for node in build.nodes]


def run(node, *results):
    """The graph with what was built, which yields the results."""
    graph = node.scope.graph
    del graph.output[:]
    graph.node.extend(node.build.nodes)
    for name in results:
        graph.output.add(name=name).type.CopyFrom(node.scope.type(name))
    made = node.scope.context.model
    onnx.checker.check_model(made, full_check=True)
    return made


def test_operands_are_names_numbers_or_left_out(node):
    build = node.build
    clipped = build.Clip("x", None, None)
    cut = build.Slice(clipped, [0], [1], None, [2])
    assert [list(made.input) for made in build.nodes] == [["x"], [clipped, "const", "const_1", "", "const_2"]]
    held = {t.name: onnx.numpy_helper.to_array(t) for t in node.scope.graph.initializer}
    assert {name: value.tolist() for name, value in held.items()} == {"const": [0], "const_1": [1], "const_2": [2]}
    assert {value.dtype for value in held.values()} == {np.dtype(np.int64)}
    gathered = build.Gather(cut, 1)
    assert onnx.numpy_helper.to_array(node.scope.tensor(build.nodes[-1].input[1])).shape == ()
    assert node.scope.shape(gathered) == [3]


def test_an_unknown_name_is_no_operator(node):
    with pytest.raises(AttributeError, match="emits"):
        _ = node.build.emits


def test_attributes_are_of_the_types_that_the_schema_declares(node):
    build = node.build
    build.LeakyRelu("x", alpha=1)
    build.Cast("x", to=TensorProto.DOUBLE, saturate=None)
    build.emit("Anything", ["x"], {"alpha": 1}, domain="there", outputs=2)
    first, second, third = build.nodes
    assert first.attribute[0].type == onnx.AttributeProto.FLOAT
    assert [(a.name, a.i) for a in second.attribute] == [("to", 11)]
    assert (third.domain, third.attribute[0].type, len(third.output)) == ("there", onnx.AttributeProto.INT, 2)
    older = Builder(node.scope, 5)
    older.Cast("x", to=TensorProto.DOUBLE)
    assert older.nodes[0].attribute[0].s == b"DOUBLE"


@pytest.mark.parametrize(("name", "names"), [("", ["", ""]), ("first", ["first/Abs", "first/Neg"])])
def test_what_is_built_is_named_after_the_call(node, name, names):
    node.proto.name = name
    build = Builder(node.scope, 18, node.proto)
    assert build.Neg(build.Abs("x")) == "y/Neg"
    assert [made.name for made in build.nodes] == names


def test_a_copy_keeps_what_is_not_said_anew(node):
    build = node.build
    old = onnx.helper.make_node(
        "Scan", ["x"], ["a", "", "c"], num_scan_inputs=1, domain="there", doc_string="why", extra=2
    )
    made = build.again(old, ["x", "n"], num_scan_inputs=3, extra=None)
    [copy] = build.nodes
    assert made == list(copy.output)
    assert (made[1], all([made[0], made[2]]), made[0] != made[2]) == ("", True, True)
    assert (copy.domain, copy.doc_string, list(copy.input)) == ("there", "why", ["x", "n"])
    assert [(a.name, a.i) for a in copy.attribute] == [("num_scan_inputs", 3)]
    assert list(old.output) == ["a", "", "c"]
    assert build.copies == [copy]
    assert node.scope.context.descended == set(copy.output)
    assert isinstance(build.again(onnx.helper.make_node("Relu", ["x"], ["y"]), ["x"]), str)


def test_a_function_holds_constants_in_nodes():
    function = onnx.helper.make_function("own", "F", ["x"], ["y"], [], [onnx.helper.make_opsetid("", 18)])
    scope = Scope(function, Context(onnx.ModelProto(), onnx.ModelProto()), 18)
    build = Builder(scope, 18)
    name = build.constant(2.0, TensorProto.FLOAT)
    assert [made.op_type for made in build.nodes] == ["Constant"]
    assert name == build.nodes[0].output[0]
    assert scope.array(name) == 2.0


def test_equal_constants_are_one(node):
    build = node.build
    assert build.constant([1, 2], TensorProto.INT64) == build.constant([1, 2], TensorProto.INT64)
    assert build.constant([1, 2], TensorProto.INT32, "others") == "others"
    assert not build.nodes


def test_a_branch_yields_a_value_of_its_own(node):
    """One that reads its surroundings alone repeats a value."""
    build = node.build
    kept = build.branch(lambda inner: "x", "kept")
    changed = build.branch(lambda inner: inner.Neg("x"), "changed", TensorProto.FLOAT)
    assert [made.op_type for made in (*kept.node, *changed.node)] == ["Identity", "Neg"]
    assert [graph.output[0].name for graph in (kept, changed)] == [graph.node[0].output[0] for graph in (kept, changed)]
    assert (kept.output[0].type, changed.output[0].type) == (onnx.TypeProto(), tensor_type(TensorProto.FLOAT))
    assert (kept.name, changed.name) == ("kept", "changed")
    test = build.Greater("n", build.constant(0, TensorProto.INT64))
    chosen = build.set_type(build.If(test, then_branch=kept, else_branch=changed), TensorProto.FLOAT, [2, 3])
    made = run(node, chosen)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert evaluate(made, {"x": x, "n": np.array(1)})[0].tolist() == x.tolist()
    assert evaluate(made, {"x": x, "n": np.array(0)})[0].tolist() == (-x).tolist()


def test_a_value_after_some_rounds(node):
    build = node.build
    after = build.repeat("n", "x", lambda inner, at, value: inner.Add(value, inner.Cast(at, to=1)), TensorProto.FLOAT)
    assert (node.scope.elem_type(after), node.scope.shape(after)) == (TensorProto.FLOAT, [2, 3])
    made = run(node, after)
    x = np.zeros((2, 3), np.float32)
    assert [evaluate(made, {"x": x, "n": np.array(n)})[0].max() for n in (0, 1, 4)] == [0, 0, 6]


def test_a_loop_yields_what_each_round_makes(node):
    build = node.build
    kind = tensor_type(TensorProto.FLOAT, [2, 3])

    def body(inner, at, values):
        doubled = inner.Add(values[0], values[0])
        return [doubled, doubled, at]

    last, rows, rounds = build.loop("n", [("x", kind)], body)
    assert [node.scope.shape(name) for name in (last, rows, rounds)] == [[2, 3], [None, 2, 3], [None]]
    assert [node.scope.elem_type(name) for name in (last, rows, rounds)] == [1, 1, 7]
    made = run(node, last, rows, rounds)
    x = np.ones((2, 3), np.float32)
    last, rows, rounds = evaluate(made, {"x": x, "n": np.array(3)})
    assert (last[0, 0], rows[:, 0, 0].tolist(), rounds.tolist()) == (8, [2, 4, 8], [0, 1, 2])


@pytest.mark.parametrize(
    ("counted", "begins", "rounds"), [(False, None, 3), (True, None, 2), (True, "no", 0), (False, "no", 0)]
)
def test_a_loop_ends_as_its_body_says_or_by_its_count(node, counted, begins, rounds):
    build = node.build
    begins = begins and build.constant(False, TensorProto.BOOL)

    def body(inner, at, values):
        more = inner.Add(values[0], inner.constant(1.0, TensorProto.FLOAT))
        return [inner.Less(at, 2), more]

    count = 2 if counted else None
    [after] = build.loop(count, [("x", tensor_type(TensorProto.FLOAT, [2, 3]))], body, ends=True, begins=begins)
    made = run(node, after)
    assert evaluate(made, {"x": np.zeros((2, 3), np.float32), "n": np.array(0)})[0].tolist() == [[rounds] * 3] * 2
