"""LayerNormalization and RMSNormalization before they existed, judged by numpy in float64."""

import ml_dtypes
import numpy as np
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_computes, check_refused, evaluate

RNG = np.random.default_rng(0)
X = (RNG.normal(size=(2, 6, 4)) * 3 + 1).astype(np.float32)
TYPES = {
    "float": (np.float32, 1e-5),
    "double": (np.float64, 1e-12),
    "float16": (np.float16, 4e-3),
    "bfloat16": (ml_dtypes.bfloat16, 3e-2),
}


def standardized(x, axes, epsilon=1e-5):
    x = x.astype(np.float64)
    mean = x.mean(axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + epsilon)
    return (x - mean) * inverse, mean, inverse


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("axis", [-1, 1, -2])
def test_layer_normalization(axis, kind):
    dtype, rtol = TYPES[kind]
    x, scale, bias = X.astype(dtype), RNG.normal(size=(6, 4)).astype(dtype), RNG.normal(size=4).astype(dtype)
    if axis == -1:
        scale = scale[0]
    normal, mean, inverse = standardized(x, tuple(range(axis % 3, 3)))
    y = (normal * scale.astype(np.float64) + bias.astype(np.float64)).astype(dtype)
    saved = ",".join("1" if k >= axis % 3 else str(d) for k, d in enumerate(x.shape))
    shape = ",".join(map(str, scale.shape))
    check_computes(
        f"y, m, i = LayerNormalization<axis={axis}>(x, s, b)", 17, 13, [y, mean.astype(np.float32), inverse.astype(np.float32)],
        feeds={"x": x, "s": scale, "b": bias}, grade="close", rtol=rtol, atol=rtol,
        inputs=f"{kind}[2,6,4] x, {kind}[{shape}] s, {kind}[4] b", outputs=f"{kind}[2,6,4] y, float[{saved}] m, float[{saved}] i",
    )  # fmt: skip


def test_large_numbers_do_not_cancel():
    x = np.array([[1e4, 1e4 + 1, 1e4 + 2, 1e4 + 3]], np.float32)
    check_computes(
        "y = LayerNormalization(x, s)", 17, 16, standardized(x, 1)[0].astype(np.float32), feeds={"x": x, "s": np.ones(4, np.float32)},
        grade="close", rtol=1e-5, inputs="float[1,4] x, float[4] s", outputs="float[1,4] y",
    )  # fmt: skip


def test_bias_and_rank_may_be_missing():
    body = "r = Reshape(x, n)\ny = LayerNormalization<epsilon=0.5>(r, s)"
    check_computes(
        body, 17, 16, standardized(X, 2, 0.5)[0].astype(np.float32), feeds={"x": X, "n": np.array([2, 6, 4]), "s": np.ones(4, np.float32)},
        grade="close", rtol=1e-5, atol=1e-6, inputs="float[2,6,4] x, int64[K] n, float[4] s", outputs="float[A,B,C] y",
    )  # fmt: skip
    check_refused(
        body.replace("epsilon=0.5", "axis=1"), 17, 16, 'the rank of "r" is unknown',
        inputs="float[2,6,4] x, int64[K] n, float[4] s", outputs="float[A,B,C] y",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "wide"), [("float16", "float"), ("float", "float16"), ("double", "double"), ("bfloat16", "bfloat16")]
)
def test_root_mean_square(kind, wide):
    (dtype, rtol), (other, _) = TYPES[kind], TYPES[wide]
    x, scale = X.astype(dtype), RNG.normal(size=4).astype(other)
    wider = x.astype(np.float64)
    expected = (wider / np.sqrt((wider**2).mean(axis=-1, keepdims=True) + 1e-5) * scale.astype(np.float64)).astype(
        other
    )
    rtol = max(rtol, TYPES[wide][1])
    check_computes(
        "y = RMSNormalization(x, s)", 23, 17, expected, feeds={"x": x, "s": scale}, grade="close", rtol=rtol, atol=rtol,
        inputs=f"{kind}[2,6,4] x, {wide}[4] s", outputs=f"{wide}[2,6,4] y",
    )  # fmt: skip


def test_nodes_of_a_plain_call():
    check(
        "y = LayerNormalization(x, s)", 17,
        "t1 = ReduceMean<axes=[-1]>(x)\nt2 = Sub(x, t1)\nt3 = Mul(t2, t2)\nt4 = ReduceMean<axes=[-1]>(t3)\nt5 = Add(t4, 1e-05)\n"
        "t6 = Sqrt(t5)\nt7 = Div(t2, t6)\ny = Mul(t7, s)", 16, grade="close", inputs="float[2,4] x, float[4] s", outputs="float[2,4] y",
        feeds={"x": X[0, :2], "s": X[0, 0]}, rtol=1e-5, atol=1e-6,
    )  # fmt: skip


def test_inside_a_function_whose_attribute_is_bound_by_reference():
    source = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 20, "local" : 1]>
        g (float[2,4] x, float[4] s) => (float[2,4] y) { y = local.norm<axis=-1>(x, s) }
        <domain: "local", opset_import: ["" : 20]>
        norm <axis>(a, b) => (c) { r = Neg(a) c = LayerNormalization<axis=@axis>(r, b) }
    """)
    x, scale = X[0, :2], X[0, 0]
    result = convert.attempt(source, {"": 9})
    assert not result.refusals
    expected = (standardized(-x, 1)[0] * scale).astype(np.float32)
    np.testing.assert_allclose(evaluate(result.model, {"x": x, "s": scale})[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "opset"),
    [("LayerNormalization(x, s, b)", 17), ("LayerNormalization(x, b, s)", 17), ("RMSNormalization(x, b)", 23)],
)
def test_scale_or_bias_of_a_higher_rank_than_the_data_is_refused(call, opset):
    """Engines part on the rank of the result."""
    told = '"b" has rank 3, and the data has rank 2; supported: at most the rank of the data'
    given = {"inputs": "float[2,4] x, float[4] s, float[1,2,4] b", "outputs": "y"}
    check_refused(f"y = {call}", opset, opset - 1, told, **given)
    check_refused(
        f"y = {call}", opset, opset - 1, told, **{**given, "inputs": "float[A,B] x, float[D] s, float[1,A,B] b"}
    )


@pytest.mark.parametrize("taken", [True, False])
def test_inside_a_branch(taken):
    x, scale = X[0, :2], X[0, 0]
    then = "t () => (float[2,4] z) { z = LayerNormalization(x, s) }"
    other = "e () => (float[2,4] w) { w = RMSNormalization(x, s) }"
    mean_square = np.sqrt((x.astype(np.float64) ** 2).mean(axis=1, keepdims=True) + 1e-5)
    expected = (standardized(x, 1)[0] if taken else x / mean_square) * scale
    check_computes(
        f"y = If(c) <then_branch = {then}, else_branch = {other}>", 23, 13, expected.astype(np.float32),
        feeds={"c": np.array(taken), "x": x, "s": scale}, grade="close", rtol=1e-5, atol=1e-6,
        inputs="bool c, float[2,4] x, float[4] s", outputs="float[2,4] y",
    )  # fmt: skip
