"""Graphs whose nodes take their call's place."""

import onnx
import onnx.helper
import pytest
from onnx import TensorProto
from opshift.passes.model.editing import branches
from opshift.passes.model.editing.constants import in_nodes
from opshift.passes.model.editing.renaming import rename

INNER = onnx.parser.parse_graph(
    "g () => (float[2] v, float[2] x, float[2] v) <float[2] w = {1, 2}> { u = Add(x, w) v = Relu(u) }"
)


def calls(nodes):
    return [f"{', '.join(n.output)} = {n.op_type}({', '.join(n.input)})" for n in nodes]


def test_a_condition_takes_a_branch():
    other = onnx.parser.parse_graph("h () => (float[2] v) { v = Neg(x) }")
    node = onnx.helper.make_node("If", ["c"], ["y"], else_branch=other, then_branch=INNER)
    assert [branches.branch_of(node, condition).name for condition in (True, False, 1, 0)] == ["g", "h", "g", "h"]
    del node.attribute[0]
    assert (branches.branch_of(node, True) or branches.branch_of(node, False)).name in "gh"
    assert None in (branches.branch_of(node, True), branches.branch_of(node, False))


@pytest.mark.parametrize("fresh", [None, lambda name: f"{name}_new"])
def test_what_a_branch_yields_has_the_names_of_outside(fresh):
    node = onnx.NodeProto(op_type="If", output=["a", "b", "d"])
    held = INNER.SerializeToString()
    made = branches.splice(node, INNER, fresh)
    u, w = ("u_new", "w_new") if fresh else ("u", "w")
    assert calls(made) == [
        f"{w} = Constant()", f"{u} = Add(x, {w})", f"a = Relu({u})", "b = Identity(x)", "d = Identity(a)"
    ]  # fmt: skip
    assert list(made[0].attribute[0].t.float_data) == [1.0, 2.0]
    assert INNER.SerializeToString() == held
    with pytest.raises(ValueError, match="zip"):
        branches.splice(onnx.NodeProto(output=["a"]), INNER)


def test_what_a_graph_is_given_stands_for_its_inputs():
    graph = onnx.parser.parse_graph("g (float[2] i, float[2] j) => (float[2] v) { v = Add(i, j) }")
    assert calls(branches.inline_branch(graph, [("v", "y"), ("i", "z")], {"i": "x"})) == [
        "y = Add(x, j)",
        "z = Identity(x)",
    ]


def test_names_are_changed_at_any_depth():
    inner = onnx.parser.parse_graph("h () => (float[2] a, float[2] b) { a = Neg(x) b = Neg(k) }")
    middle = onnx.GraphProto(name="m", node=[onnx.helper.make_node("If", ["a"], ["q"], then_branch=inner)])
    nodes = [onnx.parser.parse_node("a = Relu(x)"), onnx.helper.make_node("If", ["c"], ["y"], then_branch=middle)]
    rename(nodes, {"a": "A", "x": "X", "q": "Q"})
    assert calls(nodes) == ["A = Relu(X)", "y = If(c)"]
    middle = nodes[1].attribute[0].g
    assert calls(middle.node) == ["Q = If(A)"]
    inner = middle.node[0].attribute[0].g
    assert calls(inner.node) == ["A = Neg(X)", "b = Neg(k)"]
    assert [value.name for value in inner.output] == ["A", "b"]


@pytest.mark.parametrize(
    ("values", "kind", "opset", "ops", "to"),
    [
        ([1.5], TensorProto.FLOAT, 5, ["Constant"], None),
        ([1.5], TensorProto.DOUBLE, 5, ["Constant"], None),
        ([1.5], TensorProto.FLOAT16, 5, ["Constant"], None),
        ([1, -2], TensorProto.INT64, 5, ["Constant", "Cast"], "INT64"),
        ([1, -2], TensorProto.INT64, 6, ["Constant", "Cast"], 7),
        ([1, 0], TensorProto.BOOL, 6, ["Constant", "Cast"], 9),
        ([200], TensorProto.UINT8, 6, ["Constant", "Cast"], 2),
        ([2**53 + 1], TensorProto.INT64, 6, [], None),
        (["a"], TensorProto.STRING, 6, [], None),
    ],
)
def test_constants_as_nodes_of_old_opsets(values, kind, opset, ops, to):
    tensor = onnx.helper.make_tensor("t", kind, [len(values)], values)
    made = in_nodes(tensor, opset, lambda name: f"{name}/wide")
    assert [node.op_type for node in made] == ops
    if len(made) == 2:
        assert calls(made) == ["t/wide = Constant()", "t = Cast(t/wide)"]
        assert onnx.numpy_helper.to_array(made[0].attribute[0].t).tolist() == [float(value) for value in values]
        assert onnx.helper.get_attribute_value(made[1].attribute[0]) in (to, str(to).encode())
    elif made:
        assert (list(made[0].output), made[0].attribute[0].t) == (["t"], tensor)
