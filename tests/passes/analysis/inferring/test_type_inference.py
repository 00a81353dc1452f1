"""Types and shapes of what the source model says nothing about, and of what a conversion makes."""

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import onnx.shape_inference
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto
from opshift.functions import OPENVINO
from opshift.passes.analysis.inferring import node_inference
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.conversion import convert
from opshift.passes.model.types import tensor_type
from opshift.passes.rewrite.builder import Builder

from tests.support import check_down, check_values, model

T = TensorProto


def scope_of(body, **io):
    source = model(body, 18, domains=f'"{OPENVINO}" : 1, "my" : 1', **io)
    return Scope(source.graph, Context(source, source), 18, path=())


@pytest.mark.parametrize("kind", ["float", "float16", "int8", "uint64"])
def test_results_of_a_defined_operator_have_the_type_of_its_data(kind):
    scope = scope_of(
        f"t = {OPENVINO}.ReduceL1(x, a) y = Identity(t)",
        inputs=f"{kind}[2,3] x, int64[N] a", outputs=f"{kind}[M] y",
    )  # fmt: skip
    assert scope.elem_type("t") == scope.elem_type("x") != 0


def test_a_defined_operator_does_not_hide_the_types_behind_it():
    scope = scope_of(
        f'n = {OPENVINO}.NormalizeL2<eps=1e-8, eps_mode="add">(x, a) s = Shape(n) t = Cast<to=11>(n) y = Neg(t)',
        inputs="float[2,3] x, int64[1] a", outputs="double[2,3] y",
    )  # fmt: skip
    assert (scope.elem_type("s"), scope.elem_type("t")) == (T.INT64, T.DOUBLE)


def test_other_operators_of_other_domains_stay_unknown():
    scope = scope_of(
        f"t = my.ReduceL1(x) u = {OPENVINO}.Nothing(x) y = Neg(x)", inputs="float[2,3] x", outputs="float[2,3] y"
    )
    assert (scope.elem_type("t"), scope.elem_type("u")) == (0, 0)


def test_an_invalid_call_leaves_the_other_types_known():
    scope = scope_of(
        f"t = {OPENVINO}.ReduceL1() u = Shape(x) y = Neg(x)", inputs="float[2,3] x", outputs="float[2,3] y"
    )
    assert scope.elem_type("u") == T.INT64


def test_ranks_follow_from_the_lengths_of_shapes():
    """Behind one of which nothing is known, too."""
    scope = scope_of(
        "h = my.Draw(x) e = Expand(h, t) r = Reshape(x, s) y = Identity(r) z = Identity(e)",
        inputs="float[N,4] x, int64[3] s, int64[2] t", outputs="float[A,B,C] y, float z",
    )  # fmt: skip
    assert [len(scope.shape(name) or "") for name in ("r", "y", "e")] == [3, 3, 0]


def test_constants_are_computed_wherever_they_stand():
    scope = scope_of(
        "a = Relu(x) b = Mod(k, l) r = Reshape(a, b) y = my.Draw(r)",
        inputs="float[N,4] x", outputs="float y", constants="int64[3] k = {7, 8, 10}, int64[3] l = {5, 5, 7}",
    )  # fmt: skip
    assert scope.shape("r") == [2, 3, 3]


@pytest.mark.parametrize("held", ["int64 zero = {0}, int64 one = {1}, int64[1] last = {1}", ""])
@pytest.mark.parametrize(
    "size", ["t = Gather(s, one)", "g = Gather(s, last) t = Squeeze(g)", "g = Shape<start=1>(x) t = Squeeze(g)"]
)
def test_what_counts_to_a_size_is_as_long(held, size):
    nodes = "zero = Constant<value_int=0>() one = Constant<value_int=1>() last = Constant<value_ints=[1]>() "
    scope = scope_of(
        f"{'' if held else nodes} s = Shape(x) {size} r = Range(zero, t, one) y = my.Draw(r)",
        inputs="float[N,T] x", outputs="float y", constants=held,
    )  # fmt: skip
    assert scope.shape("r") == ["T"]


def test_weights_that_are_left_out_have_types():
    source = model(
        "y = MatMul(x, w) z = my.Draw(y)", 18, inputs="float[N,128] x", outputs="float z", domains='"my" : 1'
    )
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((128, 200), np.float32), "w"))
    assert Scope(source.graph, Context(source, source), 18, path=()).shape("y") == ["N", 200]


def made_if(then_value, else_value):
    """The scope and the name of the output of an If whose branches call `then_value` and `else_value`."""
    scope = scope_of("y = Neg(x)", inputs="float[2,3] x, bool c", outputs="float[2,3] y")
    build = Builder(scope, 18)
    branches = {"then_branch": build.branch(then_value, "one"), "else_branch": build.branch(else_value, "two")}
    return scope, build.If("c", **branches)


def test_the_branches_of_an_if_agree():
    scope, made = made_if(lambda b: b.Abs("x"), lambda b: b.Identity("x"))
    assert (scope.elem_type(made), scope.shape(made)) == (T.FLOAT, [2, 3])


def test_the_branches_of_an_if_differ_in_shape():
    scope, made = made_if(lambda b: b.Abs(b.Neg("x")), lambda b: b.ReduceSum("x", [1]))
    assert (scope.elem_type(made), scope.shape(made)) == (T.FLOAT, [2, None])
    scope, made = made_if(lambda b: b.Identity("x"), lambda b: b.ReduceSum("x", [1], keepdims=0))
    assert (scope.elem_type(made), scope.shape(made)) == (T.FLOAT, None)


def test_the_branches_of_an_if_differ_in_type_or_are_unknown():
    scope, made = made_if(lambda b: b.Abs("x"), lambda b: b.Cast("x", to=T.DOUBLE))
    assert scope.elem_type(made) == 0
    scope, made = made_if(lambda b: b.Abs("x"), lambda b: b.emit("Thing", ["x"], domain="my"))
    assert scope.elem_type(made) == 0


def test_a_value_made_from_an_if_is_known_too():
    scope, made = made_if(lambda b: b.Abs("x"), lambda b: b.Identity("x"))
    assert scope.shape(Builder(scope, 18).Transpose(made)) == [3, 2]


def test_below_opset_6_what_a_cast_yields_is_declared_where_a_graph_yields_it():
    body = """y = Loop(n, go, x) <body = b (int64 i, bool g, float[2] before) => (bool h, float[2] after) {
        h = Identity(g) k = Cast<to=7>(before) after = Cast<to=1>(k) }>"""
    source = model(body, 11, inputs="int64 n, bool go, float[2] x", outputs="float[2] y")
    inner = source.graph.node[0].attribute[0].g
    for value in inner.output:
        value.ClearField("type")
    result = convert.attempt(source, {"": 5}).model
    assert result is not None
    onnx.checker.check_model(result, full_check=True)


def made_loop():
    """A scope and what a Loop makes that carries x, of which it collects the rows."""
    scope = scope_of("y = Neg(x)", inputs="float[2,3] x, int64 m", outputs="float[2,3] y")
    body = GraphProto(name="body")
    for name, kind in (("at", T.INT64), ("go", T.BOOL), ("old", 0)):
        body.input.add(name=name)
        if kind:
            body.input[-1].type.CopyFrom(tensor_type(kind, []))
    for name, op, inputs in (("going", "Identity", ["go"]), ("new", "Abs", ["old"]), ("row", "Neg", ["x"])):
        body.node.append(NodeProto(op_type=op, input=inputs, output=[name]))
        body.output.add(name=name)
    build = Builder(scope, 18)
    return scope, build, build.emit("Loop", ["m", None, "x"], {"body": body}, outputs=2)


def test_what_a_made_loop_carries_and_collects_is_known():
    scope, _, (carried, rows) = made_loop()
    assert (scope.elem_type(carried), scope.shape(carried)) == (T.FLOAT, None)
    assert (scope.elem_type(rows), scope.shape(rows)) == (T.FLOAT, [None, 2, 3])


def test_nothing_is_inferred_from_graphs_that_are_converted_already():
    """They are written at another opset than the node that holds them."""
    scope, build, (carried, rows) = made_loop()
    build.keep_graphs()
    assert (scope.elem_type(carried), scope.elem_type(rows)) == (0, 0)


@pytest.mark.parametrize(("axes", "expected"), [({}, [2, 3]), ({"scan_input_axes": [1]}, [3, 2])])
def test_what_a_made_scan_yields_is_known(axes, expected):
    scope = scope_of("y = Neg(x)", inputs="float[2,3] x, double[5] s", outputs="float[2,3] y")
    body = GraphProto(name="body")
    for name in ("old", "e"):
        body.input.add(name=name)
    for name, op, operand in (("new", "Abs", "old"), ("row", "Neg", "e")):
        body.node.append(NodeProto(op_type=op, input=[operand], output=[name]))
        body.output.add(name=name)
    attributes = {"body": body, "num_scan_inputs": 1, **axes}
    state, rows = Builder(scope, 18).emit("Scan", ["s", "x"], attributes, outputs=2)
    assert (scope.elem_type(state), scope.shape(state)) == (T.DOUBLE, [5])
    assert (scope.elem_type(rows), scope.shape(rows)) == (T.FLOAT, expected)


@pytest.mark.parametrize("opset", [5, 13, 20, 21])
def test_the_length_of_a_made_shape_tells_the_rank(opset):
    source = model("y = Identity(x)", opset, inputs="float[N] x, int64[1] a", outputs="float[N] y")
    build = Builder(Scope(source.graph, Context(source, source), opset, path=()), opset)
    reshaped = build.Reshape("x", build.Concat("a", build.Shape("x"), axis=0))
    assert (build.scope.elem_type(reshaped), build.scope.shape(reshaped)) == (T.FLOAT, [None, None])


def test_constants_of_an_outer_graph_tell_shapes_in_an_inner_one():
    body = "y = If (c) < then_branch = t () => (a) { a = Unsqueeze(x, axes) }, else_branch = e () => (b) { b = Unsqueeze(x, axes) } >"
    scope = scope_of(body + " z = Identity(x)", inputs="float[2,3] x, bool c", outputs="float[A,B,C] z",
                     constants="int64[1] axes = {0}")  # fmt: skip
    assert (scope.elem_type("y"), scope.shape("y")) == (T.FLOAT, [1, 2, 3])


def test_a_vector_that_claims_terabytes_is_given_no_room():
    io = {"inputs": f"float[{1 << 40}] x, int64[2] i", "outputs": "float[N] y"}
    scope = scope_of("t = Gather(x, i) y = Neg(t)", **io)
    assert (scope.elem_type("t"), scope.shape("t")) == (T.FLOAT, [2])
    assert scope.shape("x") == [1 << 40]


@pytest.mark.parametrize(
    ("body", "shape", "elem_type"),
    [
        ("y = ReduceMax<keepdims: int = @k>(c)", None, 1),
        ("y = Transpose<perm: ints = @k>(c)", [None, None], 1),
        ("y = Elu<alpha: float = @k>(c)", [2, 3], 1),
        ("y = Cast<to: int = @k>(c)", [None, None], 0),
        ("y = Constant<value_int: int = @k>()", None, 0),
        ("y = Constant<value_ints: ints = @k>()", None, 7),
    ],
)
def test_what_callers_of_a_function_give_is_not_known(body, shape, elem_type):
    """Inference by onnx takes a reference for a zero."""
    text = (
        '<opset_import: ["":17], domain:"f"> F <k> (x) => (y) { c = Constant<value = float[2,3] {1,2,3,4,5,6}>() %s }'
    )
    function = onnx.parser.parse_function(text % body)
    scope = Scope(function, Context(ModelProto(), ModelProto()), 17)
    assert scope.shape("y") == shape
    assert scope.elem_type("y") == elem_type


# The length of a vector that only the run tells: two dimensions of the data, and one that is stated.
LENGTH = "d = Shape(x) e = Slice(d, zero, two) s = Concat<axis=0>(e, rest)"
BOUNDS = "int64[1] zero = {0}, int64[1] two = {2}, int64[1] rest = {-1}"


@pytest.mark.parametrize(
    ("shaped", "rank"),
    [
        ("z = Reshape(x, s)", 3),
        ("z = Expand(one, s)", 3),
        ("k = Concat<axis=0>(e, one) z = ConstantOfShape(k)", 3),
        (
            "a = Reshape(x, s) b = Transpose<perm=[0,2,1]>(a) f = Shape(b) g = Concat<axis=0>(f, one) z = Reshape(b, g)",
            4,
        ),
        ("z = Reshape(x, r)", None),
    ],
)
def test_the_length_of_a_computed_shape_tells_the_rank(shaped, rank):
    scope = scope_of(
        f"{LENGTH} {shaped} y = Neg(z)",
        inputs="float[N,M,K] x, int64[L] r", outputs="float y",
        constants=f"{BOUNDS}, int64[1] one = {{1}}",
    )  # fmt: skip
    shape = scope.shape_in_source("z")
    assert (shape and len(shape)) == rank


def test_it_does_in_a_subgraph_too():
    branch = "() => (float[] t) { z = Reshape(x, s) t = ReduceMean<axes=[-1], keepdims=0>(z) }"
    other = "() => (float[] u) { u = ReduceMean<axes=[2], keepdims=0>(x) }"
    check_down(
        f"{LENGTH} y = If(c) <then_branch = t {branch}, else_branch = e {other}>", 12, 10,
        inputs="float[N,M,K] x, bool c", outputs="float[P,Q] y", constants=BOUNDS,
    )  # fmt: skip


def test_negative_axes_count_from_a_rank_that_follows_from_a_length():
    check_down(
        f"{LENGTH} z = Reshape(x, s) y = ReduceMean<axes=[-1], keepdims=0>(z)", 12, 10,
        inputs="float[N,M,K] x", outputs="float[P,Q] y", constants=BOUNDS,
    )  # fmt: skip


def nested(depth):
    """Ifs inside of each other of a rank that nothing tells; each level reads what the one inside yields four times."""
    body, a, b = "n = Unsqueeze(x, s) m = Neg(n)", "n", "m"
    for k in range(depth):
        body = f"""p{k}, q{k} = If(c) <
            then_branch = t{k} () => (float[] {a}, float[] {b}) {{ {body} }},
            else_branch = e{k} () => (float[] z{k}, float[] w{k}) {{ z{k} = Unsqueeze(x, s) w{k} = Neg(z{k}) }}
        > a{k} = Add(p{k}, q{k}) b{k} = Mul(p{k}, q{k})"""
        a, b = f"a{k}", f"b{k}"
    io = {"inputs": "float[3] x, bool c, int64[K] s", "outputs": "float[A,B] y"}
    return model(f"{body} y = Identity({a})", 15, **io)


def test_what_graphs_inside_of_each_other_hang_on_is_inferred_once_a_question(monkeypatch):
    asked = []
    infer = node_inference.infer_node
    monkeypatch.setattr(node_inference, "infer_node", lambda *given: asked.append(1) or infer(*given))
    counts = []
    for depth in (4, 8):
        asked.clear()
        assert not convert.attempt(nested(depth), {"": 10}).refusals
        counts.append(len(asked))
    assert counts[1] < 4 * counts[0], "a quadratic number of inferences at most"


def test_what_was_inferred_for_one_question_is_not_waited_for_by_another():
    """A round of the Loop asks of the graph inside what the graph around it asked before, of which nothing is known."""
    source = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 16]>
        g (double[N] x, double[M,N] z, int64 n, bool c) => (double[A,B,C] y) {
            s, y = Loop(n, c, x) <body = b (int64 i, bool go, double[] k) => (bool on, double[6] l, double[] m) {
                m = Mod<fmod=1>(k, z) on = Identity(go) l = Identity(k)
            }>
        }""")
    made = convert.attempt(source, {"": 16}, ops=[("", "Mod")]).model
    onnx.checker.check_model(made, full_check=True)
    check_values(
        source,
        made,
        {"x": np.array([5.5, -3]), "z": np.array([[2, 2.5]]), "n": np.array(2), "c": np.array(True)},
        rtol=0,
        atol=0,
    )


@pytest.mark.parametrize("yielded", ["k", "w"])
def test_what_a_loop_yields_as_it_was_given_it_does_not_hide_the_types_behind_it(yielded):
    """A value that is carried along unchanged, or a constant: inference ends at such a Loop if it has no type."""
    check_down(
        f"""go = Constant<value = bool {{1}}>() m = Constant<value = int64 {{3}}>() n, l = Loop(m, go, x, x) <body = b (
            int64 i, bool c, float[2] p, float[2] k) => (bool d, float[2] q, float[2] {yielded}) <float[2] w = {{1, 2}}> {{
            d = Identity(c) t = Tanh(p) q = Add(t, k) }}> a = Tanh(n) y = Add(a, l)""",
        14, 13, inputs="float[2] x", outputs="float[2] y",
    )  # fmt: skip


@pytest.mark.parametrize("dims", ["", "[A,B]"])
def test_a_made_node_that_tells_no_shape_is_not_asked_for_each_that_follows(monkeypatch, dims):
    """Of each call of HardSwish, a few nodes are made, that tell nothing of a value of unknown rank."""
    asked = []

    def count(node, opset, scope):
        asked.append(node.op_type)
        infer_node(node, opset, scope)

    infer_node = node_inference.infer_node
    monkeypatch.setattr(node_inference, "infer_node", count)
    asked_of = {}
    for calls in (20, 40):
        body = "".join(f"a{k} = Add(v{k}, x) v{k + 1} = HardSwish(a{k}) " for k in range(calls)) + f"y = Relu(v{calls})"
        source = model(body, 20, inputs=f"float{dims} x, float{dims} v0", outputs="y")
        if not dims:
            for value in source.graph.input:
                value.type.tensor_type.ClearField("shape")
        asked.clear()
        made = convert.attempt(source, {"": 13}).model
        assert "HardSwish" not in {node.op_type for node in made.graph.node}
        asked_of[calls] = len(asked)
    assert asked_of[40] <= 2 * asked_of[20] + 20


def test_what_takes_the_place_of_a_made_node_is_asked_again():
    """Until the next node of the source, nothing is settled; and only nodes of others are."""
    source = model("y = Relu(x)", 18, inputs="float[2] x", outputs="y")
    scope = Scope(source.graph, Context(source, source), 18)
    mute = onnx.helper.make_node("Unheard", ["x"], ["m"], domain="my")
    scope.record(mute, 18)
    assert not scope.shape("m")
    scope.settle([mute])
    scope.record(onnx.helper.make_node("Neg", ["x"], ["m"]), 18)
    assert scope.shape("m") == [2]
    scope.record(onnx.helper.make_node("Unheard", ["x"], ["n"], domain="my"), 18)
    assert scope.shape("n") is None
    scope.settle([])
    assert scope.node_to_ask("n") is None
