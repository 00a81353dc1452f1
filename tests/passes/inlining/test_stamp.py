"""A function body in the place of a call: names, attributes, what is left out."""

import numpy as np
import onnx.parser
from onnx import TensorProto, helper
from opshift.passes.inlining.stamp import stamp
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.editing.names import Names
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.traversal import subgraphs

from tests.support import model


def function(text, attributes="", defaults=""):
    head = f"f <{attributes}> {text}" if attributes else f"f {text}"
    return onnx.parser.parse_function(f'<domain: "my", opset_import: ["" : 18]> {head}')


def stamped(body, inputs, outputs, **attributes):
    taken = model("y = Add(x, t)", 18, inputs="float[2] x, float[2] t", outputs="float[2] y")
    given = {name: make_attribute(name, value) for name, value in attributes.items()}
    return stamp(body, inputs, outputs, given, Names(taken).fresh)


def text(nodes):
    """One line a node; the graphs of a node follow it, indented."""
    lines = []
    for node in nodes:
        shown = [
            f"{a.name}=@{a.ref_attr_name}" if a.ref_attr_name else f"{a.name}={helper.get_attribute_value(a)}"
            for a in node.attribute
            if not a.HasField("g")
        ]
        inside = f"<{', '.join(shown)}>" if shown else ""
        lines.append(f"{', '.join(node.output)} = {node.op_type}{inside}({', '.join(node.input)})")
        for name, _, graph in subgraphs(node):
            formals = ", ".join(v.name for v in graph.input)
            lines.append(f"  {name}({formals}) -> {', '.join(v.name for v in graph.output)}")
            lines += [f"  {line}" for line in text(graph.node)]
    return lines


def test_inputs_and_outputs_are_bound_and_inner_names_are_fresh():
    body = function("(a, b) => (r) { t = Mul(a, b) x = Neg(t) r = Add(x, a) }")
    nodes = stamped(body, ["x", "y"], ["z"])
    assert text(nodes) == ["t_1 = Mul(x, y)", "x_1 = Neg(t_1)", "z = Add(x_1, x)"]
    assert [n.output[0] for n in body.node] == ["t", "x", "r"], "the body itself was changed"


def test_crossed_names_do_not_capture_each_other():
    body = function("(x, y) => (r) { r = Sub(x, y) }")
    assert text(stamped(body, ["y", "x"], ["z"])) == ["z = Sub(y, x)"]


def test_a_graph_may_call_its_value_what_the_function_calls_its_result():
    graph = "{0} = {0} () => (r) {{ r = {1}(a) }}"
    body = function(
        f"(a, c) => (r) {{ r = If (c) <{graph.format('then_branch', 'Neg')}, {graph.format('else_branch', 'Abs')}> }}"
    )
    assert text(stamped(body, ["x", "c"], ["z"])) == [
        "z = If(c)", "  then_branch() -> r", "  r = Neg(x)", "  else_branch() -> r_1", "  r_1 = Abs(x)",
    ]  # fmt: skip


def test_inputs_that_the_call_leaves_out():
    body = function("(a, lo, hi) => (r) { r = Clip(a, lo, hi) }")
    assert text(stamped(body, ["x"], ["z"])) == ["z = Clip(x)"]
    assert text(stamped(body, ["x", "", "h"], ["z"])) == ["z = Clip(x, , h)"]


def test_outputs_that_the_call_leaves_out():
    body = function("(a) => (r, s) { r, s = TopK(a, a) }")
    assert text(stamped(body, ["x"], ["z"])) == ["z, s = TopK(x, x)"]
    assert text(stamped(body, ["x"], ["", "z"])) == ["r, z = TopK(x, x)"]


def test_inner_outputs_that_nobody_names_stay_nameless():
    body = function("(a) => (r) { r, _ = TopK(a, a) }")
    body.node[0].output[1] = ""
    assert text(stamped(body, ["x"], ["z"])) == ["z,  = TopK(x, x)"]


def test_an_input_that_is_returned_and_a_value_that_is_returned_twice():
    body = function("(a) => (a, r) { r = Neg(a) }")
    assert text(stamped(body, ["x"], ["z", "w"])) == ["w = Neg(x)", "z = Identity(x)"]
    body = function("(a) => (r, r) { r = Neg(a) }")
    assert text(stamped(body, ["x"], ["z", "w"])) == ["z = Neg(x)", "w = Identity(z)"]


def test_attributes_are_bound_given_before_default_before_absent():
    body = function(
        "(a) => (r) { r = Foo<p: int = @one, q: int = @two, s: float = @three, k = 7>(a) }", "one, two: int = 2, three"
    )
    assert text(stamped(body, ["x"], ["z"], one=5)) == ["z = Foo<p=5, q=2, k=7>(x)"]
    assert text(stamped(body, ["x"], ["z"], one=5, two=6, three=0.5)) == ["z = Foo<p=5, q=6, s=0.5, k=7>(x)"]


def test_a_reference_bound_to_a_reference_stays_one():
    body = function("(a) => (r) { r = Foo<p: int = @one>(a) }", "one")
    outer = make_attribute("one", 0)
    outer.ClearField("i")
    outer.ref_attr_name = "mine"
    nodes = stamp(
        body, ["x"], ["z"], {"one": outer}, Names(model("y = Neg(x)", 18, inputs="float x", outputs="float y")).fresh
    )
    assert text(nodes) == ["z = Foo<p=@mine>(x)"]


def test_subgraphs_see_outer_names_and_keep_their_own_apart():
    body = function(
        """(a, c) => (r) {
          t = Neg(a)
          r = If(c) <then_branch = one () => (float[2] t2) { t2 = Add(t, a) },
                     else_branch = two () => (float[2] t) {  }>
        }"""
    )
    assert text(stamped(body, ["x", "y"], ["z"])) == [
        "t_1 = Neg(x)",
        "z = If(y)",
        "  then_branch() -> t2",
        "  t2 = Add(t_1, x)",
        "  else_branch() -> t_1",
    ]


def test_the_same_name_in_both_branches_becomes_two():
    body = function(
        """(a, c) => (r) {
          r = If(c) <then_branch = one () => (float[2] t) { t = Neg(a) },
                     else_branch = two () => (float[2] t) { t = Abs(a) }>
        }"""
    )
    assert text(stamped(body, ["x", "y"], ["z"])) == [
        "z = If(y)",
        "  then_branch() -> t_1",
        "  t_1 = Neg(x)",
        "  else_branch() -> t_1_1",
        "  t_1_1 = Abs(x)",
    ]


def test_formal_inputs_and_constants_of_subgraphs_are_fresh():
    body = function(
        """(a, n) => (r) {
          r = Loop(n, , a) <body = step (int64 x, bool t, float[2] v) => (bool t, float[2] w) <float[1] k = {2}>
            { w = Mul<alpha: float = @scale>(v, k) }>
        }""",
        "scale",
    )
    nodes = stamped(body, ["y", "n"], ["z"], scale=0.5)
    assert text(nodes) == [
        "z = Loop(n, , y)",
        "  body(x_1, t_1, v) -> t_1, w",
        "  w = Mul<alpha=0.5>(v, k)",
    ]
    assert nodes[0].attribute[0].g.initializer[0].name == "k"


def test_a_constant_of_a_subgraph_whose_name_is_taken():
    body = function("(a, c) => (r) { r = If(c) <then_branch = g () => (float[1] t) <float[1] t = {2}> { }> }")
    graph = stamped(body, ["x", "y"], ["z"])[0].attribute[0].g
    assert (graph.initializer[0].name, graph.output[0].name) == ("t_1", "t_1")
    assert body.node[0].attribute[0].g.initializer[0].name == "t"


def test_a_default_of_a_formal_input_follows_its_name():
    body = function("(a, c) => (r) { r = If(c) <then_branch = g (float[1] t) => (float[1] t) <float[1] t = {2}> { }> }")
    graph = stamped(body, ["x", "y"], ["z"])[0].attribute[0].g
    assert (graph.input[0].name, graph.initializer[0].name, graph.output[0].name) == ("t_1", "t_1", "t_1")


def test_sparse_constants_of_subgraphs_are_renamed():
    body = function("(a, c) => (r) { r = If(c) <then_branch = g () => (float[2] u) { u = Neg(t) }> }")
    graph = body.node[0].attribute[0].g
    sparse = graph.sparse_initializer.add(dims=[2])
    sparse.values.CopyFrom(helper.make_tensor("t", TensorProto.FLOAT, [1], [3.0]))
    sparse.indices.CopyFrom(helper.make_tensor("", TensorProto.INT64, [1], [1]))
    made = stamped(body, ["x", "y"], ["z"])[0].attribute[0].g
    assert made.sparse_initializer[0].values.name == "t_1"
    assert made.node[0].input[0] == "t_1"


def test_node_names_are_fresh():
    body = function("(a) => (r) { [x] r = Neg(a) }")
    assert [n.name for n in stamped(body, ["x"], ["z"])] == ["x_1"]


def test_rename_reaches_subgraphs():
    source = model(
        "y = If(c) <then_branch = t () => (float[2] q) { q = Neg(x) }, else_branch = e () => (float[2] x) { }>",
        18, inputs="float[2] x, bool c", outputs="float[2] y",
    )  # fmt: skip
    nodes = list(source.graph.node)
    rename(nodes, {"x": "w"})
    rename(nodes, {"y": "v"})
    assert text(nodes) == [
        "v = If(c)",
        "  then_branch() -> q",
        "  q = Neg(w)",
        "  else_branch() -> w",
    ]


def test_large_constants_are_not_shared_with_the_body():
    body = function("(a) => (r) { k = Constant<value = float[2] {1, 2}>() r = Add(a, k) }")
    first, second = (stamped(body, ["x"], ["z"]) for _ in range(2))
    first[0].attribute[0].t.float_data[0] = 9
    kept = [n[0].attribute[0].t for n in (second, [body.node[0]])]
    assert all(np.array_equal(onnx.numpy_helper.to_array(t), [1, 2]) for t in kept)
