"""What a model declares of shapes is a claim: nothing is optimized or folded by it, and inference wins over it."""

import numpy as np
import onnx
import onnx.helper
import onnx.parser
import onnx.shape_inference
import pytest
from onnx import ModelProto, TypeProto
from opshift.passes.analysis import claims
from opshift.passes.analysis.claims import CONTRADICTED
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.changes import GRANTED
from opshift.passes.conversion import convert
from opshift.passes.fusion import fold
from opshift.passes.model.types import tensor_type
from opshift.passes.optimization import optimize

import opshift
from tests.support import evaluate, model, show

WAYS = {
    "optimize": opshift.optimize,
    "fold": lambda of: opshift.fold(of, optimize=True),
    "convert": lambda of: opshift.convert_version(of, 21, modernize=True, optimize=True),
}


def check_same(source: ModelProto, *feeds: dict[str, np.ndarray]) -> None:
    """Each way computes what the source does, of the same shape."""
    for name, way in WAYS.items():
        made = way(source)
        for feed in feeds:
            for expected, actual in zip(evaluate(source, feed), evaluate(made, feed), strict=True):
                assert actual.shape == expected.shape, name
                np.testing.assert_allclose(actual, expected, rtol=1e-5, err_msg=name)


def ramp(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1


RECOGNISER = {
    "inputs": "float[T,2,4] x", "outputs": "float[1,seqlen] y",
    "constants": "int64[2] flat = {-1, 4}, float[4,3] w = {1,2,3,4,5,6,7,8,9,1,2,3}, float[3] b = {1,2,3}, "
    "int64[1] zero = {0}, int64[1] two = {2}, int64[1] three = {3}",
}  # fmt: skip
"""An output of rank 3 that is declared with two dimensions, as recognisers of text in wide use have it."""
BODY = """rows = Reshape(x, flat) product = MatMul(rows, w) layer = Add(product, b) shape = Shape(x)
front = Slice(shape, zero, two) back = Concat<axis=0>(front, three) y = Reshape(layer, back)"""


def test_a_reshape_to_a_rank_that_the_output_is_not_declared_with_stays():
    check_same(model(BODY, 12, **RECOGNISER), {"x": ramp(5, 2, 4)}, {"x": ramp(1, 2, 4)}, {"x": ramp(0, 2, 4)})


def test_the_report_names_the_shape_that_is_declared_wrongly():
    changes = optimize.attempt(model(BODY, 12, **RECOGNISER)).changes
    wrong = [change for change in changes if change.how == CONTRADICTED]
    assert [(change.op, change.grade) for change in wrong] == [("Reshape", "exact")]
    assert "'y': declared [1, seqlen]" in wrong[0].remark


@pytest.mark.parametrize("declared", ["float[1,6]", "float[6]", "float[2,N]"])
def test_a_value_is_not_taken_for_what_it_is_declared_as(declared):
    body = "h = Abs(x) f = Reshape(h, k) e = Shape(h) t = Expand(f, e) y = Neg(t)"
    source = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[N,6] x) => (float[a,b] y) '
        f"<int64[2] k = {{-1, 6}}, {declared} h, float[1,6] f, {declared} t> {{ {body} }}"
    )
    check_same(source, {"x": ramp(2, 6)}, {"x": ramp(1, 6)}, {"x": ramp(0, 6)})


LOOPS = {
    "Loop": """y = Loop(n, go, x) <body = b (int64 i, bool c, float[1,2] s) => (bool d, float[1,2] r) {
        d = Identity(c) e = Reshape(s, k) r = Concat<axis=0>(e, e) }>""",
    "Scan": """y = Scan(x, x) <num_scan_inputs = 1, body = b (float[1,2] s, float[7] w) => (float[1,2] r) {
        e = Reshape(w, k) f = Add(s, e) r = Identity(f) }>""",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_what_the_graph_of_a_loop_is_given_is_not_what_it_declares(loop):
    """What Loop carries grows, and is declared as it is at first; what Scan scans has another rank."""
    io = {"inputs": "int64 n, bool go, float[A,2] x", "outputs": "float[a,b] y", "constants": "int64[2] k = {-1, 2}"}
    check_same(model(LOOPS[loop], 17, **io), {"n": np.array(2), "go": np.array(True), "x": ramp(1, 2)})


def test_types_that_custom_operators_declare_are_taken_and_their_sizes_are_not():
    io = {
        "inputs": "float[2,4] x",
        "outputs": "float[2,4] y",
        "domains": '"my" : 1',
        "constants": "int64[2] k = {2, 4}",
    }
    source = model("t = my.Thing(x) c = Cast<to=1>(t) y = Reshape(c, k)", 17, **io)
    source.graph.value_info.add(name="t").type.CopyFrom(source.graph.input[0].type)
    assert show(optimize.attempt(source).model) == "t1 = my.Thing(x)\ny = Reshape(t1, [2, 4])"


def test_inference_wins_over_what_is_declared_in_a_conversion():
    source = model("h = Relu(x) y = Identity(h)", 17, inputs="float[N,3] x", outputs="float[5,5,5] y")
    source.graph.value_info.add(name="h").type.CopyFrom(source.graph.output[0].type)
    scope = Scope(source.graph, Context(source, source), 17, path=())
    assert scope.shape("h") == scope.shape("y") == ["N", 3]


def test_a_conversion_takes_a_declared_size_where_inference_is_silent():
    io = {"inputs": "float[2,4] x", "outputs": "float[2,4] y", "domains": '"my" : 1'}
    source = model("t = my.Thing(x) y = Neg(t)", 17, **io)
    source.graph.value_info.add(name="t").type.CopyFrom(source.graph.input[0].type)
    assert Scope(source.graph, Context(source, source), 17, path=()).shape("t") == [2, 4]
    assert Scope(source.graph, Context(source, source, trusting=False), 17, path=()).shape("t") is None


def test_sizes_below_zero_are_unknown():
    source = model("y = Concat<axis=0>(x, x)", 17, inputs="float[N,3] x", outputs="float[M,3] y")
    source.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    assert Scope(source.graph, Context(source, source), 17, path=()).shape("y")[1] == 3
    assert not isinstance(Scope(source.graph, Context(source, source), 17, path=()).shape("y")[0], int)


# --- sizes that only the run tells ---------------------------------------------------------------------------

READ = "s = Shape(x) n = Gather(s, one) t = Concat<axis=0>(n, rest) r = Reshape(x, t)"


@pytest.mark.parametrize(("inputs", "grade"), [("float[2,N,3] x", "close"), ("float[N,2,3] x", "exact")])
def test_what_reads_a_size_as_a_number_in_a_reshape_is_close_and_says_so(inputs, grade):
    """Where N is 0, Reshape takes it for "as it was", which is 2 in the one and 0 in the other."""
    place = 1 if grade == "close" else 0
    constants = f"int64[1] one = {{{place}}}, int64[1] rest = {{-1}}"
    source = model(f"{READ} y = Neg(r)", 17, inputs=inputs, outputs="float[a,b] y", constants=constants)
    result = optimize.attempt(source)
    assert result.grade == grade
    assert {change.remark for change in result.changes if change.grade == "close"} <= {GRANTED}
    feed = {"x": ramp(2, 4, 3) if place else ramp(4, 2, 3)}
    np.testing.assert_array_equal(evaluate(result.model, feed)[0], evaluate(source, feed)[0])


@pytest.mark.parametrize("n", [0, 1, 4])
def test_what_is_exact_is_so_of_empty_tensors(n):
    bodies = {
        "float[N,2,3] x": "s = Shape(x) n = Gather(s, z) t = Concat<axis=0>(n, k) y = Reshape(x, t)",
        "float[2,N,3] x": "s = Shape(x) n = Gather(s, one) t = Concat<axis=0>(n, k) h = Reshape(x, t) y = Neg(h)",
    }
    constants = "int64[1] z = {0}, int64[1] one = {1}, int64[1] k = {6}"
    for inputs, body in bodies.items():
        source = model(body, 17, inputs=inputs, outputs="float[a,b] y", constants=constants)
        result = optimize.attempt(source)
        assert result.grade == "exact"
        feed = {"x": ramp(*(n if size == "N" else int(size) for size in inputs[6:11].split(",")))}
        if n or inputs.startswith("float[N"):
            np.testing.assert_array_equal(evaluate(result.model, feed)[0], evaluate(source, feed)[0])


def test_a_shape_with_zeros_that_are_meant_keeps_that_they_are():
    body = "s = Shape(x) n = Gather(s, one) t = Concat<axis=0>(n, k, m) y = Reshape<allowzero=1>(x, t)"
    io = {"inputs": "float[2,N,M] x", "outputs": "float[a,b,c] y"}
    constants = "int64[1] one = {1}, int64[1] k = {2}, int64[1] m = {5}"
    source = model(body, 17, constants=constants, **io)
    result = optimize.attempt(source)
    assert result.grade == "exact"
    for n in (0, 3):
        feed = {"x": ramp(2, n, 5)}
        assert evaluate(result.model, feed)[0].shape == evaluate(source, feed)[0].shape == (n, 2, 5)


@pytest.mark.parametrize(("size", "grade"), [("N", GRANTED), ("5", "")])
def test_an_average_of_padded_values_is_granted_where_sizes_are_unknown(size, grade):
    body = "p = Pad(x, k) y = AveragePool<kernel_shape=[2,2]>(p)"
    io = {"inputs": f"float[1,1,{size},4] x", "outputs": "float[1,1,a,b] y"}
    source = model(body, 17, constants="int64[8] k = {0,0,1,1,0,0,1,1}", **io)
    changes = optimize.attempt(source).changes
    assert [(GRANTED in change.remark) for change in changes if change.op == "AveragePool"] == [bool(grade)]


def test_an_attention_of_unknown_sizes_is_granted():
    body = "t = Transpose<perm=[0,1,3,2]>(k) s = MatMul(q, t) m = Mul(s, c) p = Softmax<axis=-1>(m) y = MatMul(p, v)"
    for batch, granted in (("B", True), ("2", False)):
        shape = f"float[{batch},2,3,4]"
        io = {"inputs": f"{shape} q, {shape} k, {shape} v", "outputs": f"{shape} y", "constants": "float c = {0.5}"}
        (change,) = fold.attempt(model(body, 23, **io)).changes
        assert (change.op, GRANTED in change.remark) == ("Attention", granted)


def test_a_value_that_counts_up_to_a_size_is_as_long():
    body = "s = Shape<start=0,end=1>(x) n = Squeeze(s) r = Range(z, n, o) f = Cast<to=1>(r) y = Add(f, x)"
    io = {"inputs": "float[N] x", "outputs": "float[M] y", "constants": "int64 z = {0}, int64 o = {1}"}
    source = model(body, 17, **io)
    assert Scope(source.graph, Context(source, source), 17, path=()).shape("f") == ["N"]


def test_a_conversion_reports_a_contradiction_that_it_met():
    body = "h = Relu(x) y = Softmax<axis=1>(h)"
    source = model(body, 12, inputs="float[N,3,2] x", outputs="float[N,3] y")
    source.graph.value_info.add(name="h").type.CopyFrom(source.graph.output[0].type)
    result = convert.attempt(source, {"": 13})
    assert CONTRADICTED in {change.how for change in result.changes}
    feed = {"x": ramp(2, 3, 2)}
    np.testing.assert_allclose(evaluate(result.model, feed)[0], evaluate(source, feed)[0], rtol=1e-5)


# --- types and what they claim -------------------------------------------------------------------------------


def tensor(*dims, kind=1):
    return tensor_type(kind, dims)


SHAPED = [
    (tensor(2, "N"), tensor_type(1)),
    (TypeProto(sparse_tensor_type={"elem_type": 1, "shape": {}}), TypeProto(sparse_tensor_type={"elem_type": 1})),
    (onnx.helper.make_sequence_type_proto(tensor(2)), onnx.helper.make_sequence_type_proto(tensor_type(1))),
    (onnx.helper.make_optional_type_proto(tensor(2)), onnx.helper.make_optional_type_proto(tensor_type(1))),
    (onnx.helper.make_map_type_proto(7, tensor(2)), onnx.helper.make_map_type_proto(7, tensor_type(1))),
    (TypeProto(), TypeProto()),
]


@pytest.mark.parametrize(("kind", "bare"), SHAPED)
def test_a_bare_type_says_nothing_of_shapes_at_any_depth(kind, bare):
    held = kind.SerializeToString()
    assert claims.bare(kind) == bare
    assert kind.SerializeToString() == held
    claims.forget(kind)
    assert kind == bare


def test_what_is_declared_is_taken_back_but_for_types_of_inputs_and_of_custom_operators():
    source = model(
        "a = my.Thing(x) b = my.F(a) k = Relu(b) y = my.Other(k)", 17, inputs="float[N,2] x, bool c", outputs="float[2] y, float[2] k",
        domains='"my" : 1',
    )  # fmt: skip
    stated = onnx.helper.make_tensor_value_info
    inner = onnx.parser.parse_graph("g (float[5] i) => (float[5] v) { w = Abs(i) v = Neg(w) }")
    inner.value_info.append(stated("w", 1, [5]))
    source.graph.node.append(onnx.helper.make_node("Loop", ["", "c"], ["z"], body=inner))
    source.graph.value_info.extend([stated(name, 1, [2]) for name in "ab"])
    source.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -1
    nodes = [onnx.parser.parse_node("o = Relu(i)")]
    source.functions.append(onnx.helper.make_function("my", "F", ["i"], ["o"], nodes, []))
    assert [claims.is_custom(node, {("my", "F")}) for node in source.graph.node] == [True, False, False, True, False]
    claims.withdraw(source)
    assert {value.name: value.type for value in source.graph.value_info} == {"a": tensor_type(1)}
    assert {value.name: value.type for value in source.graph.output} == {"y": tensor_type(1), "k": TypeProto()}
    assert [value.type for value in source.graph.input] == [tensor("N", None), tensor(kind=9)]
    inner = source.graph.node[-1].attribute[0].g
    assert [value.type for value in inner.input] == [tensor_type(1)]
    assert not inner.value_info
    assert not inner.output[0].HasField("type")


@pytest.mark.parametrize(
    ("declared", "inferred", "made", "spelled"),
    [
        ((2, 3), (2, 3), (2, 3), "[2, 3]"),
        ((2, 3), (2, "M"), (2, 3), "[2, 3]"),
        ((2, "A"), (2, "M"), (2, "M"), "[2, M]"),
        ((2, "A"), (2, None), (2, "A"), "[2, A]"),
        ((2, "A"), (2, "unk__7"), (2, "A"), "[2, A]"),
        ((2, None), (2, "unk__7"), (2, "unk__7"), "[2, ?]"),
        ((5, "A"), (2, "unk__7"), (2, "unk__7"), "[2, ?]"),
        ((2,), (2, None), (2, None), "[2, ?]"),
        ((), (), (), "[]"),
    ],
)
def test_sizes_that_are_declared_are_taken_where_nothing_else_is_known(declared, inferred, made, spelled):
    assert claims.reconcile(tensor(*declared), tensor(*inferred)) == tensor(*made)
    assert claims.spell_shape(tensor(*made)) == spelled
    assert claims.contradict(tensor(*declared), tensor(*inferred)) == (declared in [(5, "A"), (2,)])


def test_contradictions_are_told_of_each_graph_and_mended():
    source = model(
        "h = Relu(x) k = my.Thing(h)",
        17,
        inputs="float[2] x, bool c",
        outputs="float[3] h, float[9] z",
        domains='"my" : 1',
    )
    inner = onnx.parser.parse_graph("g () => (float[2,unk__1] v, float[2] w) { w = Abs(x) v = Neg(x) }")
    source.graph.node.append(onnx.helper.make_node("If", ["c"], ["z", "u"], then_branch=inner, name="if"))
    source.graph.node[0].name = "first"
    known = {
        ((), "h"): tensor(2, "unk__3"), ((), "z"): tensor(9), ((), "k"): tensor(1), ((), "x"): tensor(7),
        (((2, "then_branch", 0),), "v"): tensor(2), (((2, "then_branch", 0),), "w"): tensor_type(1),
    }  # fmt: skip
    found = list(claims.find_contradictions(source, lambda path, name: known.get((path, name))))
    assert [(c.node, c.op, c.domain, c.source, c.target, c.how, c.grade, c.remark) for c in found] == [
        ("first", "Relu", "", 14, 14, CONTRADICTED, "exact", "'h': declared [3], inferred [2, ?]"),
        ("v", "Neg", "", 13, 13, CONTRADICTED, "exact", "'v': declared [2, ?], inferred [2]"),
    ]
    made = ModelProto.FromString(source.SerializeToString())
    claims.mend(made, claims.find_contradicted(source, lambda path, name: known.get((path, name))))
    assert [value.type for value in made.graph.output] == [tensor(2, None), tensor(9)]
    assert [value.type for value in made.graph.node[2].attribute[0].g.output] == [tensor(2), tensor(2)]


RANGES = {
    "r = Range(z, n, o)": "N", "r = Range(fz, fn, fo)": "N", "r = Range(o, n, o)": None, "r = Range(z, n, z)": None, "r = Range(z, k, o)": None,
    "r = Range(z, m, o)": 'M', "r = Range(z, e, o)": "M", "r = Range(z, both, o)": None, "r = Range(fz, inf, fo)": None,
    "r = Range(fz, fn, half)": None, "r = Range(z, far, o)": None, "r = Range(z, one, o)": None, "r = Range(cz, n, co)": "N",
    "r = Range(z, nn, o)": "N", "r = Range(z, back, o)": "M", "r = Range(z, twice, o)": None,
    "r = Range(z, wide, o)": "N", "r = Range(z, short, o)": None, "r = Range(z, byte, o)": None,
}  # fmt: skip


@pytest.mark.parametrize("body", RANGES)
def test_what_counts_from_0_by_1_up_to_a_size_is_as_long(body):
    before = """s = Shape(x) n = Gather(s, z) m = Gather(s, o) ns = Shape<start=0,end=1>(x) nn = Squeeze(ns) es = Shape<start=1>(x)
    e = Squeeze(es) both = Squeeze(s) fn = Cast<to=1>(n) far = Gather(s, two) back = Gather(s, minus) one = Gather(es, o) twice = Gather(s, s)
    cz = Constant<value_int=0>() co = Constant<value_int=1>()
    p = Neg(z) w = CastLike(n, p) wide = Identity(w) q = Cast<to=3>(z) v = CastLike(n, q) short = CastLike(v, p) t = Cast<to=2>(n) byte = Cast<to=7>(t)"""
    constants = """int64 z = {0}, int64 o = {1}, int64 k = {5}, float fz = {0}, float fo = {1}, float half = {0.5}, int64 two = {2},
    int64 minus = {-1}"""
    source = model(f"{before} {body}", 17, inputs="float[N,M] x", outputs="y", constants=constants)
    source.graph.initializer.append(onnx.helper.make_tensor("inf", 1, [], [np.inf]))
    inferred = onnx.shape_inference.infer_shapes(source)
    assert claims.state_lengths(source, inferred) is (RANGES[body] is not None)
    assert [value.type for value in source.graph.value_info] == (
        [tensor(RANGES[body], kind=1 if "f" in body[8:11] else 7)] if RANGES[body] else []
    )


def test_a_graph_that_is_given_a_value_does_not_take_it_for_a_constant_of_around():
    source = model(
        "y = Relu(x)",
        18,
        inputs="float[2] x, int64 n, bool go",
        outputs="float[2] y",
        constants="float[3] w = {1, 2, 3}",
    )
    inner = onnx.parser.parse_graph(
        "g (int64 i, bool c, float[5] w) => (bool d, float[5] v, float[7] k) { d = Identity(c) v = Identity(w) k = Constant<value_floats=[1.0]>() }"
    )
    source.graph.node.append(onnx.helper.make_node("Loop", ["n", "go", "x"], ["z", "r"], body=inner))
    changes = list(claims.of_constants(source))
    assert [(c.node, c.op, c.source, c.remark) for c in changes] == [
        ("k", "Constant", 13, "'k': declared [7], inferred [1]")
    ]
    held = source.graph.node[1].attribute[0].g.output
    assert [value.type for value in held[1:]] == [tensor(5), tensor(1)]
    del inner.input[2]
    source.graph.node[1].attribute[0].g.CopyFrom(inner)
    assert [(c.node, c.remark) for c in claims.of_constants(source)] == [
        ("v", "'v': declared [5], inferred [3]"),
        ("k", "'k': declared [7], inferred [1]"),
    ]
