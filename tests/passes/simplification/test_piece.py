"""What a conversion makes is tidied where it makes it; what the user wrote is not."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.conversion import convert
from opshift.passes.simplification import piece

from tests.support import check, check_values, model, show


def converted(body, opset, target, **io):
    source = model(body, opset, **io)
    result = convert.attempt(source, {"": target})
    assert result.model is not None, "\n".join(map(str, result.refusals))
    check_values(source, result.model, rtol=0, atol=0)
    return result.model


def test_constants_that_a_step_made_are_computed():
    made = converted(
        "y = Pad<mode=\"wrap\">(x, p)", 19, 18,
        inputs="float[4] x", outputs="float[7] y", constants="int64[2] p = {1, 2}",
    )  # fmt: skip
    assert not [node for node in made.graph.node if node.op_type == "Constant"]


def test_a_value_is_cast_once():
    check(
        "y = Equal(x, x)", 19, "t1 = Cast<to=7>(x)\ny = Equal(t1, t1)", 10,
        inputs="uint32[N] x", outputs="bool[N] y",
    )  # fmt: skip


@pytest.mark.parametrize("node", ["Add(x, zero)", "Identity(x)", "Mul(x, one)"])
def test_what_the_user_wrote_stays(node):
    io = {"inputs": "float[N,3] x", "outputs": "float[N,3] y", "constants": "float zero = {-0.0}, float one = {1.0}"}
    made = converted(f"a = {node} b = Add(zero, one) c = Mul(a, b) y = Softmax<axis=0>(c)", 13, 12, **io)
    assert show(made).startswith(f"t1 = {node}".replace("zero", "-0.0").replace("one", "1.0"))
    assert "Add(-0.0, 1.0)" in show(made)


def test_a_call_of_the_operator_itself_stays():
    made = converted("y, m = Dropout(x)", 12, 11, inputs="float[N] x", outputs="float[N] y, bool[N] m")
    assert "y = Dropout(x)" in show(made)


def test_pieces_inside_branches_and_functions_are_tidied():
    text = """<ir_version: 8, opset_import: ["" : 19, "own" : 1]>
    g (uint32[N] x, bool c) => (bool[N] y) {
        y = If (c) <then_branch = t () => (bool[N] a) { a = Equal(x, x) }, else_branch = e () => (bool[N] b) { b = own.f(x) }>
    }
    <domain: "own", opset_import: ["" : 19]>
    f (p) => (q) { q = Equal(p, p) }"""
    source = onnx.parser.parse_model(text)
    result = convert.attempt(source, {"": 10})
    assert result.model is not None
    assert show(result.model).count("t1 = Cast<to=7>(x); t2 = Equal(t1, t1)") == 2
    for c in (True, False):
        check_values(source, result.model, {"c": np.asarray(c)}, rtol=0, atol=0)


def test_what_the_user_wrote_in_a_function_stays():
    text = """<ir_version: 8, opset_import: ["" : 19, "own" : 1]>
    g (uint32[2,3] x) => (bool[2,3] y) { y = own.f(x) }
    <domain: "own", opset_import: ["" : 19]>
    f (p) => (q) { a = Transpose<perm=[1,0]>(p) b = Transpose<perm=[1,0]>(a) unread = Shape(b) q = Equal(b, b) }"""
    result = convert.attempt(onnx.parser.parse_model(text), {"": 10}, ops={("own", "f")})
    assert result.model is not None
    made = [node.op_type for node in result.model.graph.node]
    assert made == ["Transpose", "Transpose", "Shape", "Cast", "Equal"]


def test_rules_that_ask_for_readers_find_those_of_the_piece():
    """What Shrink becomes adds a zero, of which there is a rule that looks at all readers."""
    source = model("y = Shrink(x)", 9, inputs="float[4] x", outputs="float[4] y")
    made = convert.attempt(source, {"": 7}).model
    check_values(source, made, {"x": np.float32([-2, -0.0, 0.25, 3])}, rtol=0, atol=0)


def tidied(body, opset=18, op="", written=()):
    """What is left of the nodes of a body that took the place of a call."""
    source = model(body, opset, inputs="float[3] x, bool c", outputs="float[3] y", constants="float one = {1}")
    nodes = list(source.graph.node)
    scope = Scope(source.graph, Context(source, source), opset, path=())
    made = piece.simplify_piece(nodes, op, [nodes[at] for at in written], ["y"], scope, opset)
    return [f"{', '.join(node.output)} = {node.op_type}({', '.join(node.input)})" for node in made]


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("t = Relu(x) y = Identity(t)", ["y = Relu(x)"]), ("t = Relu(x) u = Identity(t) y = Neg(u)", ["t = Relu(x)", "y = Neg(t)"]),
        ("t = Relu(x) u = Relu(x) y = Add(t, u)", ["t = Relu(x)", "y = Add(t, t)"]), ("t = Relu(x) u = Neg(x) y = Abs(t)", ["t = Relu(x)", "u = Neg(x)", "y = Abs(t)"]),
        ("t = Relu(x) u = Identity(t) v = Exp(t) w = Identity(u) y = Add(v, w)", ["t = Relu(x)", "v = Exp(t)", "y = Add(v, t)"]),
    ],
)  # fmt: skip
def test_what_is_left_of_nodes_makes_their_results(body, left):
    assert tidied(body) == left


@pytest.mark.parametrize(("opset", "tidy"), [(6, False), (7, True), (8, True)])
def test_nodes_are_tidied_where_rules_are_known(opset, tidy):
    assert tidied("t = Relu(x) y = Identity(t)", opset) == (
        ["y = Relu(x)"] if tidy else ["t = Relu(x)", "y = Identity(t)"]
    )


def test_calls_of_the_operator_what_users_wrote_and_what_holds_graphs_stay():
    body, kept = "t = Relu(x) y = Identity(t)", ["t = Relu(x)", "y = Identity(t)"]
    assert tidied(body, op="Identity") == tidied(body, written=[1]) == kept
    assert tidied(f"u = Abs(x) {body}", written=[0]) == ["u = Abs(x)", "y = Relu(x)"]
    branch = "If <then_branch = a () => (float[3] p) { p = Neg(x) }, else_branch = b () => (float[3] q) { q = Abs(x) }>"
    assert tidied(f"{body} z = {branch} (c)") == [*kept, "z = If(c)"]
