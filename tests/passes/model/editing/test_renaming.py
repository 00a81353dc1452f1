"""Values that get other names wherever they are spoken of."""

import numpy as np
from onnx import helper, numpy_helper
from opshift.passes.model.editing.renaming import afresh, rename

from tests.support import model

BODY = """a = Neg(x) y = If(c) <then_branch = t () => (float[2] u) { v = Exp(a) u = Add(v, x) },
    else_branch = e () => (float[2] a) { }>"""


def held():
    return model(BODY, 17, inputs="float[2] x, bool c", outputs="float[2] y").graph


def names(graph):
    inner = [held.g for node in graph.node for held in node.attribute if held.HasField("g")]
    mine = [[*node.input, *node.output] for node in graph.node], [value.name for value in graph.output]
    return [*mine, *(names(one) for one in inner)]


def test_values_are_renamed_in_nodes_and_in_what_these_hold():
    graph = held()
    rename(graph.node, {"a": "b", "v": "w", "u": "s", "nothing": "else"})
    then, other = [[["b", "w"], ["w", "x", "s"]], ["s"]], [[], ["b"]]
    assert names(graph) == [[["x", "b"], ["c", "y"]], ["y"], then, other]
    before = graph.SerializeToString()
    rename(graph.node, {"p": "q"})
    assert graph.SerializeToString() == before


def test_all_that_graphs_hold_and_make_is_named_afresh():
    graph = held()
    graph.initializer.append(numpy_helper.from_array(np.zeros(1), "w"))
    graph.sparse_initializer.add().values.name = "s"
    graph.value_info.add(name="a")
    afresh(graph, lambda name: name if name == "c" else f"{name}2")
    then, other = [[["a2", "v2"], ["v2", "x2", "u2"]], ["u2"]], [[], ["a2"]]
    assert names(graph) == [[["x2", "a2"], ["c", "y2"]], ["y2"], then, other]
    assert [value.name for value in graph.input] == ["x2", "c"]
    assert [graph.initializer[0].name, graph.sparse_initializer[0].values.name, graph.value_info[0].name] == [
        "w2",
        "s2",
        "a2",
    ]


def test_outputs_that_are_left_out_have_no_name_to_change():
    graph = helper.make_graph([helper.make_node("Dropout", ["x"], ["y", ""])], "g", [], [])
    afresh(graph, lambda name: f"{name}2")
    assert list(graph.node[0].output) == ["y2", ""]
