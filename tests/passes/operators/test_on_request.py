"""Operators of opset 1 and others, expanded on request where the opset has them, judged by numpy in float64."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators.on_request import inlined
from tests.support import check_values, evaluate, model, show

INF, NAN = np.inf, np.nan
X = np.array([[0.0, -0.0, 1.5, -2.25, 0.5, -0.5], [30.0, -30.0, 7.0, 1e-3, -4.0, 100.0]])
EDGES = np.array([[INF, -INF, NAN, 200.0, -200.0, 3e4], [1e-6, -1e-6, 88.0, -88.0, 89.0, -104.0]])
TYPES = {
    "float": (np.float32, 2e-6),
    "double": (np.float64, 1e-12),
    "float16": (np.float16, 2**-10),
    "bfloat16": (ml_dtypes.bfloat16, 2**-7),
}
OPSET = 22


def check(
    call,
    expected,
    feeds,
    *,
    rtol=2e-6,
    atol=2e-6,
    opset=OPSET,
    count=None,
    constants="",
    inputs="",
    outputs="float[A,B] y",
):
    """Expand the operator of `call`, compare what comes out with `expected`, and count the nodes."""
    names = {np.dtype(np.float32): "float", np.dtype(np.float64): "double", np.dtype(bool): "bool"}
    inputs = inputs or ", ".join(
        f"{names.get(v.dtype, v.dtype.name)}[{','.join(map(str, v.shape))}] {k}"
        if v.ndim
        else f"{names.get(v.dtype, v.dtype.name)} {k}"
        for k, v in feeds.items()
    )
    source = model(call, opset, inputs=inputs, outputs=outputs, constants=constants)
    op = source.graph.node[0].op_type
    after = inlined(source, op)
    (actual,) = evaluate(after, feeds)
    np.testing.assert_allclose(actual.astype(np.float64), np.asarray(expected, np.float64), rtol=rtol, atol=atol)
    if count is not None:
        assert len(after.graph.node) == count, show(after)
    return after


# --- activations --------------------------------------------------------------------------------------------


def softplus(x):
    return np.logaddexp(x, 0)


def elu(x, alpha=1.0):
    return np.where(x < 0, alpha * np.expm1(x), x)


ACTIVATIONS = [  # the last number: what is counted without the casts of 16-bit floats
    ("Relu", lambda x: np.maximum(x, 0), 1),
    ("Sigmoid", lambda x: 1 / (1 + np.exp(-x)), 4),
    ("Softplus", softplus, 5),
    ("Softsign", lambda x: x / (1 + abs(x)), 3),
    ("HardSigmoid", lambda x: np.clip(np.float32(0.2) * x + 0.5, 0, 1), 4),
    ("HardSigmoid<alpha = 0.5, beta = 0.25>", lambda x: np.clip(0.5 * x + 0.25, 0, 1), 4),
    ("Elu", elu, 4),
    ("Elu<alpha = 0.5>", lambda x: elu(x, 0.5), 5),
    ("Elu<alpha = -2.0>", lambda x: elu(x, -2.0), 5),
    ("Selu", lambda x: np.float32(1.05070102214813232421875) * elu(x, np.float32(1.67326319217681884765625)), 2),
    ("Selu<alpha = 2.0, gamma = 0.5>", lambda x: 0.5 * elu(x, 2.0), 2),
    ("LeakyRelu", lambda x: np.where(x < 0, np.float32(0.01) * x, x), 3),
    ("LeakyRelu<alpha = 0.0>", lambda x: np.where(x < 0, 0 * x, x), 3),
    ("Softmax", lambda x: np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True), 5),
    ("Softmax<axis = 0>", lambda x: np.exp(x - x.max(0)) / np.exp(x - x.max(0)).sum(0), 5),
    ("LogSoftmax", lambda x: x - x.max(-1, keepdims=True) - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)), 6),
    ("Hardmax", lambda x: np.arange(6) == np.argmax(x, -1)[:, None], 3),
    ("Hardmax<axis = 0>", lambda x: np.arange(2)[:, None] == np.argmax(x, 0), 3),
]  # fmt: skip


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("op", "formula", "count"), ACTIVATIONS)
def test_activations(op, formula, count, kind):
    dtype, tolerance = TYPES[kind]
    elementwise = "max" not in op
    for x in (X, EDGES) if elementwise else (X,):
        x = x.astype(dtype)
        with np.errstate(all="ignore"):
            expected = formula(x.astype(np.float64)).astype(dtype)
        casts = 2 if kind in ("float16", "bfloat16") and not op.startswith("Hardmax") else 0
        after = check(
            f"y = {op}(x)", expected, {"x": x}, rtol=tolerance, atol=tolerance,
            inputs=f"{kind}[2,6] x", outputs=f"{kind}[2,6] y", count=count + casts,
        )  # fmt: skip
        assert len(after.graph.node) == count + casts


@pytest.mark.parametrize("opset", [6, 7, 9, 11, 13, 28])
@pytest.mark.parametrize("op", ["Relu", "Sigmoid", "Softplus", "Softsign", "HardSigmoid", "Elu", "Selu", "LeakyRelu"])
def test_activations_at_every_opset(op, opset):
    source = model(f"y = {op}(x)", opset, inputs="float[2,6] x", outputs="float[2,6] y")
    after = inlined(source, op)
    reference = inlined(model(f"y = {op}(x)", 13, inputs="float[2,6] x", outputs="float[2,6] y"), op)
    feeds = {"x": X.astype(np.float32)}
    if opset >= 7:
        np.testing.assert_allclose(evaluate(after, feeds)[0], evaluate(reference, feeds)[0], rtol=1e-6)


@pytest.mark.parametrize("opset", [7, 11, 12, 13])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_all_axes_from_one_on(op, opset):
    x = np.linspace(-3, 5, 24, dtype=np.float32).reshape(2, 3, 4)
    source = model(f"y = {op}<axis = 1>(x)", opset, inputs="float[2,3,4] x", outputs="float[2,3,4] y")
    after = inlined(source, op)
    check_values(source, after, {"x": x}, rtol=1e-6, atol=1e-6)


def test_a_hardmax_of_unknown_size_and_of_ties():
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], np.float32)
    after = check("y = Hardmax(x)", [[0, 1, 0], [1, 0, 0]], {"x": x}, inputs="float[N,M] x")
    assert "Range" in show(after)


def test_prelu():
    x, slope = X.astype(np.float32), np.array([0.5, 2.0, -1.0, 0.0, 0.25, 1.0], np.float32)
    check("y = PRelu(x, s)", np.where(x < 0, slope * x, x), {"x": x, "s": slope}, count=3, rtol=0, atol=0)
    ints = np.array([[-3, 4]], np.int32)
    check(
        "y = PRelu(x, s)", [[-6, 4]], {"x": ints, "s": np.array([2], np.int32)}, outputs="int32[1,2] y", rtol=0, atol=0
    )


MOST = np.finfo(np.float32).max  # an absent bound of float


@pytest.mark.parametrize(
    ("kind", "call", "lo", "hi", "formula"),
    [
        ("float", "Clip(x, lo, hi)", -1, 2, lambda x: np.clip(x, -1, 2)),
        ("float", "Clip(x, lo, hi)", 3, 2, lambda x: np.full_like(x, 2)),
        ("float", "Clip(x, , hi)", 0, 2, lambda x: np.clip(x, -MOST, 2)),
        ("float", "Clip(x, lo)", 0.5, 0, lambda x: np.clip(x, 0.5, MOST)),
        ("float", "Clip(x)", 0, 0, lambda x: np.clip(x, -MOST, MOST)),
        ("int8", "Clip(x, lo, hi)", -1, 2, lambda x: np.clip(x, -1, 2)),
        ("uint64", "Clip(x, lo, hi)", 1, 2, lambda x: np.clip(x, 1, 2)),
    ],
)
def test_clip(kind, call, lo, hi, formula):
    dtype = onnx.helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, kind.upper()))
    x = np.abs(X).astype(dtype) if dtype.kind == "u" else X.astype(dtype)
    feeds = {"x": x, "lo": np.array(lo, dtype), "hi": np.array(hi, dtype)}
    feeds = {name: value for name, value in feeds.items() if name in call}
    check(f"y = {call}", formula(x), feeds, outputs=f"{kind}[2,6] y", rtol=0, atol=0, opset=13, count=2)


def test_a_nan_is_not_clipped():
    x = np.array([[NAN, 1.0]], np.float32)
    check("y = Clip(x, lo, hi)", x, {"x": x, "lo": np.float32(0), "hi": np.float32(2)})


# --- products and pooling -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "count"), [("alpha = 1.0", 2), ("transA = 1, transB = 1", 4), ("alpha = 0.5, beta = -2.0", 4), ("transB = 1, beta = 0.0", 4)]
)  # fmt: skip
@pytest.mark.parametrize("addend", [True, False])
def test_gemm(attributes, count, addend):
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(size=shape).astype(np.float32) for shape in ((3, 4), (4, 5), (5,)))
    factors = {k.strip(): float(v) for k, v in (part.split("=") for part in attributes.split(","))}
    expected = factors.get("alpha", 1) * (a.astype(np.float64) @ b) + (factors.get("beta", 1) * c if addend else 0)
    feeds = {"a": a.T.copy() if "transA" in factors else a, "b": b.T.copy() if "transB" in factors else b}
    feeds |= {"c": c} if addend else {}
    count -= 0 if addend else 1 + ("beta" in factors)
    check(f"y = Gemm<{attributes}>({', '.join(feeds)})", expected, feeds, count=count)


def test_gemm_of_integers():
    a = np.array([[1, 2], [3, 4]], np.int32)
    check("y = Gemm<alpha = 3.0>(a, a)", 3 * (a @ a), {"a": a}, outputs="int32[2,2] y", rtol=0, atol=0, opset=13)


IMAGE = np.random.default_rng(1).normal(size=(2, 3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize(
    ("op", "formula", "count"),
    [
        ("GlobalAveragePool", lambda x: x.mean((2, 3), keepdims=True), 1),
        ("GlobalMaxPool", lambda x: x.max((2, 3), keepdims=True), 1),
        ("GlobalLpPool", lambda x: np.sqrt((x**2).sum((2, 3), keepdims=True)), 1),
        ("GlobalLpPool<p = 1>", lambda x: abs(x).sum((2, 3), keepdims=True), 1),
        ("GlobalLpPool<p = 3>", lambda x: (abs(x) ** 3).sum((2, 3), keepdims=True) ** (1 / 3), 4),
    ],
)
@pytest.mark.parametrize("opset", [13, 18, 22])
def test_global_pooling(op, formula, count, opset):
    check(f"y = {op}(x)", formula(IMAGE.astype(np.float64)), {"x": IMAGE}, outputs="float[2,3,1,1] y", count=count, opset=opset)  # fmt: skip


def test_a_mean_of_float16_does_not_overflow():
    x = np.full((1, 1, 64, 64), 40000, np.float16)
    check("y = GlobalAveragePool(x)", [[[[40000]]]], {"x": x}, outputs="float16[1,1,1,1] y", rtol=1e-3, count=3)


# --- normalizations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 7), (1, 3, 1)])
def test_instance_normalization(shape, held):
    x = np.random.default_rng(2).normal(3, 2, shape).astype(np.float32) + 1000
    s, b = np.array([1, -2, 0.5], np.float32), np.array([0, 1, 2], np.float32)
    axes, ones = tuple(range(2, len(shape))), [-1, *[1] * (len(shape) - 2)]
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + 1e-5)
    expected = expected * s.reshape(ones) + b.reshape(ones)
    constants = "float[3] s = {1, -2, 0.5}, float[3] b = {0, 1, 2}" if held else ""
    feeds = {"x": x} if held else {"x": x, "s": s, "b": b}
    count = 9 if held else 11
    check("y = InstanceNormalization(x, s, b)", expected, feeds, constants=constants, rtol=1e-3, atol=1e-3, count=count,
          outputs=f"float[{','.join(map(str, shape))}] y")  # fmt: skip


@pytest.mark.parametrize("call", ["InstanceNormalization(x, s, s)", "GlobalAveragePool(x)", "GlobalLpPool(x)"])
def test_axes_behind_the_channels_must_exist(call):
    source = model(f"y = {call}", OPSET, inputs="float[2,3] x, float[3] s", outputs="float[2,3] y")
    result = convert.attempt(source, {"": OPSET}, ops=[("", call.partition("(")[0])])
    assert "gets data of rank 2; supported: rank 3 or more" in str(result.refusals[0])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("kind", ["float", "double", "float16"])
def test_lp_normalization(p, axis, kind):
    x = np.array([[3.0, -4.0, 0.0], [0.0, 0.0, 0.0], [1.0, 300.0, -300.0]], TYPES[kind][0])
    wide = x.astype(np.float64)
    norm = (abs(wide) ** p).sum(axis, keepdims=True) ** (1 / p)
    expected = np.where(norm == 0, 0, wide / np.where(norm == 0, 1, norm))
    check(f"y = LpNormalization<axis = {axis}, p = {p}>(x)", expected, {"x": x}, rtol=1e-3, outputs=f"{kind}[3,3] y",
          count=4 if kind != "float16" else 6)  # fmt: skip


# --- choosing and moving ------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", ["depth", "values", "both", "nothing"])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis, held):
    indices = np.array([0, 2, -1, 3, -4, 1], np.int64)
    hot = np.where(np.isin(indices, [0, 1, 2, -1, -2, -3])[:, None] & (np.arange(3) == indices[:, None] % 3), 5.0, -1.0)
    expected = hot if axis else hot.T
    feeds = {"i": indices}
    feeds |= {"d": np.array(3, np.int64)} if held in ("values", "nothing") else {}
    feeds |= {"v": np.array([-1, 5], np.float32)} if held in ("depth", "nothing") else {}
    texts = {"d": "int64 d = {3}", "v": "float[2] v = {-1, 5}"}
    constants = ", ".join(text for name, text in texts.items() if name not in feeds)
    check(f"y = OneHot<axis = {axis}>(i, d, v)", expected, feeds, constants=constants, rtol=0, atol=0, opset=18,
          count={"both": 5, "depth": 6}.get(held))  # fmt: skip


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("known", [True, False])
def test_scatter_elements(axis, reduction, known):
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    indices = np.array([[0, -1], [1, 2]], np.int64)
    updates = np.array([[10.0, -20.0], [0.5, 3.0]], np.float32)
    expected = data.copy()
    combine = {"none": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[
        reduction
    ]
    for (i, j), index in np.ndenumerate(indices):
        at = (index, j) if axis == 0 else (i, index)
        expected[at] = combine(expected[at], updates[i, j])
    inputs = "float[3,4] d, int64[2,2] i, float[2,2] u" if known else "float[A,B] d, int64[C,D] i, float[C,D] u"
    check(f'y = ScatterElements<axis = {axis}, reduction = "{reduction}">(d, i, u)', expected,
          {"d": data, "i": indices, "u": updates}, inputs=inputs, rtol=0, atol=0, opset=18, count=3 if known else None)  # fmt: skip


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_compress(axis):
    x, c = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([False, True])
    inside = "" if axis is None else f"<axis = {axis}>"
    expected = np.compress(c, x, axis)
    check(f"y = Compress{inside}(x, c)", expected, {"x": x, "c": c}, outputs="float[Z] y" if axis is None else "float[A,B] y", rtol=0, atol=0)  # fmt: skip


@pytest.mark.parametrize("kind", ["float", "double", "float16"])
def test_is_nan(kind):
    x = EDGES.astype(TYPES[kind][0])
    check("y = IsNaN(x)", np.isnan(x), {"x": x}, outputs="bool[2,6] y", rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["float", "double", "float16", "int32"])
def test_less(kind):
    x = EDGES.astype(TYPES[kind][0]) if kind != "int32" else np.arange(12, dtype=np.int32).reshape(2, 6)
    other = x[:1, ::-1].copy()
    source = model("y = Less(x, b)", OPSET, inputs=f"{kind}[2,6] x, {kind}[1,6] b", outputs="bool[2,6] y")
    after = inlined(source, "Less")
    assert [node.op_type for node in after.graph.node] == ["Greater"]
    np.testing.assert_array_equal(evaluate(after, {"x": x, "b": other})[0], x < other)


@pytest.mark.parametrize(("lambd", "bias", "count"), [(0.5, 0.0, 4), (1.5, 0.25, 6), (-1.0, 0.5, 6)])
@pytest.mark.parametrize("kind", ["float", "double", "int32", "uint8"])
def test_shrink(lambd, bias, count, kind):
    dtype = onnx.helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, kind.upper()))
    x = (np.abs(X) if kind == "uint8" else X).astype(dtype)
    source = model(f"y = Shrink<lambd = {lambd}, bias = {bias}>(x)", OPSET, inputs=f"{kind}[2,6] x", outputs=f"{kind}[2,6] y")  # fmt: skip
    after = inlined(source, "Shrink")
    assert len(after.graph.node) == count + (2 if x.dtype.kind in "iu" else 0)
    wide = x.astype(np.float64)
    expected = np.where(wide < -lambd, wide + bias, np.where(wide > lambd, wide - bias, 0))
    np.testing.assert_allclose(evaluate(after, {"x": x})[0], expected.astype(dtype), rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "inside"), [("DepthToSpace", ""), ("DepthToSpace", ', mode = "CRD"'), ("SpaceToDepth", "")]
)
@pytest.mark.parametrize("dims", ["2,12,4,6", "N,12,H,6", "N,C,H,W"])
def test_space_and_depth(op, inside, dims):
    x = np.arange(2 * 12 * 4 * 6, dtype=np.float32).reshape(2, 12, 4, 6)
    source = model(f"y = {op}<blocksize = 2{inside}>(x)", 13, inputs=f"float[{dims}] x", outputs="float[A,B,C,D] y")
    after = inlined(source, op)
    check_values(source, after, {"x": x}, rtol=0, atol=0)
    if dims == "2,12,4,6":
        assert len(after.graph.node) == 3
