"""What Slice cuts from a size with a name has another size, at opset 10 as at every other."""

import numpy as np
import onnx
import onnx.parser
import onnx.reference
import pytest
from opshift.passes.analysis.inferring import corrected, open_slices
from opshift.passes.conversion import convert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import tensor_type
from opshift.passes.optimization import optimize

from tests.support import evaluate, model, show

CUT = "int64[1] s = {0}, int64[1] e = {1}, int64[1] a = {1}"
IO = {"inputs": "float[A,B] x", "outputs": "float[C,D] y", "constants": CUT}
X = {"x": np.arange(12, dtype=np.float32).reshape(3, 4)}
BODY = "t = Slice(x, s, e, a) h = Shape(x) y = Expand(t, h)"
CALLED = """
    <ir_version: 8, opset_import: ["" : 10, "f" : 1]> g (float[A,B] x) => (float[C,D] y) { h = Shape(x) t = f.F(x) y = Expand(t, h) }
    <domain: "f", opset_import: ["" : 10]> F (x) => (t) {
        s = Constant<value = int64[1] {0}>() e = Constant<value = int64[1] {1}>() a = Constant<value = int64[1] {1}>()
        t = Slice(x, s, e, a)
    }"""


@pytest.mark.parametrize("opset", [9, 10, 11, 13])
def test_what_is_cut_is_expanded(opset):
    body = BODY if opset > 9 else BODY.replace("Slice(x, s, e, a)", "Slice<starts=[0], ends=[1], axes=[1]>(x)")
    source = model(body, opset, **IO)
    made = optimize.attempt(source).model
    np.testing.assert_array_equal(evaluate(made, X)[0], evaluate(source, X)[0])


def test_what_is_cut_in_a_function_is_expanded():
    source = onnx.parser.parse_model(CALLED)
    made = optimize.attempt(source).model
    np.testing.assert_array_equal(evaluate(made, X)[0], np.repeat(X["x"][:, :1], 4, 1))


def test_what_is_cut_is_broadcast_where_that_has_to_be_written():
    source = model("t = Slice(x, s, e, a) y = Mean(t, x)", 10, **IO)
    made = convert.attempt(source, {"": 7}).model
    np.testing.assert_array_equal(evaluate(made, X)[0], evaluate(source, X)[0])


def test_known_sizes_are_known():
    source = model(BODY, 10, **IO | {"inputs": "float[3,4] x"})
    assert [value.type.tensor_type.shape.dim[1].dim_value for value in types(source, "t")] == [1]
    assert types(model(BODY, 10, **IO), "t")[0].type.tensor_type.shape.dim[1].dim_param != "B"


@pytest.mark.parametrize("text", ["", CALLED])
def test_the_model_stays_as_it_is(text):
    source = onnx.parser.parse_model(text) if text else model(BODY, 10, **IO)
    before = source.SerializeToString()
    made = corrected.infer_types(source)
    assert source.SerializeToString() == before
    assert [i.domain for i in made.opset_import] == [i.domain for i in source.opset_import]
    assert len(made.functions) == len(source.functions)
    assert show(made) == show(source)


def types(source, name):
    return [value for value in corrected.infer_types(source).graph.value_info if value.name == name]


@pytest.mark.parametrize("ops", [{("", "Slice")}, {("", "Slice"), ("", "Attention")}, None])
def test_what_is_cut_is_open_whatever_else_is_called(ops):
    (found,) = [v for v in corrected.infer_types(model(BODY, 10, **IO), ops).graph.value_info if v.name == "t"]
    assert found == types(model(BODY, 10, **IO), "t")[0]
    assert found.type.tensor_type.shape.dim[1].dim_param != "B"


LAST = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] minus = {-1}, bool sure = {1}, int64 first = {0}"
SLICED = "p = Slice(x, zero, minus, axes, one) q = Slice(p, zero, one, zero)"
UNKNOWN = {
    "a constant that is an output": ("", "", "int64[1] axes", "int64[1] axes = {-1}"),
    "an input that is an output": (", int64[1] axes", "", "int64[1] axes", ""),
    "an input of no stated shape": (", int64[] axes", "", "", ""),
    "a member of a sequence": (", int64[1] a", "s = SequenceConstruct(a, first) axes = SequenceAt(s, first)", "", ""),
}


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("which", UNKNOWN)
@pytest.mark.parametrize("inside", [False, True])
def test_axes_of_unknown_shape_are_not_left_out(opset, which, inside):
    more, before, also, held = UNKNOWN[which]
    source = model(
        f"{before} {SLICED}", opset, inputs=f"float[2,2] x{more}", outputs=", ".join(filter(None, ["float[A,B] q", also])),
        constants=", ".join(filter(None, [LAST, held])),
    )  # fmt: skip
    for value in source.graph.input:
        if which == "an input of no stated shape" and value.name == "axes":
            value.type.tensor_type.ClearField("shape")
    if inside:
        cuts = source.graph.node[-2:]
        del source.graph.node[-2:]
        graphs = [onnx.helper.make_graph(cuts, name, [], [onnx.ValueInfoProto(name="q")]) for name in ("then", "else")]
        graphs[1].output[0].name = graphs[1].node[1].output[0] = "r"
        graphs[1].node[0].output[0] = graphs[1].node[1].input[0] = "o"
        for graph in graphs:
            graph.output[0].type.CopyFrom(onnx.helper.make_tensor_type_proto(1, [None, None]))
        source.graph.input.append(onnx.helper.make_tensor_value_info("c", 9, []))
        source.graph.node.append(
            onnx.helper.make_node("If", ["c"], ["q"], then_branch=graphs[0], else_branch=graphs[1])
        )
        source.graph.node[-1].output[0] = source.graph.output[0].name = "y"
    given = {"x": np.arange(4, dtype=np.float32).reshape(2, 2), "axes": np.array([-1]), "a": np.array([-1]), "c": True}
    feeds = {value.name: np.asarray(given[value.name]) for value in source.graph.input}
    made = optimize.attempt(source).model
    expected = evaluate(source, feeds)
    np.testing.assert_array_equal(expected[0], [[0.0]])
    for found, wanted in zip(evaluate(made, feeds), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


HANDED = """
    <ir_version: 8, opset_import: ["" : 17, "f" : 1]> g (float[2,2] x, int64[] axes) => (float[A,B] q) <int64[1] zero = {0}, int64[1] one = {1}> {
        p = f.G(axes, x) q = Slice(p, zero, one, zero)
    }
    <domain: "f", opset_import: ["" : 17, "f" : 1]> G (a, x) => (p) { p = f.F(x, a) }
    <domain: "f", opset_import: ["" : 17]> F (x, axes) => (p) {
        zero = Constant<value_ints=[0]>() minus = Constant<value_ints=[-1]>() one = Constant<value_ints=[1]>()
        p = Slice(x, zero, minus, axes, one)
    }"""


@pytest.mark.parametrize("shapeless", [False, True])
def test_axes_that_functions_hand_on_are_not_left_out(shapeless):
    source = onnx.parser.parse_model(HANDED)
    if shapeless:
        source.graph.input[1].type.tensor_type.ClearField("shape")
    else:
        source.graph.input[1].type.tensor_type.shape.dim.add()
        source.graph.output.append(source.graph.input[1])
    feeds = {"x": np.arange(4, dtype=np.float32).reshape(2, 2), "axes": np.array([-1])}
    np.testing.assert_array_equal(evaluate(optimize.attempt(source).model, feeds)[0], [[0.0]])


def test_axes_and_steps_are_lists_where_nothing_more_is_known():
    node = onnx.parser.parse_node("y = Slice(x, s, e, a, p)")
    few, some = tensor_type(TensorProto.INT32), tensor_type(TensorProto.INT32, [2])
    wide = tensor_type(TensorProto.INT64, [None])
    assert open_slices.type_lists(node, {"a": few, "x": few}) == {
        "a": tensor_type(TensorProto.INT32, [None]),
        "p": wide,
    }
    assert open_slices.type_lists(node, {"a": some, "p": wide}) == {}
