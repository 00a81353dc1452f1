"""Folding: round trips of definitions, variants of them, and what is near to one and must stay."""

import numpy as np
import onnx
import pytest
from opshift.passes.conversion import convert
from opshift.passes.fusion import fold
from opshift.passes.model.imports import opsets

from opshift.verification.engines import ENGINES, EngineError
from tests.support import check_values, model, show

FEEDS = {
    "x": np.linspace(-3, 4, 24, dtype=np.float32).reshape(2, 3, 4),
    "s": np.array([1, 2, -3, 0.5], np.float32),
    "b": np.array([0.5, 1, -1, 2], np.float32),
    "c": np.array([1, 2, -3], np.float32),
    "d": np.array([0.5, 1, -1], np.float32),
}
INPUTS = "float[2,3,4] x, float[4] s, float[4] b, float[3] c, float[3] d"


def folded(source, **options):
    kept = source.SerializeToString()
    result = fold.attempt(source, **options)
    assert source.SerializeToString() == kept, "the caller's model was changed"
    assert not result.refusals
    onnx.checker.check_model(result.model, full_check=True)
    return result


def written(body, opset, *, inputs=INPUTS, outputs="float[2,3,4] y", constants=""):
    return model(body, opset, inputs=inputs, outputs=outputs, constants=constants)


def check_stays(source, **options):
    result = folded(source, **options)
    assert show(result.model) == show(source)
    assert result.model == source
    assert not result.changes


def check_folds(source, after, **options):
    result = folded(source, **options)
    assert show(result.model) == "\n".join(line.strip() for line in after.strip().splitlines())
    check_values(source, result.model, {n: v for n, v in FEEDS.items() if n in inputs(source)}, rtol=2e-6, atol=2e-6)
    return result


def inputs(source):
    return {value.name for value in source.graph.input}


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

GELU = "a = Div(x, root) e = Erf(a) f = Add(e, one)"
GELU_CONSTANTS = "float root = {1.4142135}, float one = {1}, float half = {0.5}"
LAYER = "m = ReduceMean<axes=[-1]>(x) d = Sub(x, m)"
LAYER_CONSTANTS = "float e = {0.001}, float two = {2}, float one = {1}"


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


def test_a_node_with_a_second_result_stays():
    body = "a = Div(x, root) e = Erf(a) f = Add(e, one) h = Mul(half, x) t = Mul(f, h) y, mask = Dropout(t)"
    outputs = "float[2,3,4] y, bool[2,3,4] mask"
    source = written(body, 20, inputs="float[2,3,4] x", outputs=outputs, constants=GELU_CONSTANTS)
    assert [node.op_type for node in folded(source).model.graph.node] == ["Gelu", "Dropout"]


@pytest.mark.parametrize("kind", ["double", "float16", "bfloat16"])
def test_other_widths(kind):
    """Constants are rounded to the type of the data, and no more than that."""
    source = model("y = Gelu(x)", 20, inputs=f"{kind}[2,3,4] x", outputs=f"{kind}[2,3,4] y")
    expanded = convert.attempt(source, opsets(source), ops=[("", "Gelu")]).model
    assert "Gelu" not in {node.op_type for node in expanded.graph.node}
    assert show(folded(expanded).model) == "y = Gelu<approximate=none>(x)"


def test_what_is_rounded_on_the_way_stays():
    short = " ".join(f"{name} = Cast<to=10>({name}1)" for name in "roc")
    body = f"{short} h = Cast<to=10>(x) a = Div(h, r) b = Erf(a) f = Add(b, o) p = Mul(h, f) q = Mul(p, c) y = Cast<to=1>(q)"
    constants = "float r1 = {1.4142135}, float o1 = {1}, float c1 = {0.5}"
    source = written(body, 20, inputs="float[2,3,4] x", constants=constants)
    result = folded(source)
    assert [node.op_type for node in result.model.graph.node] == ["Cast", "Gelu", "Cast"]


# --- what stays -----------------------------------------------------------------------------------------------


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


NORMAL = f"{LAYER} q = Mul(d, d) v = ReduceMean<axes=[2]>(q) w = Add(v, e) r = Sqrt(w) n = Div(d, r) y = Mul(n, s)"


@pytest.mark.parametrize("scale", ["float[1]", "float[N]", "float[1,3,1]", "float[2,3,4]"])
def test_a_scale_of_another_shape_stays_behind_the_operator(scale):
    source = model(NORMAL, 17, inputs=f"float[2,3,4] x, {scale} s", outputs="float[2,3,4] y", constants=LAYER_CONSTANTS)
    result = folded(source)
    assert show(result.model) == (
        "t1 = LayerNormalization<axis=-1, epsilon=0.001>(x, [1.0, 1.0, 1.0, 1.0])\ny = Mul(t1, s)"
    )


@pytest.mark.newest
def test_leading_ones_of_a_scale_go():
    scale = "float[1,1,4] s = {1, 2, -3, 0.5}"
    source = written(NORMAL, 17, inputs="float[2,3,4] x", constants=f"{LAYER_CONSTANTS}, {scale}")
    check_folds(source, "y = LayerNormalization<axis=-1, epsilon=0.001>(x, [1.0, 2.0, -3.0, 0.5])")


def test_a_constant_that_adds_an_axis_stays():
    constants = "float[1,1,1,1] e = {0.001}"
    check_stays(model(NORMAL, 17, inputs="float[2,3,4] x, float[4] s", outputs="float[1,2,3,4] y", constants=constants))


INSTANCES = "n = InstanceNormalization<epsilon=0.5>(g, i, o)"
MOMENTS = (
    "m = ReduceMean(g, a) d = Sub(g, m) q = Mul(d, d) v = ReduceMean(q, a) w = Add(v, e) r = Sqrt(w) n = Div(d, r)"
)
GROUPS = "int64[1] a = {-1}, int64[3] to = {0, 2, -1}, float[2] i = {1, 1}, float[2] o = {0, 0}, float e = {0.5}"


def groups(body, image, scale):
    body = f"g = Reshape(x, to) {body} k = Shape(x) h = Reshape(n, k) p = Mul(h, s) y = Add(p, b)"
    scales = f"float{scale} s = {{1, 2, -3, 0.5}}, float{scale} b = {{0, 1, -1, 2}}"
    io = {"inputs": f"float[N,{image}] x", "outputs": f"float[N,{image}] y"}
    return model(body, 21, **io, constants=f"{GROUPS}, {scales}")


@pytest.mark.parametrize("body", [INSTANCES, MOMENTS])
def test_group_normalization_of_reshaped_channels(body):
    source = groups(body, "4,3,5", "[4,1,1]")
    result = folded(source)
    scales = "[1.0, 2.0, -3.0, 0.5], [0.0, 1.0, -1.0, 2.0]"
    assert show(result.model) == f"y = GroupNormalization<epsilon=0.5, num_groups=2>(x, {scales})"
    feeds = {"x": np.linspace(-3, 4, 120, dtype=np.float32).reshape(2, 4, 3, 5) ** 2}
    check_values(source, result.model, feeds, rtol=1e-5, atol=1e-5)


def test_groups_that_are_scaled_along_another_axis_stay():
    check_stays(groups(INSTANCES, "4,4,5", "[4,1]"))


# --- inside ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "moved", ["r = Reshape(x, to)", "r = Reshape<allowzero=1>(x, to)", "p = Reshape(x, to) r = Transpose(p)"]
)
def test_what_is_moved_in_a_way_that_only_the_run_knows_is_a_value_like_others(moved):
    body = f"{moved} q = Mul(r, r) t = ReduceSum<keepdims=1>(q, a) y = Sqrt(t)"
    source = model(body, 18, inputs="float[N,M] x, int64[K] to", outputs="float[A,B] y", constants="int64[1] a = {-1}")
    result = folded(source)
    assert [node.op_type for node in result.model.graph.node][-1:] == ["ReduceL2"]
    assert [change.how for change in result.changes] == ["ReduceL2 from Mul, ReduceSum, Sqrt"]
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(2, 6), "to": np.array([4, 3])}
    check_values(source, result.model, feeds, rtol=2e-6, atol=2e-6)


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
    assert ("sizes that only the run tells" in change.remark) == (grade == "close")
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


def test_a_hard_swish_is_no_hard_sigmoid():
    body = "h = HardSwish(x) y = Min(h, one)"
    check_stays(written(body, 14, inputs="float[2,3,4] x", constants="float one = {1}"))


def test_shapes_are_followed_no_further_than_stacks_are_deep():
    sums = " ".join(f"t{k + 1} = Add(x, t{k})" if k % 2 else f"t{k + 1} = Add(t{k}, x)" for k in range(1200))
    body = f"t0 = Neg(x) {sums} n = Shape(t1200) g = Reshape(x, n) y = Relu(g)"
    source = model(body, 18, inputs="float[N,3] x", outputs="float[A,B] y")
    assert folded(source).model.graph.node[-1].op_type == "Relu"


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


@pytest.mark.parametrize("moved", ["Identity(h)", "Transpose(h)", "Transpose<perm=[1, 0]>(h)"])
def test_a_value_of_unknown_shape_is_one_like_others(moved):
    before = (
        f"h = Reshape(x, s) g = Transpose(h) t = {moved} p = Mul(t, t) u = ReduceSum(p, axes) r = Sqrt(u) y = Add(r, g)"
    )
    after = f"h = Reshape(x, s) g = Transpose(h) t = {moved} r = ReduceL2<keepdims=1>(t, axes) y = Add(r, g)"
    io = {"inputs": "float[2,3] x, int64[K] s", "outputs": "float[K,L] y", "constants": "int64[1] axes = {-1}"}
    made = folded(written(before, 18, **io)).model
    assert show(made) == show(written(after, 18, **io))


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


def test_group_normalization_with_computed_constants():
    """torch's exporter, before it optimizes, makes ones by Expand and the axes of the scale by Range."""
    body = "n1 = Reshape(two, m1) to = Concat<axis=0>(z1, n1, m1) r = Reshape(x, to) l1 = CastLike(one, x) "
    body += "ones = Expand(l1, n1) l0 = CastLike(zero, x) zeros = Expand(l0, n1) i = InstanceNormalization(r, ones, "
    body += "zeros) shape = Shape(x) b = Reshape(i, shape) e = Sub(four, i1) axes = Range(i1, e, i1) "
    body += "w2 = Unsqueeze(w, axes) o2 = Unsqueeze(o, axes) m = Mul(b, w2) y = Add(m, o2)"
    constants = "int64 two = {2}, int64 four = {4}, int64 i1 = {1}, int64[1] m1 = {-1}, int64[1] z1 = {0}, "
    constants += "float one = {1}, float zero = {0}"
    io = {"inputs": "float[2,4,3,5] x, float[4] w, float[4] o", "outputs": "float[2,4,3,5] y"}
    source = model(body, 21, constants=constants, **io)
    result = folded(source).model
    assert [node.op_type for node in result.graph.node] == ["GroupNormalization"]
    feeds = {"x": np.linspace(-3, 4, 120, dtype=np.float32).reshape(2, 4, 3, 5), "w": FEEDS["s"], "o": FEEDS["b"]}
    check_values(source, result, feeds, rtol=2e-5, atol=2e-5)


def test_group_normalization_whose_groups_are_measured():
    body = "d = Shape(x) n = Shape<end=1>(x) r = Shape<start=1>(x) p = ReduceProd(r) e = Div(p, two) "
    body += "to = Concat<axis=0>(n, two, e) g = Reshape<allowzero=1>(x, to) " + MOMENTS
    body += " h = Reshape(n0, d) m1 = Mul(h, s) y = Add(m1, b)"
    body = body.replace("n = Div(d, r)", "n0 = Div(c, u)").replace(
        "d = Sub(g, m) q = Mul(d, d)", "c = Sub(g, m) q = Mul(c, c)"
    )
    body = body.replace("r = Sqrt(w)", "u = Sqrt(w)")
    constants = "int64[1] two = {2}, int64[1] a = {-1}, float e0 = {0.5}, "
    constants += "float[4,1,1] s = {1, 2, -3, 0.5}, float[4,1,1] b = {0, 1, -1, 2}"
    io = {"inputs": "float[N,4,H,W] x", "outputs": "float[N,4,H,W] y"}
    source = model(body.replace("Add(v, e)", "Add(v, e0)"), 21, constants=constants, **io)
    result = folded(source).model
    assert [node.op_type for node in result.graph.node] == ["GroupNormalization"]
    assert fold.attempt(source).grade == "close"
    feeds = {"x": np.linspace(-3, 4, 120, dtype=np.float32).reshape(2, 4, 3, 5)}
    check_values(source, result, feeds, rtol=2e-5, atol=2e-5)


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


@pytest.mark.parametrize("dims", ["0,1,0,1", "0,2,3,4", "2,2,0,4"])
def test_what_has_no_element_stays(dims):
    source = model(
        "y = InstanceNormalization(x, s, b)", 20, inputs=f"float[{dims}] x, float[C] s, float[C] b",
        outputs=f"float[{dims}] y",
    )  # fmt: skip
    check_stays(convert.attempt(source, {}, ops=[("", "InstanceNormalization")]).model)


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
