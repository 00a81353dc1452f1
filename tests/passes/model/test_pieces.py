"""What a piece of a main graph holds: what its nodes read, and nothing else."""

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from onnx import helper
from opshift.passes.model.pieces import Pieces
from opshift.passes.model.types import tensor_type

from opshift.verification.engines import OnnxRuntime, Reference
from tests.support import model

IO = {"inputs": "float[2] x, float[2] z", "outputs": "float[2] y, float[2] v"}
BODY = "a = Abs(x) b = Add(a, w) c = Exp(b) d = Mul(c, a) y = Sub(d, u) e = Neg(z) v = Add(e, w)"


def whole():
    made = model(BODY, 17, constants="float[2] w = {1, 2}, float[2] u = {3, 4}, float t = {1}", **IO)
    for node in made.graph.node:
        node.name = f"{node.op_type}_{node.output[0]}"
    return made


def names(pieces, indices):
    return "".join(pieces.nodes[index].output[0] for index in indices)


@pytest.mark.parametrize(
    ("wanted", "ends", "inside", "reached"),
    [
        ("y", "", "abcdy", "x"),
        ("y", "b", "acdy", "bx"),
        ("y", "ab", "cdy", "ab"),
        ("y", "d", "y", "d"),
        ("d", "d", "abcd", "x"),
        ("yv", "c", "adyev", "czx"),
        ("vb", "", "abev", "zx"),
        ("x", "", "", ""),
        ("nothing", "", "", ""),
    ],
)
def test_the_nodes_between(wanted, ends, inside, reached):
    pieces = Pieces(whole())
    found, read = pieces.between([wanted] if wanted == "nothing" else wanted, ends)
    assert names(pieces, found) == inside
    assert sorted(read) == sorted(reached)


def diamonds(count, mark=""):
    """Values that two nodes read whose results come together: each way apart would take for ever."""
    ways = [
        f"p{k}{mark} = Abs(a{k}) q{k}{mark} = Neg(a{k}) a{k + 1} = Add(p{k}{mark}, q{k}{mark})" for k in range(count)
    ]
    body = f"a0 = Exp(x) c = Exp(x) {' '.join(ways)} y = Add(a{count}, c)"
    return Pieces(model(body, 17, inputs="float[2] x", outputs="float[2] y"))


def test_diamonds_are_gone_through_once():
    assert len(diamonds(64).between(["y"], ())[0]) == 3 * 64 + 3


def test_what_a_node_reads_and_who_reads():
    pieces = Pieces(whole())
    assert list(pieces.reads(1)) == ["a", "w"]
    assert pieces.readers("a") == [1, 3]
    assert pieces.readers("w") == [1, 6]
    assert pieces.readers("y") == []
    assert pieces.given == ["x", "z"]


def test_a_piece_has_all_inputs_and_what_it_reads():
    source = whole()
    source.graph.input.add(name="w").type.CopyFrom(tensor_type(1, [2]))  # a default
    pieces = Pieces(source)
    assert pieces.given == ["x", "z"]
    piece = pieces.cut(["d", "v"])
    assert [node.output[0] for node in piece.graph.node] == ["a", "b", "c", "d", "e", "v"]
    assert [tensor.name for tensor in piece.graph.initializer] == ["w"]
    assert [value.name for value in piece.graph.input] == ["x", "z", "w"]
    assert [(value.name, value.HasField("type")) for value in piece.graph.output] == [("d", False), ("v", True)]
    assert (piece.ir_version, piece.opset_import) == (source.ir_version, source.opset_import)
    assert piece.graph.name == "g"
    x, z = np.float32([1, -2]), np.float32([3, 4])
    expected = np.exp(np.abs(x) + np.float32([1, 2])) * np.abs(x)
    np.testing.assert_allclose(OnnxRuntime(piece).run({"x": x, "z": z})[0], expected, rtol=1e-6)


def test_a_piece_that_is_given_values_takes_nothing_else():
    piece = Pieces(whole()).cut(["d"], {"b": tensor_type(1, [2])})
    assert [node.output[0] for node in piece.graph.node] == ["a", "c", "d"]
    assert [value.name for value in piece.graph.input] == ["x", "b"]
    assert not piece.graph.initializer
    assert piece.graph.input[1].type == tensor_type(1, [2])
    piece = Pieces(whole()).cut(["y"], {name: tensor_type(1, [2]) for name in "du"})
    assert [value.name for value in piece.graph.input] == ["d", "u"]
    assert not piece.graph.initializer, "what is given is not held"


def test_a_graph_without_a_name_becomes_a_piece_with_one():
    source = whole()
    source.graph.name = ""
    assert Pieces(source).cut(["y"]).graph.name == "piece"


def test_sparse_weights_and_functions_go_along():
    source = model("a = own.F(x) y = Add(a, s)", 17, domains='"own" : 1', inputs="float[4] x", outputs="float[4] y")
    values = onnx.numpy_helper.from_array(np.float32([5]), "s")
    indices = onnx.numpy_helper.from_array(np.array([2]), "i")
    source.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    node = helper.make_node("Neg", ["i"], ["o"])
    source.functions.append(helper.make_function("own", "F", ["i"], ["o"], [node], [helper.make_opsetid("", 17)]))
    pieces = Pieces(source)
    assert list(pieces.reads(1)) == ["a", "s"]
    piece = pieces.cut(["y"])
    assert [tensor.values.name for tensor in piece.graph.sparse_initializer] == ["s"]
    assert [function.name for function in piece.functions] == ["F"]
    assert not pieces.cut(["a"]).graph.sparse_initializer


def branching():
    """A branch that reads a value of the main graph, and one that yields one as it is."""
    source = model("a = Abs(x) b = Neg(x) y = Relu(b)", 17, inputs="float[2] x, bool c", outputs="float[2] y")
    then = helper.make_graph(
        [helper.make_node("Exp", ["a"], ["t"])], "t", [], [helper.make_empty_tensor_value_info("t")]
    )
    other = helper.make_graph([], "o", [], [helper.make_empty_tensor_value_info("b")])
    source.graph.node.append(helper.make_node("If", ["c"], ["i"], then_branch=then, else_branch=other))
    source.graph.output.add(name="i").type.CopyFrom(tensor_type(1, [2]))
    return source


def test_what_branches_read_and_yield_is_read():
    pieces = Pieces(branching())
    assert sorted(pieces.reads(3)) == ["a", "b", "c"]
    piece = pieces.cut(["i"])
    assert [node.op_type for node in piece.graph.node] == ["Abs", "Neg", "If"]
    x = np.float32([1, -2])
    for held, expected in ((True, np.exp(np.abs(x))), (False, -x)):
        (found,) = Reference(piece).run({"x": x, "c": np.array(held)})  # onnxruntime wants an Identity there
        np.testing.assert_allclose(found, expected, rtol=1e-6)
