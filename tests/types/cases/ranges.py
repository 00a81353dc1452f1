"""Values that float16 cannot hold: too large, too small, or integers that it cannot count."""

import numpy as np
from onnx import AttributeProto, ModelProto

from tests.types.case import case, floats, integers, normal

NORM = """m = ReduceMean<axes=[-1]>(h) d = Sub(h, m) p = Pow(d, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps)
    r = Sqrt(e) q = Div(d, r) s = Mul(q, scale) n = Add(s, shift)"""
NORMS = {"two": floats(2), "scale": normal(16, seed=5), "shift": normal(16, seed=6)}


def _tone(frequency: float, samples: int = 4096) -> np.ndarray:
    return np.sin(2 * np.pi * frequency * np.arange(samples)).astype(np.float32)


def _without_epsilon(model: ModelProto) -> None:
    model.graph.node[1].attribute.add(name="epsilon", type=AttributeProto.FLOAT, f=0.0)


case(
    "exp_and_log",
    """(float[2,8] x) => (float[2,1] y)
    { h = MatMul(x, w) t = Add(h, twelve) e = Exp(t) s = ReduceSum(e, axes) y = Log(s) }""",
    {"x": normal(2, 8)},
    weights={"w": normal(8, 4, seed=1, scale=0.3), "twelve": floats(12), "axes": integers([-1])},
    wide=["t", "e", "s", "y"],
    seen=["microsoft/onnxruntime#19437"],
)
case(
    "softplus_written_out",
    """(float[4,8] x) => (float[4,4] y) { h = MatMul(x, w) e = Exp(h) a = Add(one, e) y = Log(a) }""",
    {"x": normal(4, 8)},
    weights={"w": normal(8, 4, seed=1, scale=6), "one": floats(1)},
    wide=["e", "a", "y"],
)
case(
    "layer_norm_epsilon",  # 1e-12 is 0 in float16, and one row has no variance
    f"""(float[3,8] x) => (float[3,4] y) {{ h = MatMul(x, w) {NORM} y = MatMul(n, z) }}""",
    {"x": normal(3, 8)},
    {"x": normal(3, 8) * floats([[1], [0], [1]])},
    weights={"w": normal(8, 16, seed=1), "z": normal(16, 4, seed=2), "eps": floats(1e-12), **NORMS},
    wide=["m", "d", "p", "v", "e", "r", "q"],
    seen=["tensorflow/tensorflow#24979", "pytorch/pytorch#41527", "pytorch/pytorch#86580"],
)
case(
    "layer_norm_variance",  # the variance is beyond 65504
    f"""(float[3,8] x) => (float[3,4] y) {{ h = MatMul(x, w) {NORM} y = MatMul(n, z) }}""",
    {"x": normal(3, 8)},
    weights={"w": normal(8, 16, seed=1, scale=200), "z": normal(16, 4, seed=2), "eps": floats(1e-5), **NORMS},
    wide=["m", "d", "p", "v", "e", "r", "q"],
    seen=["microsoft/onnxruntime#17692", "microsoft/onnxruntime#13639", "NVIDIA/TensorRT#2564"],
)
case(
    "layer_norm_operator",  # computes in float32 inside, the epsilon too
    """(float[3,8] x) => (float[3,4] y)
    { h = MatMul(x, w) n = LayerNormalization<epsilon=1e-12>(h, scale, shift) y = MatMul(n, z) }""",
    {"x": normal(3, 8)},
    {"x": normal(3, 8) * floats([[1], [0], [1]])},
    weights={"w": normal(8, 16, seed=1, scale=200), "z": normal(16, 4, seed=2), **NORMS} | {"two": floats(2)},
    seen=["microsoft/onnxruntime#17692", "NVIDIA/TensorRT#4493"],
)
case(
    "rms_norm",
    """(float[3,8] x) => (float[3,4] y)
    { h = MatMul(x, w) p = Pow(h, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, eps) r = Sqrt(e) i = Reciprocal(r)
      q = Mul(h, i) s = Mul(q, scale) y = MatMul(s, z) }""",
    {"x": normal(3, 8)},
    weights={
        "w": normal(8, 16, seed=1, scale=150),
        "z": normal(16, 4, seed=2),
        "eps": floats(1e-6),
        "two": floats(2),
        "scale": normal(16, seed=5),
    },
    wide=["p", "v", "e", "r", "i"],
    seen=["NVIDIA/TensorRT#2922", "microsoft/onnxruntime#29034"],
)
case(
    "square_by_mul",
    """(float[3,8] x) => (float[3,4] y, float[3,1] z)
    { h = MatMul(x, w) p = Mul(h, h) v = ReduceSum(p, axes) z = Sqrt(v) y = MatMul(h, u) }""",
    {"x": normal(3, 8)},
    weights={"w": normal(8, 16, seed=1, scale=150), "u": normal(16, 4, seed=2, scale=0.1), "axes": integers([-1])},
    wide=["p", "v", "z"],
    seen=["LeelaChessZero/lc0#1921"],
)
case(
    "l2_normalize",  # a row of zeros: 0 divided by 1e-12 is 0, 0 divided by 0 is not
    """(float[3,8] x) => (float[3,4] y)
    { h = MatMul(x, w) n = ReduceL2<axes=[-1]>(h) c = Clip(n, eps) s = Shape(h) b = Expand(c, s) q = Div(h, b) y = MatMul(q, z) }""",
    {"x": normal(3, 8)},
    {"x": normal(3, 8) * floats([[1], [0], [1]])},
    weights={"w": normal(8, 16, seed=1), "z": normal(16, 4, seed=2), "eps": floats(1e-12)},
    wide=["n", "c", "b", "q"],
    seen=["microsoft/onnxconverter-common#153", "microsoft/onnxruntime#21345"],
)
case(
    "epsilon_in_a_divisor",
    """(float[3,8] x) => (float[3,8] y) { h = MatMul(x, w) r = Relu(h) t = ReduceMax<axes=[-1]>(r) d = Add(t, eps) y = Div(r, d) }""",
    {"x": normal(3, 8)},
    {"x": normal(3, 8) * floats([[1], [0], [1]])},
    weights={"w": normal(8, 8, seed=1), "eps": floats(1e-9)},
    wide=["t", "d", "y"],
    seen=["microsoft/onnxruntime#6501", "openvinotoolkit/openvino#8083"],
)
case(
    "sum_of_70000",
    """(float[2,4] x) => (float[2,8] y)
    { h = MatMul(x, w) a = Sigmoid(h) b = Add(a, a) s = ReduceSum(b, axes) m = Div(s, count) y = MatMul(m, z) }""",
    {"x": normal(2, 4)},
    weights={
        "w": normal(4, 70000, seed=1),
        "z": normal(1, 8, seed=2),
        "count": floats(70000),
        "axes": integers([-1]),
    },
    wide=["b", "s", "m"],
    seen=["tinygrad/tinygrad#11705", "microsoft/onnxconverter-common#323"],
)
case(
    "product_beyond_the_range",
    """(float[2,8] x) => (float[2,4] y, float[2,4] z)
    { h = MatMul(x, w) b = Mul(h, large) c = Relu(b) y = Mul(c, small) z = MatMul(h, u) }""",
    {"x": normal(2, 8)},
    weights={
        "w": normal(8, 4, seed=1),
        "u": normal(4, 4, seed=2),
        "large": floats(50000),
        "small": floats(1 / 50000),
    },
    wide=["b", "c", "y"],
    seen=["NVIDIA/TensorRT#3897", "microsoft/onnxconverter-common#268"],
)
case(
    "constant_beyond_the_range",
    """(float[2,8] x) => (float[2,4] y) { h = MatMul(x, w) d = Div(h, million) e = Mul(d, million) y = MatMul(e, b) }""",
    {"x": normal(2, 8)},
    weights={"w": normal(8, 4, seed=1), "b": normal(4, 4, seed=2), "million": floats(1e6)},
    wide=["d", "e"],
    seen=["microsoft/onnxconverter-common#211"],
)
case(
    "scale_that_vanishes",
    """(float[2,8] x) => (float[2,4] y) { h = MatMul(x, w) d = Mul(h, tiny) r = Relu(d) e = Mul(r, large) y = MatMul(e, u) }""",
    {"x": normal(2, 8)},
    weights={
        "w": normal(8, 4, seed=1),
        "u": normal(4, 4, seed=2),
        "tiny": floats(1e-8),
        "large": floats(1e8),
    },
    wide=["d", "r", "e"],
)
case(
    "channel_that_vanishes",  # a channel of the weight is below 6e-8, and the batch norm behind it makes it large again
    """(float[1,3,6,6] x) => (float[1,16,6,6] y)
    { a = Conv<pads=[1,1,1,1]>(x, w) n = BatchNormalization(a, s, b, mean, var) r = Relu(n) y = Conv<pads=[1,1,1,1]>(r, z) }""",
    {"x": normal(1, 3, 6, 6)},
    weights={
        "w": normal(4, 3, 3, 3, seed=1, scale=0.3) * floats([1, 1e-8, 1, 1]).reshape(4, 1, 1, 1),
        "s": floats(1, 1, 1, 1),
        "b": floats(0, 0, 0, 0),
        "mean": floats(0, 0, 0, 0),
        "var": floats(1, 1e-16, 1, 1),
        "z": normal(16, 4, 3, 3, seed=2),
    },
    wide=["a", "n"],
    change=_without_epsilon,
)
case(
    "positions",  # above 2048 float16 counts by twos
    """(float[n,8] x) => (float[n,8] y)
    { h = MatMul(x, w) s = Shape<end=1>(h) k = Squeeze(s) i = Range(zero, k, one) f = Cast<to=1>(i) u = Unsqueeze(f, axes)
      a = Mul(u, freq) c = Cos(a) y = Mul(h, c) }""",
    {"x": normal(5000, 8)},
    weights={
        "w": normal(8, 8, seed=1),
        "freq": (1 / 10000 ** (np.arange(8) / 8)).astype(np.float32),
        "zero": integers(0),
        "one": integers(1),
        "axes": integers([-1]),
    },
    wide=["u", "a", "c"],
    seen=["EleutherAI/gpt-neox#1003", "NVIDIA/Megatron-LM#535", "openvinotoolkit/openvino#25883"],
)
case(
    "positions_in_float",  # Range has no float16 at this opset
    """(float[3000,8] x) => (float[3000,8] y)
    { h = MatMul(x, w) i = Range(zero, many, one) u = Unsqueeze(i, axes) a = Mul(u, freq) c = Sin(a) y = Mul(h, c) }""",
    {"x": normal(3000, 8)},
    weights={
        "w": normal(8, 8, seed=1),
        "freq": (1 / 10000 ** (np.arange(8) / 8)).astype(np.float32),
        "zero": floats(0),
        "many": floats(3000),
        "one": floats(1),
        "axes": integers([-1]),
    },
    wide=["u", "a", "c"],
    seen=["huggingface/transformers#26602", "huggingface/transformers#25681"],
)
case(
    "identifiers_in_float",  # exporters compare identifiers as floats
    """(int64[n] ids, float[n,8] x) => (float[n,4] y)
    { f = Cast<to=1>(ids) e = Equal(f, special) m = Cast<to=1>(e) u = Unsqueeze(m, axes) h = MatMul(x, w) y = Mul(h, u) }""",
    {"ids": integers(3000, 3001, 3002, 3001, 5), "x": normal(5, 8)},
    weights={"w": normal(8, 4, seed=1), "special": floats(3001), "axes": integers([-1])},
    wide=["e"],
    seen=["huggingface/diffusers#2008"],
)
case(
    "counted_positions",  # RoBERTa's positions: a running sum over the mask, above 2048, then a table
    """(int64[1,n] mask, float[1,n,8] x) => (float[1,n,8] y)
    { m = Cast<to=1>(mask) c = CumSum(m, axis) p = Mul(c, m) i = Cast<to=7>(p) t = Gather(table, i) h = MatMul(x, w) y = Add(h, t) }""",
    {"mask": np.ones((1, 3000), np.int64), "x": normal(1, 3000, 8)},
    weights={"w": normal(8, 8, seed=1), "table": normal(3001, 8, seed=2), "axis": integers(1)},
    wide=["c", "p"],
    seen=["microsoft/onnxconverter-common#208"],
)
case(
    "divided_positions",  # a position is computed with floats and is an index at the end
    """(int64[n] ids, float[n,8] x) => (float[n,8] y)
    { f = Cast<to=1>(ids) q = Mul(f, quarter) r = Floor(q) i = Cast<to=7>(r) t = Gather(table, i) h = MatMul(x, w) y = Add(h, t) }""",
    {"ids": integers(*range(3000, 3020)), "x": normal(20, 8)},
    weights={"w": normal(8, 8, seed=1), "table": normal(1000, 8, seed=2), "quarter": floats(0.25)},
    wide=["q", "r"],
    seen=["microsoft/onnxconverter-common#320"],
)
case(
    "decibels_of_a_sound",  # a loud tone, and a quiet one 60 dB below, whose logarithm counts as much
    """(float[1,1,4096] sound) => (float[1,m,8] y)
    { s = Conv<strides=[64]>(sound, bands) q = Mul(s, s) p = Add(q, eps) l = Log(p) c = Transpose<perm=[0,2,1]>(l)
      h = MatMul(c, w) r = Relu(h) y = MatMul(r, v) }""",
    {"sound": (_tone(0.05) + 1e-3 * _tone(0.21) + normal(4096, scale=1e-4))[None, None]},
    weights={
        "bands": np.hanning(128).astype(np.float32)
        / 128
        * np.stack([_tone(k / 40, 128) for k in range(1, 17)])[:, None],
        "eps": floats(1e-10),
        "w": normal(16, 1024, seed=1, scale=0.1),
        "v": normal(1024, 8, seed=2, scale=0.1),
    },
    wide=["s", "q", "p", "l"],
)


def _sound(samples: int = 4096) -> np.ndarray:
    """As loud as a sound can be: a square wave of 437.5 Hz."""
    return np.sign(_tone(437.5 / 16000, samples) + np.float32(1e-3))


case(
    "spectrum_of_any_length",  # a sound is padded to a window: 16 samples of it are silent
    """(float[1,samples] audio) => (float[1,4] y)
    { d = Pad(audio, pads) s = Slice(d, first, last, axes) h = MatMul(s, w) p = Mul(h, h) e = Add(p, one) y = Log(e) }""",
    {"audio": _sound()[None]},
    weights={
        "pads": integers([0, 0, 0, 512]),
        "first": integers([0]),
        "last": integers([512]),
        "axes": integers([1]),
        "w": np.sin(2 * np.pi * np.arange(512)[:, None] * np.array([3, 14, 20, 42]) / 512).astype(np.float32),
        "one": floats(1),
    },
    wide=["p", "e", "y"],
)
