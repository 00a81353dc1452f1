"""Folding: round trips of definitions, and variants of them, wherever they stand."""

import numpy as np
import onnx
import pytest
from opshift.passes.conversion import convert
from opshift.passes.fusion import fold
from opshift.passes.model.imports import opsets

from opshift.verification.engines import ENGINES, EngineError
from tests.passes.fusion.folding import (
    FEEDS,
    GELU,
    GELU_CONSTANTS,
    INPUTS,
    LAYER,
    LAYER_CONSTANTS,
    NORMAL,
    check_folds,
    check_stays,
    folded,
    written,
)
from tests.support import check_values, evaluate, model, show

# --- round trips: a definition, expanded by the engine, becomes the operator again ----------------------------

REDUCED = "float[2,1,4] y"
ROUND_TRIPS = [
    pytest.param(
        "LayerNormalization(x, s, b)",
        "LayerNormalization<axis=-1, epsilon=1e-05>(x, s, b)",
        17,
        marks=pytest.mark.newest,
    ),
    ("LayerNormalization<epsilon=0.25>(x, s)", "LayerNormalization<axis=-1, epsilon=0.25>(x, s)", 20),
    ("RMSNormalization<epsilon=0.5>(x, s)", "RMSNormalization<axis=-1, epsilon=0.5>(x, s)", 23),
    ("InstanceNormalization(x, c, d)", "InstanceNormalization<epsilon=1e-05>(x, c, d)", 18),
    ("MeanVarianceNormalization<axes=[0, 2]>(x)", "MeanVarianceNormalization<axes=[0, 2]>(x)", 13),
    ("LpNormalization<axis=1, p=1>(x)", "LpNormalization<axis=-2, p=1>(x)", 18),
    ("LpNormalization(x)", "LpNormalization<axis=-1, p=2>(x)", 18),
    ("Gelu(x)", "Gelu<approximate=none>(x)", 20),
    ('Gelu<approximate="tanh">(x)', "Gelu<approximate=tanh>(x)", 22),
    ("Swish(x)", "Swish(x)", 24),
    ("Swish<alpha=0.3>(x)", "Swish<alpha=0.3>(x)", 24),
    ("HardSwish(x)", "HardSwish(x)", 14),
    ("HardSigmoid<alpha=0.3, beta=0.4>(x)", "HardSigmoid<alpha=0.3, beta=0.4>(x)", 13),
    ("Mish(x)", "Mish(x)", 18),
    ("Celu<alpha=0.3>(x)", "Celu<alpha=0.3>(x)", 18),
    ("Elu<alpha=0.5>(x)", "Elu<alpha=0.5>(x)", 16),
    ("Softplus(x)", "Softplus(x)", 13),
    ("Softsign(x)", "Softsign(x)", 13),
    ("Sigmoid(x)", "Sigmoid(x)", 13),
    ("LeakyRelu<alpha=0.2>(x)", "LeakyRelu<alpha=0.2>(x)", 16),
    ("PRelu(x, s)", "PRelu(x, s)", 16),
    ("LpNormalization<axis=1, p=2>(x)", "LpNormalization<axis=1, p=2>(x)", 10),
    ("Softmax<axis=1>(x)", "Softmax<axis=-2>(x)", 13),
    ("LogSoftmax<axis=1>(x)", "LogSoftmax<axis=-2>(x)", 13),
    ("ReduceL1<axes=[1]>(x)", "ReduceL1<axes=[1], keepdims=1>(x)", 13),
    ("ReduceL2<axes=[1]>(x)", "ReduceL2<axes=[1], keepdims=1>(x)", 13),
    ("ReduceL2<axes=[1]>(x)", "ReduceL2<axes=[1], keepdims=1>(x)", 10),
    ("ReduceLogSum<axes=[1]>(x)", "ReduceLogSum<axes=[1], keepdims=1>(x)", 13),
    ("ReduceSumSquare<axes=[1]>(x)", "ReduceSumSquare<axes=[1], keepdims=1>(x)", 13),
    ("ReduceL2(x, axes)", "ReduceL2<keepdims=1>(x, [1])", 18),
]


@pytest.mark.parametrize(("call", "after", "opset"), ROUND_TRIPS, ids=lambda value: str(value).split("(")[0])
def test_a_definition_becomes_its_operator_again(call, after, opset):
    outputs = REDUCED if call.startswith("Reduce") else "float[2,3,4] y"
    used = ", ".join(
        v for v in INPUTS.split(", ") if v.split()[1] in call.partition("(")[2].replace(")", "").split(", ")
    )
    source = written(f"y = {call}", opset, inputs=used, outputs=outputs, constants="int64[1] axes = {1}")
    op = call.partition("(")[0].partition("<")[0]
    expanded = convert.attempt(source, opsets(source), ops=[("", op)]).model
    assert op not in {node.op_type for node in expanded.graph.node}
    result = check_folds(expanded, f"y = {after}")
    assert {change.op for change in result.changes} == {op}


def test_dropped_dimensions_stay_dropped():
    source = written("t = Mul(x, x) u = ReduceSum<keepdims=0>(t, axes) y = Sqrt(u)", 18, inputs="float[2,3,4] x",
                     outputs="float[2,4] y", constants="int64[1] axes = {1}")  # fmt: skip
    check_folds(source, "y = ReduceL2<keepdims=0>(x, [1])")


# --- other spellings ----------------------------------------------------------------------------------------


def test_a_product_of_no_size_is_no_traceback():
    """A vector of no dimension times one number."""
    held = "int64[0] n = {}, int64 k = {-1}"
    check_stays(
        written("y = Clip(x) z = Mul(n, k)", 13, inputs="float[2] x", outputs="float[2] y, int64[0] z", constants=held)
    )


@pytest.mark.parametrize(
    "body",
    [
        f"{GELU} h = Mul(half, x) y = Mul(f, h)",
        f"{GELU} h = Mul(x, f) y = Mul(h, half)",
        f"{GELU} h = Mul(f, half) y = Mul(h, x)",
        "a = Div(x, root) e = Erf(a) h = Mul(half, e) f = Add(h, half) y = Mul(x, f)",
        "a = Div(x, root) e = Erf(a) h = Mul(x, half) f = Mul(h, e) y = Add(h, f)",
    ],
)
def test_gelu_however_it_is_spelled(body):
    check_folds(written(body, 20, inputs="float[2,3,4] x", constants=GELU_CONSTANTS), "y = Gelu<approximate=none>(x)")


@pytest.mark.parametrize(
    "body",
    [
        "q = Mul(d, d) v = ReduceMean<axes=[2]>(q) w = Add(v, e) r = Sqrt(w) n = Div(d, r) g = Mul(n, s) y = Add(g, b)",
        "q = Pow(d, two) v = ReduceMean<axes=[2]>(q) w = Add(e, v) r = Sqrt(w) i = Reciprocal(r) n = Mul(d, i) "
        "g = Mul(s, n) y = Add(b, g)",
        "q = Pow(d, two) v = ReduceMean<axes=[2]>(q) w = Add(e, v) r = Sqrt(w) i = Div(one, r) f = Mul(i, s) "
        "h = Mul(x, f) o = Mul(m, f) p = Sub(b, o) y = Add(h, p)",
        "k = Mul(x, x) l = ReduceMean<axes=[-1]>(k) o = Mul(m, m) v = Sub(l, o) w = Add(e, v) r = Sqrt(w) "
        "i = Reciprocal(r) f = Mul(i, s) h = Mul(d, f) y = Add(h, b)",
    ],
    ids=["torch", "keras", "tensorflow", "flax"],
)
@pytest.mark.newest
def test_layer_normalization_however_it_is_spelled(body):
    source = written(f"{LAYER} {body}", 17, inputs="float[2,3,4] x, float[4] s, float[4] b", constants=LAYER_CONSTANTS)
    check_folds(source, "y = LayerNormalization<axis=-1, epsilon=0.001>(x, s, b)")


def test_the_data_may_be_a_sum_or_a_product():
    body = "z = Add(x, x2) {} q = Mul(d, d) v = ReduceMean<axes=[2]>(q) w = Add(v, e) r = Sqrt(w) n = Div(d, r) y = Mul(n, s)"
    body = body.format("m = ReduceMean<axes=[-1]>(z) d = Sub(z, m)")
    source = written(body, 17, inputs="float[2,3,4] x, float[2,3,4] x2, float[4] s", constants=LAYER_CONSTANTS)
    check_folds(source, "t1 = Add(x, x2)\ny = LayerNormalization<axis=-1, epsilon=0.001>(t1, s)")


def test_statistics_whose_axis_was_dropped_and_put_back():
    """jax sums up, reshapes, expands and divides."""
    body = "a = ReduceSum<keepdims=0>(x, i) r = Reshape(a, to) h = Expand(r, to) m = Div(h, n) "
    body += "p = Mul(x, x) c = ReduceSum<keepdims=0>(p, i) f = Reshape(c, to) g = Div(f, n) q = Mul(m, m) "
    body += "w = Sub(g, q) k = Max(z, w) d = Sub(x, m) l = Add(k, e) j = Sqrt(l) u = Div(one, j) t = Mul(d, u) y = Mul(t, s)"
    constants = (
        "int64[1] i = {2}, int64[3] to = {2, 3, 1}, float n = {4}, float z = {0}, float e = {0.5}, float one = {1}"
    )
    source = written(body, 18, inputs="float[2,3,4] x, float[4] s", constants=constants)
    check_folds(source, "y = LayerNormalization<axis=-1, epsilon=0.5>(x, s)")


def test_types_of_values_that_are_gone_are_not_stated():
    source = written(f"{GELU} h = Mul(half, x) y = Mul(f, h)", 20, constants=GELU_CONSTANTS)
    source = onnx.shape_inference.infer_shapes(source)
    assert len(source.graph.value_info) == 4
    assert not folded(source).model.graph.value_info


def test_an_operator_is_brought_in_by_name():
    source = written("t = Max(x, z) y = Neg(t)", 13, inputs="float[2,3,4] x", constants="float z = {0}")
    check_stays(source)
    result = check_folds(source, "t1 = Relu(x)\ny = Neg(t1)", ops=[("", "Relu")])
    assert result.grade == "exact"


@pytest.mark.parametrize("squares", ["q = Mul(x, x) t = ReduceSum(q, i)", "t = ReduceSumSquare<axes=[1]>(x)"])
def test_openvino_is_brought_in_by_name_and_imported(squares):
    constants = "int64[1] i = {1}, float e = {0.25}"
    body = f"{squares} b = Add(t, e) r = Sqrt(b) y = Div(x, r)"
    source = written(body, 13, inputs="float[2,3,4] x", constants=constants)
    result = fold.attempt(source, ops=[("opshift.openvino", "NormalizeL2")])
    assert show(result.model) == "y = opshift.openvino.NormalizeL2<eps=0.25, eps_mode=add>(x, [1])"
    assert opsets(result.model) == {"": 13, "opshift.openvino": 1}


@pytest.mark.parametrize("kind", ["double", "float16", "bfloat16"])
def test_other_widths(kind):
    """Constants are rounded to the type of the data, and no more than that."""
    source = model("y = Gelu(x)", 20, inputs=f"{kind}[2,3,4] x", outputs=f"{kind}[2,3,4] y")
    expanded = convert.attempt(source, opsets(source), ops=[("", "Gelu")]).model
    assert "Gelu" not in {node.op_type for node in expanded.graph.node}
    assert show(folded(expanded).model) == "y = Gelu<approximate=none>(x)"


@pytest.mark.newest
def test_leading_ones_of_a_scale_go():
    scale = "float[1,1,4] s = {1, 2, -3, 0.5}"
    source = written(NORMAL, 17, inputs="float[2,3,4] x", constants=f"{LAYER_CONSTANTS}, {scale}")
    check_folds(source, "y = LayerNormalization<axis=-1, epsilon=0.001>(x, [1.0, 2.0, -3.0, 0.5])")


# --- inside ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "grade"), [("n, m", "exact"), ("m, n", "close"), ("m, three", "close"), ("three, m", "exact")]
)
@pytest.mark.parametrize("chosen", ["w", "v"])
def test_a_size_that_a_reshape_reads_as_a_size_is_1_or_more(to, grade, chosen):
    """A 0 means to it what was there; where the size stays in its place that is the same."""
    body = f"n = Shape<start=0, end=1>(x) m = Shape<start=1, end=2>(x) w = Concat<axis=0>({to}) "
    body += f"e = Equal(w, rest) v = Where(e, ones, w) t = Reshape(x, {chosen}) "
    body += "q = Mul(t, t) u = ReduceSum<keepdims=1>(q, a) y = Sqrt(u)"
    constants = "int64[1] a = {-1}, int64[1] three = {3}, int64[2] rest = {-1, -1}, int64[2] ones = {1, 1}"
    source = model(body, 18, inputs="float[N,M] x", outputs="float[A,B] y", constants=constants)
    result = folded(source)
    (change,) = result.changes
    assert change.op == "ReduceL2"
    assert ("dynamic sizes are 1 or more" in change.remark) == (grade == "close")
    check_values(source, result.model, {"x": FEEDS["x"][0]}, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("order", ["", "<perm=[1,0]>"])
def test_a_reshape_to_the_shape_that_is_there_is_seen_through(order):
    body = "n = Shape<start=0, end=1>(x) m = Shape<start=1, end=2>(x) w = Concat<axis=0>(m, n) e = Equal(w, rest) "
    body += f"v = Where(e, ones, w) h = Reshape(x, v) t = Transpose{order}(h) s = Shape(x) g = Reshape(t, s) "
    body += "q = Mul(g, t) u = ReduceSum<keepdims=1>(q, a) y = Sqrt(u)"
    constants = "int64[1] a = {-1}, int64[2] rest = {-1, -1}, int64[2] ones = {1, 1}"
    source = model(body, 18, inputs="float[N,M] x", outputs="float[A,B] y", constants=constants)
    result = folded(source).model
    assert "ReduceL2" in [node.op_type for node in result.graph.node]
    check_values(source, result, {"x": FEEDS["x"][0]}, rtol=2e-6, atol=2e-6)


def test_an_expansion_to_the_shape_that_is_there_is_seen_through():
    """As torch writes it: -1 stands for a dimension that is kept."""
    body = "n = Shape<start=0, end=1>(x) w = Concat<axis=0>(n, m, four) c = Equal(w, ms) o = Where(c, ones, w) "
    body += "g = Expand(x, o) a = Div(g, root) e = Erf(a) f = Add(e, one) h = Mul(half, x) y = Mul(f, h)"
    constants = f"{GELU_CONSTANTS}, int64[1] m = {{3}}, int64[1] four = {{4}}, int64[3] ms = {{-1, -1, -1}}, "
    source = written(body, 20, inputs="float[2,3,4] x", constants=constants + "int64[3] ones = {1, 1, 1}")
    check_folds(source, "y = Gelu<approximate=none>(x)")


@pytest.mark.parametrize("of", ["p = MaxPool<kernel_shape=[1]>(x)", "p, i = MaxPool<kernel_shape=[1]>(x)"])
def test_the_first_result_of_several_has_its_own_type(of):
    source = written(
        f"{of} {GELU.replace('x', 'p')} h = Mul(half, p) y = Mul(f, h)",
        20,
        inputs="float[2,3,4] x",
        constants=GELU_CONSTANTS,
    )
    assert [node.op_type for node in folded(source).model.graph.node] == ["MaxPool", "Gelu"]


def test_shapes_are_followed_no_further_than_stacks_are_deep():
    sums = " ".join(f"t{k + 1} = Add(x, t{k})" if k % 2 else f"t{k + 1} = Add(t{k}, x)" for k in range(1200))
    body = f"t0 = Neg(x) {sums} n = Shape(t1200) g = Reshape(x, n) y = Relu(g)"
    source = model(body, 18, inputs="float[N,3] x", outputs="float[A,B] y")
    assert folded(source).model.graph.node[-1].op_type == "Relu"


@pytest.mark.parametrize("root", ["Sqrt(two)", "Mul(two, half)"])
def test_a_constant_that_is_computed_around_a_branch(root):
    branch = f"{GELU} h = Mul(half, x) t = Mul(f, h)"
    body = f"root = {root} y = If(k) <then_branch = g1 () => (float[2,3,4] t) {{ {branch} }}, "
    body += "else_branch = g2 () => (float[2,3,4] u) { u = Identity(x) }>"
    constants = GELU_CONSTANTS.replace("root = {1.4142135}", "two = {2}")
    source = written(body, 20, inputs="float[2,3,4] x, bool k", constants=constants)
    result = folded(source)
    then = next(a.g for a in result.model.graph.node[-1].attribute if a.name == "then_branch")
    assert ([node.op_type for node in then.node] == ["Gelu"]) == (root == "Sqrt(two)")
    check_values(source, result.model, {"x": FEEDS["x"], "k": np.array(True)}, rtol=1e-6, atol=1e-6)


def test_inside_an_if():
    branch = f"{GELU} h = Mul(half, x) t = Mul(f, h)"
    body = f"y = If(k) <then_branch = g1 () => (float[2,3,4] t) {{ {branch} }}, "
    body += "else_branch = g2 () => (float[2,3,4] u) { u = Identity(x) }>"
    source = written(body, 20, inputs="float[2,3,4] x, bool k", constants=GELU_CONSTANTS)
    result = folded(source)
    assert [node.op_type for node in result.model.graph.node[0].attribute[0].g.node] == ["Gelu"]
    check_values(source, result.model, {"x": FEEDS["x"], "k": np.array(True)}, rtol=1e-6, atol=1e-6)


def test_inside_a_function():
    body = "o = Cast<to=1>(x) k = Constant<value_float=1.4142135>() one = Constant<value_float=1.0>() "
    body += "half = Constant<value_float=0.5>() a = Div(o, k) e = Erf(a) f = Add(e, one) h = Mul(half, o) y = Mul(f, h)"
    text = '<ir_version: 8, opset_import: ["" : 20, "local" : 1]> g (double[2,3,4] x) => (float[2,3,4] y) '
    text += f'{{ y = local.act(x) }} <domain: "local", opset_import: ["" : 20]> act (x) => (y) {{ {body} }}'
    source = onnx.parser.parse_model(text)
    result = folded(source)
    assert [node.op_type for node in result.model.functions[0].node] == ["Cast", "Gelu"]
    check_values(source, result.model, {"x": FEEDS["x"].astype(np.float64)}, rtol=1e-6, atol=1e-6)


def test_a_fold_is_reported_with_what_it_was_made_of():
    result = folded(written(f"{GELU} h = Mul(half, x) y = Mul(f, h)", 20, constants=GELU_CONSTANTS))
    (change,) = result.changes
    assert (change.node, change.op, change.how) == ("y", "Gelu", "Gelu from Div, Erf, Add, Mul, Mul")
    assert (change.grade, result.grade) == ("close", "close")
    assert result.before[("", "Mul")] == 2
    assert result.after == {("", "Gelu"): 1}


def test_small_constants_in_external_data_are_read(tmp_path):
    source = written(f"{GELU} h = Mul(half, x) y = Mul(f, h)", 20, inputs="float[2,3,4] x", constants=GELU_CONSTANTS)
    for tensor in source.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))
    path = tmp_path / "model.onnx"
    onnx.save(source, path, save_as_external_data=True, size_threshold=0, location="weights")
    stored = onnx.load(path, load_external_data=False)
    assert [node.op_type for node in fold.attempt(stored, folder=str(tmp_path)).model.graph.node] == ["Gelu"]
    assert fold.attempt(stored).model == stored
    (tmp_path / "weights").unlink()
    assert fold.attempt(stored, folder=str(tmp_path)).model == stored


def test_gelu_of_a_sum():
    """The cube of a sum stands beside the sum itself."""
    body = "h = Add(x, s) p = Mul(h, h) q = Mul(h, p) g = Mul(k, q) i = Add(h, g) t = Mul(r, i) u = Tanh(t) "
    body += "o = Add(one, u) m = Mul(h, o) y = Mul(half, m)"
    constants = "float k = {0.044715}, float r = {0.7978845608}, float one = {1}, float half = {0.5}"
    source = written(body, 20, constants=constants)
    check_folds(source, "t1 = Add(x, s)\ny = Gelu<approximate=tanh>(t1)")
    halved = folded(written(body.replace("Add(h, g)", "Add(x, g)"), 20, constants=constants))
    assert [node.op_type for node in halved.model.graph.node].count("Gelu") == 0


@pytest.mark.newest
@pytest.mark.parametrize("opset", range(23, 29))
def test_what_onnxruntime_runs_before_it_runs_after(opset):
    """It has no kernel for Swish, runs its body at opset 24 alone, and reads no model above 26."""
    source = written("s1 = Sigmoid(x) y = Mul(x, s1)", opset, inputs="float[2,3,4] x")
    result = folded(source).model
    assert [node.op_type for node in result.graph.node] == (["Swish"] if opset in (24, 27, 28) else ["Sigmoid", "Mul"])
    if opset <= 26:
        (y,) = ENGINES[0](result).run({"x": FEEDS["x"]})
        np.testing.assert_allclose(y, FEEDS["x"] / (1 + np.exp(-FEEDS["x"])), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [25, 26])
def test_what_onnxruntime_does_not_run_comes_in_by_name(opset):
    source = written("s1 = Sigmoid(x) y = Mul(x, s1)", opset, inputs="float[2,3,4] x")
    made = folded(source, ops=[("", "Swish")]).model
    assert [node.op_type for node in made.graph.node] == ["Swish"]
    with pytest.raises(EngineError):  # else it need not be asked for by name any more
        ENGINES[0](made)


@pytest.mark.parametrize("dims", ["0", "2,0,4"])
def test_what_computes_each_element_by_itself_is_found_where_there_is_none(dims):
    io = {
        "inputs": f"float[{dims}] x",
        "outputs": f"float[{dims}] y",
        "constants": "float r = {1.41421356}, float one = {1}, float half = {0.5}",
    }
    source = model("a = Div(x, r) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half)", 20, **io)
    made = folded(source).model
    assert [node.op_type for node in made.graph.node] == ["Gelu"]
    shape = tuple(map(int, dims.split(",")))
    assert evaluate(made, {"x": np.zeros(shape, np.float32)})[0].shape == shape


@pytest.mark.parametrize(
    ("w", "added", "found"),
    [("4,4", "4", True), ("1,4", "1", True), ("1,4", "4", False), ("N,4", "4", False), ("N,4", "N", True), ("4,4", "3,4", True)],
)  # fmt: skip
def test_what_is_added_to_a_product_does_not_widen_it(w, added, found):
    body = "t = Transpose<perm = [1, 0]>(w) m = MatMul(x, t) y = Add(m, b)"
    source = model(body, 17, inputs=f"float[3,4] x, float[{w}] w, float[{added}] b", outputs="float[A,B] y")
    nodes = fold.attempt(source, ops=[("", "Gemm")]).model.graph.node
    assert [len(node.input) for node in nodes if node.op_type == "Gemm"] == [3 if found else 2]


def test_groups_of_doubles_are_normalized_in_double():
    source = model(
        "y = GroupNormalization<num_groups = 2, stash_type = 11, epsilon = 0.5>(x, s, b)",
        21, inputs="double[2,4,3] x, double[4] s, double[4] b", outputs="double[2,4,3] y",
    )  # fmt: skip
    plain = convert.attempt(source, {"": 21}, ops=[("", "GroupNormalization")]).model
    (node,) = fold.attempt(plain, ops=[("", "GroupNormalization")]).model.graph.node
    assert {a.name: a.i for a in node.attribute if a.name != "epsilon"} == {"num_groups": 2, "stash_type": 11}
