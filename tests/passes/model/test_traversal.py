"""Fresh names, used nowhere else, however many are asked for; and what a walk over a model finds."""

import onnx
import onnx.helper
import pytest
from opshift.passes.model import traversal
from opshift.passes.model.editing.names import Names

from tests.support import model


def fresh_in(body):
    return Names(model(body, 18, inputs="float[2] x, bool c", outputs="float[2] y")).fresh


@pytest.mark.parametrize("hint", ["x", "y", "t", "inner", "c", ""])
def test_no_name_of_the_model_is_given(hint):
    branches = "then_branch = g1 () => (inner) { inner = Neg(t) }, else_branch = g2 () => (other) { other = Abs(t) }"
    fresh = fresh_in(f"t = Neg(x) y = If(c) <{branches}>")
    given = [fresh(hint) for _ in range(5)]
    assert len({*given}) == 5
    assert not {*given} & {"x", "y", "t", "inner", "other", "c", ""}


def test_a_free_name_is_given_as_it_is():
    assert fresh_in("y = Neg(x)")("y/Mul") == "y/Mul"


def test_a_name_that_the_model_uses_gets_a_number():
    fresh = fresh_in("y = Neg(x)")
    assert [fresh("y"), fresh("y")] == ["y_1", "y_1_1"]


def test_names_with_many_endings_stay_apart():
    taken = [f"v{i}" for i in range(3000)]
    body = " ".join(f"{b} = Neg({a})" for a, b in zip(["x", *taken[:-1]], taken, strict=True))
    fresh = fresh_in(f"{body} y = Neg({taken[-1]})")
    given = {fresh(hint) for hint in (*taken, *taken)}
    assert len(given) == 6000
    assert not given & {*taken}


def test_no_name_is_given_that_an_initializer_or_a_dangling_value_info_has():
    source = model("y = Add(x, w)", 18, inputs="float[2] x", outputs="float[2] y", constants="float[2] w = {1, 2}")
    source.graph.value_info.add(name="gone")
    fresh = Names(source).fresh
    assert {fresh("w"), fresh("gone")} & {"w", "gone"} == set()


def test_many_names_at_once_are_those_asked_for_one_by_one():
    source = model("a = Neg(x) b = Neg(a)", 18, inputs="float x", outputs="b")
    source.graph.node[0].name = "x/Mul"
    at_once, one_by_one = Names(source), Names(source)
    tails = ("/Mul", "/Add", "/Mul", "/in/Add", "/x")
    for stem in ("a", "b", "a/in", ""):
        assert at_once.fresh_all(stem, tails) == [one_by_one.fresh(stem + tail) for tail in tails]


def test_what_training_updates_is_known():
    body = "y, m, v = BatchNormalization<training_mode = {}>(x, s, b, mean, variance)"
    io = {"inputs": "float[N,3] x, float[3] s, float[3] b, float[3] mean, float[3] variance", "outputs": "float[N,3] y"}
    assert traversal.running_statistics(model(body.format(1), 15, **io)) == {"mean", "variance"}
    assert traversal.running_statistics(model("y = BatchNormalization(x, s, b, mean, variance)", 15, **io)) == set()


def test_what_nobody_reads_is_known_unless_training_may():
    source = model("a, unread = Dropout(x) y = Neg(a)", 15, inputs="float[N] x", outputs="float[N] y")
    assert traversal.unread(source) == {"unread"}
    source.training_info.add().algorithm.name = "t"
    assert traversal.unread(source) == set()


def test_operators_that_hold_graphs():
    holders = {"If", "Loop", "Scan", "SequenceMap"}
    assert traversal.graphless() >= {"Add", "Conv", "Constant"}
    assert not traversal.graphless() & holders


def nested():
    source = model(
        """a = Neg(x) y = If(c) <then_branch = t () => (float[2] u) { x2 = Exp(a) u = Add(x2, w) },
        else_branch = e () => (float[2] v) { a = Abs(x) v = Neg(a) }>""",
        17, inputs="float[2] x, bool c", outputs="float[2] y", constants="float[2] w = {1, 2}",
    )  # fmt: skip
    source.graph.sparse_initializer.add().values.name = "s"
    return source


def test_the_names_that_a_body_gives():
    source = nested()
    assert traversal.own_names(source.graph) == {"x", "c", "w", "s", "a", "y"}
    function = onnx.FunctionProto(input=["p"], output=["r"])
    function.node.add(op_type="Dropout", input=["p"], output=["r", ""])
    assert traversal.own_names(function) == {"p", "r"}
    assert traversal.results(function) == ["r"]
    assert traversal.results(source.graph) == ["y"]


def test_names_that_mean_another_value_inside():
    source = nested()
    assert traversal.find_shadowed(source) == {"a"}
    inner = source.graph.node[1].attribute[0].g
    inner.initializer.add(name="w")
    assert traversal.find_shadowed(source) == {"a", "w"}
    function = source.functions.add(name="F", input=["x"], output=["y"])
    function.node.add().CopyFrom(source.graph.node[1])
    assert traversal.find_shadowed(source) == {"a", "w"}, "a function's names are its own"
    function.input.append("v")
    assert traversal.find_shadowed(source) == {"a", "w", "v"}


def test_names_that_are_spoken_of_outside_of_nodes():
    source = nested()
    assert traversal.names_outside_nodes(source) == set()
    note = source.graph.quantization_annotation.add(tensor_name="a")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    info = source.training_info.add()
    info.algorithm.node.add(op_type="Neg", input=["w"], output=["made"])
    info.initialization.output.add(name="begun")
    info.update_binding.add(key="w2", value="made2")
    info.initialization_binding.add(key="w3", value="made3")
    assert traversal.names_outside_nodes(source) == {"a", "scale", "w", "begun", "w2", "made2", "w3", "made3"}


def test_bodies_come_outer_before_inner():
    source = nested()
    function = source.functions.add(name="F")
    function.node.add(op_type="Neg", input=["p"], output=["q"])
    assert [getattr(body, "name", "") for body in traversal.bodies(source)] == ["g", *["e", "t"], "F"]
    held, calls = traversal.census([*reversed(source.functions), source.graph])
    assert [body.name for body in held] == [body.name for body in traversal.bodies(source)]
    assert calls == {("", "Neg"): 3, ("", "If"): 1, ("", "Exp"): 1, ("", "Add"): 1, ("", "Abs"): 1}
    assert traversal.holding(source.graph) == [(1, source.graph.node[1])]
    own = onnx.helper.make_node("Neg", ["x"], ["z"], domain="own")
    source.graph.node.append(own)
    assert [index for index, _ in traversal.holding(source.graph)] == [1, 2]


def test_graphs_of_a_node():
    node = onnx.NodeProto()
    graphs = [onnx.GraphProto(name=name) for name in "abc"]
    node.attribute.add(name="one", type=onnx.AttributeProto.GRAPH).g.CopyFrom(graphs[0])
    node.attribute.add(name="bare").g.CopyFrom(graphs[1])
    node.attribute.add(name="many").graphs.extend(graphs)
    node.attribute.add(name="axis", i=1)
    found = [(name, index, graph.name) for name, index, graph in traversal.subgraphs(node)]
    assert found == [("one", 0, "a"), ("bare", 0, "b"), ("many", 0, "a"), ("many", 1, "b"), ("many", 2, "c")]
    assert (traversal.integer(node, "axis", 5), traversal.integer(node, "nothing", 5)) == (1, 5)
