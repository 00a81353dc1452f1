"""What a model declares of shapes is a claim: nothing is optimized or folded by it, and inference wins over it."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import ModelProto
from opshift.passes.analysis.claims import CONTRADICTED
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.changes import GRANTED
from opshift.passes.conversion import convert
from opshift.passes.fusion import fold
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
    assert "[1, seqlen] of 'y'" in wrong[0].remark


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
