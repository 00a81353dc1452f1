"""What is near to an operator, or known too little of, and must stay."""

import numpy as np
import onnx
import onnx.parser
import pytest
from opshift.passes.conversion import convert

import opshift
from tests.passes.fusion.folding import (
    GELU,
    GELU_CONSTANTS,
    LAYER_CONSTANTS,
    NORMAL,
    check_stays,
    folded,
    written,
)
from tests.support import check_values, model, show


def test_a_node_with_a_second_result_stays():
    body = "a = Div(x, root) e = Erf(a) f = Add(e, one) h = Mul(half, x) t = Mul(f, h) y, mask = Dropout(t)"
    outputs = "float[2,3,4] y, bool[2,3,4] mask"
    source = written(body, 20, inputs="float[2,3,4] x", outputs=outputs, constants=GELU_CONSTANTS)
    assert [node.op_type for node in folded(source).model.graph.node] == ["Gelu", "Dropout"]


def test_what_is_rounded_on_the_way_stays():
    short = " ".join(f"{name} = Cast<to=10>({name}1)" for name in "roc")
    body = f"{short} h = Cast<to=10>(x) a = Div(h, r) b = Erf(a) f = Add(b, o) p = Mul(h, f) q = Mul(p, c) y = Cast<to=1>(q)"
    constants = "float r1 = {1.4142135}, float o1 = {1}, float c1 = {0.5}"
    source = written(body, 20, inputs="float[2,3,4] x", constants=constants)
    result = folded(source)
    assert [node.op_type for node in result.model.graph.node] == ["Cast", "Gelu", "Cast"]


@pytest.mark.parametrize(
    "body",
    [
        "a = Mul(x, root) e = Erf(a) f = Add(e, one) h = Mul(half, x) y = Mul(f, h)",
        f"{GELU} h = Mul(half, b) y = Mul(f, h)",
        "a = Div(x, root) e = Erf(a) f = Add(e, half) h = Mul(half, x) y = Mul(f, h)",
        "a = Div(x, root) e = Tanh(a) f = Add(e, one) h = Mul(half, x) y = Mul(f, h)",
    ],
)
def test_what_is_not_quite_gelu_stays(body):
    check_stays(written(body, 20, constants=GELU_CONSTANTS))


def test_a_value_that_is_used_elsewhere_or_is_an_output_stays():
    body = f"{GELU} h = Mul(half, x) y = Mul(f, h)"
    check_stays(written(f"{body} z = Neg(e)", 20, outputs="float[2,3,4] y, float[2,3,4] z", constants=GELU_CONSTANTS))
    check_stays(written(body, 20, outputs="float[2,3,4] y, float[2,3,4] e", constants=GELU_CONSTANTS))


def test_a_value_that_a_subgraph_reads_stays():
    body = (
        f"{GELU} h = Mul(half, x) y = Mul(f, h) z = If(k) <then_branch = g1 () => (float[2,3,4] t) {{ t = Neg(e) }}, "
    )
    body += "else_branch = g2 () => (float[2,3,4] u) { u = Identity(x) }>"
    source = written(body, 20, inputs="float[2,3,4] x, bool k", outputs="float[2,3,4] y, float[2,3,4] z",
                     constants=GELU_CONSTANTS)  # fmt: skip
    check_stays(source)


@pytest.mark.parametrize(
    ("opset", "options"),
    [(19, {}), (20, {"ops": [("", "LayerNormalization")]}), (20, {"lacking": [("", "Gelu")]})],
)
def test_an_operator_that_is_not_there_or_not_wanted_is_not_brought_in(opset, options):
    check_stays(written(f"{GELU} h = Mul(half, x) y = Mul(f, h)", opset, constants=GELU_CONSTANTS), **options)


@pytest.mark.parametrize("scale", ["float[1]", "float[N]", "float[1,3,1]", "float[2,3,4]"])
def test_a_scale_of_another_shape_stays_behind_the_operator(scale):
    source = model(NORMAL, 17, inputs=f"float[2,3,4] x, {scale} s", outputs="float[2,3,4] y", constants=LAYER_CONSTANTS)
    result = folded(source)
    assert show(result.model) == (
        "t1 = LayerNormalization<axis=-1, epsilon=0.001>(x, [1.0, 1.0, 1.0, 1.0])\ny = Mul(t1, s)"
    )


def test_a_constant_that_adds_an_axis_stays():
    constants = "float[1,1,1,1] e = {0.001}"
    check_stays(model(NORMAL, 17, inputs="float[2,3,4] x, float[4] s", outputs="float[1,2,3,4] y", constants=constants))


@pytest.mark.parametrize(
    "moved", ["r = Reshape(x, to)", "r = Reshape<allowzero=1>(x, to)", "p = Reshape(x, to) r = Transpose(p)"]
)
def test_what_is_moved_in_a_way_that_only_the_run_knows_is_a_value_like_others(moved):
    body = f"{moved} q = Mul(r, r) t = ReduceSum<keepdims=1>(q, a) y = Sqrt(t)"
    source = model(body, 18, inputs="float[N,M] x, int64[K] to", outputs="float[A,B] y", constants="int64[1] a = {-1}")
    result = folded(source)
    assert [node.op_type for node in result.model.graph.node][-1:] == ["ReduceL2"]
    assert [change.how for change in result.changes] == ["Folded Mul, ReduceSum, Sqrt into ReduceL2"]
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(2, 6), "to": np.array([4, 3])}
    check_values(source, result.model, feeds, rtol=2e-6, atol=2e-6)


def test_a_hard_swish_is_no_hard_sigmoid():
    body = "h = HardSwish(x) y = Min(h, one)"
    check_stays(written(body, 14, inputs="float[2,3,4] x", constants="float one = {1}"))


@pytest.mark.parametrize("to", ["int64[K] to", "int64[2] to"])
@pytest.mark.parametrize(
    "body", ["n = Shape(h) c = Cast<to=1>(n) y = Sqrt(c)", "g = Reshape(h, s) q = Reshape(g, two) y = Sqrt(q)"]
)
def test_what_has_no_known_rank_stays(body, to):
    constants = "int64[2] s = {0, -1}, int64[2] two = {-1, 2}"
    io = {
        "inputs": f"float[N,M] x, {to}",
        "outputs": "float[*] y".replace("[*]", "[A]" if "Shape(" in body else "[A,B]"),
    }
    check_stays(written(f"h = Reshape(x, to) {body}", 18, constants=constants, **io))


def test_a_reshape_of_the_first_opsets_is_a_node_like_others():
    text = """<ir_version: 3, opset_import: ["": 4]> g (float[N,6] x) => (float[A,3] y) {
        r = Reshape<shape=[-1, 3]>(x) s = Shape(r) f = Cast<to="FLOAT">(s) t = Transpose(r) u = Transpose(t) y = Relu(u)
    }"""
    check_stays(onnx.parser.parse_model(text))


@pytest.mark.parametrize("moved", ["Identity(h)", "Transpose(h)", "Transpose<perm=[1, 0]>(h)"])
def test_a_value_of_unknown_shape_is_one_like_others(moved):
    before = (
        f"h = Reshape(x, s) g = Transpose(h) t = {moved} p = Mul(t, t) u = ReduceSum(p, axes) r = Sqrt(u) y = Add(r, g)"
    )
    after = f"h = Reshape(x, s) g = Transpose(h) t = {moved} r = ReduceL2<keepdims=1>(t, axes) y = Add(r, g)"
    io = {"inputs": "float[2,3] x, int64[K] s", "outputs": "float[K,L] y"}
    last = 1 if "perm" in moved else -1  # which tells the rank
    first, second = (
        written(body, 18, constants=f"int64[1] axes = {{{axis}}}", **io) for body, axis in ((before, -1), (after, last))
    )
    assert show(folded(first).model) == show(second)


@pytest.mark.parametrize("dims", ["0,1,0,1", "0,2,3,4", "2,2,0,4"])
def test_what_has_no_element_stays(dims):
    source = model(
        "y = InstanceNormalization(x, s, b)", 20, inputs=f"float[{dims}] x, float[C] s, float[C] b",
        outputs=f"float[{dims}] y",
    )  # fmt: skip
    check_stays(convert.attempt(source, {}, ops=[("", "InstanceNormalization")]).model)


SOFTSIGN = "a = Abs(x) b = Add(a, one) y = Div(x, b)"
HARD_SIGMOID = "m = Mul(x, some) a = Add(m, half) l = Max(a, none) y = Min(l, one)"
NUMBERS = {"one": 1.0, "some": 0.25, "half": 0.5, "none": 0.0, "small": 1e-9}


def of_kind(kind, body, opset):
    """A model of a body that reads some of these numbers, in one type."""
    source = written(body, opset, inputs=f"{kind}[2,3,4] x", outputs=f"{kind}[2,3,4] y")
    elem_type = source.graph.input[0].type.tensor_type.elem_type
    read = {name for node in source.graph.node for name in node.input}
    held = [onnx.helper.make_tensor(name, elem_type, [], [value]) for name, value in NUMBERS.items() if name in read]
    source.graph.initializer.extend(held)
    onnx.checker.check_model(source, full_check=True)
    return source


@pytest.mark.parametrize(("op", "body"), [("Softsign", SOFTSIGN), ("HardSigmoid", HARD_SIGMOID)])
@pytest.mark.parametrize("opset", [17, 22])
@pytest.mark.parametrize("named", [False, True])
def test_an_operator_that_does_not_take_a_type_is_not_made_of_it(op, body, opset, named):
    """Neither takes bfloat16 below 22."""
    made = opshift.fold(of_kind("bfloat16", body, opset), [op] if named else None)
    onnx.checker.check_model(made, full_check=True)
    assert (op in [node.op_type for node in made.graph.node]) == (opset == 22)


@pytest.mark.parametrize(("kind", "found"), [("float", True), ("double", False), ("float16", False)])
@pytest.mark.parametrize("opset", [9, 13])
def test_mean_and_variance_are_normalized_in_float_alone(kind, found, opset):
    """The operator's body adds a float to what it has."""
    body = """m = ReduceMean<axes=[0, 2]>(x) c = Sub(x, m) p = Mul(c, c) v = ReduceMean<axes=[0, 2]>(p) r = Sqrt(v)
        e = Add(r, small) y = Div(c, e)"""
    made = opshift.fold(of_kind(kind, body, opset), ["MeanVarianceNormalization"])
    onnx.checker.check_model(made, full_check=True)
    assert ("MeanVarianceNormalization" in [node.op_type for node in made.graph.node]) == found


@pytest.mark.parametrize(("opset", "found"), [(13, False), (18, True), (22, False)])
def test_a_function_calls_what_is_the_same_at_the_opset_of_the_model(opset, found):
    """Runtimes read a function by the imports of the model, and `onnx.checker` asks for operators that are the same."""
    text = f"""<ir_version: 8, opset_import: ["" : {opset}, "l" : 1]> g (float[2] x) => (float[2] y) {{ y = l.F(x) }}
        <domain: "l", opset_import: ["" : 18]> F (x) => (y) {{ t = Softplus(x) u = Tanh(t) y = Mul(x, u) }}"""
    source = onnx.parser.parse_model(text)
    made = opshift.fold(source)
    assert ("Mish" in [node.op_type for node in made.functions[0].node]) == found
    check_values(source, made, {"x": np.array([-1, 2], np.float32)}, rtol=1e-6, atol=1e-6)
