"""A small model in float64: what is double in it, what stays, and which engine runs it."""

import ml_dtypes
import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest

from opshift.verification.float64 import open_wide, widen, widen_feeds
from tests.support import model

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
W = X.astype(np.float64)
IO = {"inputs": "float[3,4] x", "outputs": "y"}


def wide(body, opset=18, given=None, **io):
    (made,) = open_wide(model(body, opset, **{**IO, **io})).run(widen_feeds({"x": X, **(given or {})}))
    return made


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Exp(x)", np.exp(W)),
        ("t = Cast<to = 1>(x) u = Cast<to = 10>(t) y = Exp(u)", np.exp(W)),
        ("c = Constant<value_float = 0.1>() y = Mul(x, c)", W * np.float64(np.float32(0.1))),
        ("c = Constant<value_floats = [0.1, 0.2, 0.3, 0.4]>() y = Mul(x, c)", W * np.float32([0.1, 0.2, 0.3, 0.4]).astype("f8")),
        ("c = Constant<value = float16 {1}>() d = Cast<to = 1>(c) y = Add(x, d)", None),
        ("i = Cast<to = 7>(x) y = Cast<to = 1>(i)", np.trunc(W)),
        ("y = Mul(x, k)", W * np.float64(np.float32(0.3))),
        ("s = Shape(x) z = ConstantOfShape(s) y = Add(z, x)", W),
        ("y = EyeLike<dtype = 1>(x)", np.eye(3, 4)),
        ("y = LeakyRelu<alpha = 0.5>(x)", np.where(W < 0, W / 2, W)),
        ("y = Softmax(x)", np.exp(W) / np.exp(W).sum(-1, keepdims=True)),
    ],
)  # fmt: skip
def test_floats_are_double(body, expected):
    made = wide(body, constants="float k = {0.3}")
    assert made.dtype == np.float64
    if expected is not None:
        np.testing.assert_allclose(made, expected, rtol=1e-15)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_weights_are_widened_as_they_are(kind):
    source = model("y = MatMul(x, w)", 13, inputs=f"{np.dtype(kind).name.replace('32', '')}[2,2] x", outputs="y")
    weight = np.array([[0.1, 2], [3, 4]], kind)
    source.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    kept = source.SerializeToString()
    x = np.array([[0.5, 2049.0], [1.0, 70000.0]])
    np.testing.assert_array_equal(open_wide(source).run({"x": x})[0], x @ weight.astype("f8"))
    assert source.SerializeToString() == kept


BODIES = {
    "If": """c = ReduceMax<keepdims = 0>(x) b = Cast<to = 9>(c) y = If(b) <
        then_branch = t () => (float[3,4] v) { v = Exp(x) }, else_branch = e () => (float[3,4] u) { u = Neg(x) }>""",
    "Loop": """n = Constant<value_int = 3>() y = Loop(n, , x) <
        body = b (int64 i, bool c, float[3,4] v) => (bool d, float[3,4] w) { d = Identity(c) w = Sin(v) }>""",
    "Scan": """z = Constant<value_floats = [0.0, 0.0, 0.0, 0.0]>() t, y = Scan<num_scan_inputs = 1,
        body = b (float[4] a, float[4] v) => (float[4] w, float[4] u) { w = Add(a, v) u = Identity(w) }>(z, x)""",
}
EXPECTED = {"If": np.exp(W), "Loop": np.sin(np.sin(np.sin(W))), "Scan": np.cumsum(W, 0)}


@pytest.mark.parametrize("name", BODIES)
def test_inner_graphs_are_double_too(name):
    np.testing.assert_allclose(wide(BODIES[name]), EXPECTED[name], rtol=1e-14)


def test_functions_are_double_too():
    text = """<ir_version: 8, opset_import: ["" : 18, "my" : 1]> g (float[3,4] x) => (float[3,4] y) { y = my.F<a = -1>(x) }
        <domain: "my", opset_import: ["" : 18]> F <a>(v) => (w) { c = Constant<value_float = 0.1>() w = Mul(v, c) }"""
    (made,) = open_wide(onnx.parser.parse_model(text)).run({"x": W})
    np.testing.assert_allclose(made, W * np.float64(np.float32(0.1)), rtol=1e-15)


def test_what_sequences_hold_is_double():
    made = wide("e = Exp(x) s = SequenceConstruct(x, e) y = ConcatFromSequence<axis = 0>(s)")
    np.testing.assert_allclose(made, np.concatenate([W, np.exp(W)]), rtol=1e-15)
    assert [value.dtype for value in widen_feeds({"s": [X, X]})["s"]] == [np.float64] * 2


@pytest.mark.parametrize("value", [np.array([1]), np.array([True]), np.array(["a"], object), np.zeros(2), None])
def test_what_is_no_narrow_float_stays_what_it_is(value):
    assert widen_feeds({"v": value})["v"] is value


def test_attributes_of_other_domains_are_none_of_ours():
    source = model("y = my.F<to = 1>(x)", 17, domains='"my" : 1', **IO)
    assert widen(source).graph.node[0].attribute[0].i == 1


def test_what_onnxruntime_lacks_in_double_is_not_run():
    assert open_wide(model("y = Exp(x)", 17, **IO)) is not None
    assert open_wide(model("y = Erf(x)", 17, **IO)) is None


def test_operators_of_ml_yield_float32_whatever_they_are_given():
    body = "y = ai.onnx.ml.Scaler<offset = [0.5], scale = [2.0]>(x)"
    assert open_wide(model(body, 18, inputs="float[3,4] x", outputs="y", domains='"ai.onnx.ml" : 1')) is None
