"""Operands that are float32 whatever the rest is, and operators that say their type."""

from onnx import ModelProto

from tests.types.case import case, floats, integers, normal

case(
    "resize_scales",
    """(float[1,3,8,8] x) => (float[1,4,16,16] y)
    { c = Conv<pads=[1,1,1,1]>(x, w) r = Relu(c) y = Resize<mode="linear">(r, , scales) }""",
    {"x": normal(1, 3, 8, 8)},
    weights={"w": normal(4, 3, 3, 3, seed=1, scale=0.2), "scales": floats(1, 1, 2, 2)},
    seen=["microsoft/onnxconverter-common#306", "microsoft/onnxruntime#14827", "onnx/onnxmltools#361"],
)
case(
    "resize_computed_scales",
    """(float[1,3,8,8] x, int64[2] size) => (float[1,4,h,k] y)
    { c = Conv<pads=[1,1,1,1]>(x, w)
      shape = Shape<start=2>(c) have = Cast<to=1>(shape) want = Cast<to=1>(size) ratio = Div(want, have)
      scales = Concat<axis=0>(ones, ratio) y = Resize<mode="nearest">(c, , scales) }""",
    {"x": normal(1, 3, 8, 8), "size": integers(12, 20)},
    weights={"w": normal(4, 3, 3, 3, seed=1, scale=0.2), "ones": floats(1, 1)},
    wide=["ratio", "scales"],
    seen=["onnx/tensorflow-onnx#2305", "microsoft/onnxconverter-common#132"],
)
case(
    "resize_shared_scales",  # one initializer is read as scales, which are float32, and as a factor
    """(float[1,3,8,8] x) => (float[1,4,16,16] y, float[1,4] z)
    { c = Conv<pads=[1,1,1,1]>(x, w) y = Resize<mode="nearest">(c, , scales)
      p = GlobalAveragePool(c) f = Flatten(p) z = Mul(f, scales) }""",
    {"x": normal(1, 3, 8, 8)},
    weights={"w": normal(4, 3, 3, 3, seed=1, scale=0.2), "scales": floats(1, 1, 2, 2)},
    wide=["p", "f", "z"],
    seen=["NVIDIA/Model-Optimizer#757"],
)
case(
    "upsample",
    """(float[1,3,8,8] x) => (float[1,4,16,16] y) { c = Conv<pads=[1,1,1,1]>(x, w) y = Upsample<mode="nearest">(c, scales) }""",
    {"x": normal(1, 3, 8, 8)},
    weights={"w": normal(4, 3, 3, 3, seed=1, scale=0.2), "scales": floats(1, 1, 2, 2)},
    opset=9,
    seen=["microsoft/onnxruntime#1760"],
)
case(
    "cast_there",
    """(float[2,8] x, int64[2,4] mask) => (float[2,4] y) { h = MatMul(x, w) m = Cast<to=1>(mask) y = Mul(h, m) }""",
    {"x": normal(2, 8), "mask": integers([1, 0, 1, 1], [0, 1, 1, 0])},
    weights={"w": normal(8, 4, seed=1)},
    seen=["microsoft/onnxconverter-common#320", "microsoft/onnxconverter-common#326", "microsoft/onnxruntime#2974"],
)
case(
    "cast_to_double_and_back",
    """(float[2,8] x) => (float[2,4] y)
    { h = MatMul(x, w) d = Cast<to=11>(h) s = ReduceSum<keepdims=1>(d, axes) q = Div(d, s) f = Cast<to=1>(q) y = MatMul(f, v) }""",
    {"x": abs(normal(2, 8))},
    weights={"w": abs(normal(8, 4, seed=1)), "v": normal(4, 4, seed=2), "axes": integers([-1])},
    seen=["microsoft/onnxconverter-common#326"],
)
case(
    "cast_with_two_readers",  # the cast to float32 is read by a node and is an output
    """(float[2,8] x, int32[2,4] n) => (float[2,4] y, float[2,4] f)
    { h = MatMul(x, w) f = Cast<to=1>(n) y = Add(h, f) }""",
    {"x": normal(2, 8), "n": integers([1, 2, 3, 4], [5, 6, 7, 8]).astype("int32")},
    weights={"w": normal(8, 4, seed=1)},
    seen=["open-edge-platform/geti#6554"],
)
case(
    "cast_pair_there",  # somebody wanted the rounding to float16 and back
    """(float[2,8] x) => (float[2,4] y) { h = MatMul(x, w) a = Cast<to=10>(h) b = Cast<to=1>(a) y = MatMul(b, v) }""",
    {"x": normal(2, 8)},
    weights={"w": normal(8, 4, seed=1), "v": normal(4, 4, seed=2)},
    seen=["microsoft/onnxconverter-common#271", "microsoft/onnxruntime#20346"],
)
case(
    "cast_like",
    """(float[2,8] x, int64[2,4] mask) => (float[2,4] y) { h = MatMul(x, w) m = CastLike(mask, h) y = Mul(h, m) }""",
    {"x": normal(2, 8), "mask": integers([1, 0, 1, 1], [0, 1, 1, 0])},
    weights={"w": normal(8, 4, seed=1)},
)
case(
    "constant_of_shape",  # without a value it is float32
    """(float[b,8] x) => (float[b,4] y)
    { h = MatMul(x, w) s = Shape(h) z = ConstantOfShape(s) o = ConstantOfShape<value = float[1] {0.5}>(s)
      a = Add(h, o) y = Max(a, z) }""",
    {"x": normal(2, 8)},
    weights={"w": normal(8, 4, seed=1)},
    seen=["NVIDIA/Model-Optimizer#719"],
)
case(
    "eye_like",
    """(float[4,8] x) => (float[4,4] y) { h = MatMul(x, w) e = EyeLike<dtype=1>(h) d = EyeLike(h) a = Mul(e, h) y = Add(a, d) }""",
    {"x": normal(4, 8)},
    weights={"w": normal(8, 4, seed=1)},
)
case(
    "random_normal",
    """(float[2,8] x) => (float[2,4] y)
    { h = MatMul(x, w) r = RandomNormalLike<dtype=1, scale=0.1, seed=7.0>(h) u = RandomUniform<shape=[2,4], seed=3.0>()
      a = Add(h, r) y = Add(a, u) }""",
    {"x": normal(2, 8)},
    weights={"w": normal(8, 4, seed=1)},
    seen=["microsoft/onnxconverter-common#287", "microsoft/onnxconverter-common#239", "microsoft/onnxruntime#17321"],
)
case(
    "window",
    """(float[2,16] x) => (float[2,4] y) { n = Constant<value_int=16>() k = HannWindow(n) f = Mul(x, k) y = MatMul(f, w) }""",
    {"x": normal(2, 16)},
    weights={"w": normal(16, 4, seed=1)},
    wide=["k", "f"],
)
case(
    "one_hot",
    """(float[2,8] x, int64[2] ids) => (float[2,4] y)
    { h = MatMul(x, w) d = Constant<value_int=4>() o = OneHot(ids, d, pair) y = Mul(h, o) }""",
    {"x": normal(2, 8), "ids": integers(1, 3)},
    weights={"w": normal(8, 4, seed=1), "pair": floats(0, 1)},
)
case(
    "clip_bounds",
    """(float[2,8] x) => (float[2,4] y)
    { h = MatMul(x, w) a = Clip(h, low, high) b = Min(a, huge) y = Max(b, low) }""",
    {"x": normal(2, 8)},
    weights={"w": normal(8, 4, seed=1), "low": floats(-1e6), "high": floats(3.4028235e38), "huge": floats(1e9)},
    seen=["NVIDIA/TensorRT#2466", "microsoft/onnxconverter-common#295"],
)
case(
    "pad_before_a_pool",  # padded with the lowest float32, as exporters write it for MaxPool
    """(float[1,3,8,8] x) => (float[1,4,9,9] y)
    { c = Conv<pads=[1,1,1,1]>(x, w) p = Pad(c, pads, lowest) m = MaxPool<kernel_shape=[2,2]>(p) y = Conv(m, v) }""",
    {"x": normal(1, 3, 8, 8)},
    weights={
        "w": normal(4, 3, 3, 3, seed=1, scale=0.2),
        "v": normal(4, 4, 1, 1, seed=2),
        "pads": integers([0, 0, 1, 1, 0, 0, 1, 1]),
        "lowest": floats(-3.4028235e38),
    },
    wide=["p", "m"],
    seen=["apple/coremltools#2669"],
)
case(
    "lstm",
    """(float[5,2,8] x, int32[2] lengths) => (float[2,1,4] y)
    { all, last = LSTM<hidden_size=6>(x, w, r, , lengths) q = Squeeze(last, axes) p = MatMul(q, v) y = Unsqueeze(p, one) }""",
    {"x": normal(5, 2, 8), "lengths": integers(5, 3).astype("int32")},
    weights={
        "w": normal(1, 24, 8, seed=1, scale=0.3),
        "r": normal(1, 24, 6, seed=2, scale=0.3),
        "v": normal(6, 4, seed=3),
        "axes": integers([0]),
        "one": integers([1]),
    },
)
case(
    "batch_norm_variance",  # from opset 15 on mean and variance have a type of their own
    """(float[1,3,8,8] x) => (float[1,4,8,8] y)
    { c = Conv<pads=[1,1,1,1]>(x, w) y = BatchNormalization(c, s, b, mean, var) }""",
    {"x": normal(1, 3, 8, 8)},
    weights={
        "w": normal(4, 3, 3, 3, seed=1, scale=100),
        "s": normal(4, seed=2),
        "b": normal(4, seed=3),
        "mean": normal(4, seed=4),
        "var": floats(270000, 300000, 250000, 280000),
    },
    seen=["microsoft/onnxruntime#17692"],
)
case(
    "batch_norm_variance_below_15",
    """(float[1,3,8,8] x) => (float[1,4,8,8] y)
    { c = Conv<pads=[1,1,1,1]>(x, w) n = BatchNormalization(c, s, b, mean, var) y = Conv(n, v) }""",
    {"x": normal(1, 3, 8, 8)},
    weights={
        "w": normal(4, 3, 3, 3, seed=1, scale=100),
        "v": normal(4, 4, 1, 1, seed=5),
        "s": normal(4, seed=2),
        "b": normal(4, seed=3),
        "mean": normal(4, seed=4),
        "var": floats(270000, 300000, 250000, 280000),
    },
    wide=["n"],
    opset=13,
    seen=["microsoft/onnxruntime#17692"],
)
case(
    "layer_norm_outputs",  # Mean and InvStdDev are float32 by stash_type
    """(float[2,5,8] x) => (float[2,5,4] y, float[2,5,1] z)
    { l, mean, inv = LayerNormalization<axis=-1, epsilon=1e-12>(x, s, b) y = MatMul(l, w) z = Mul(mean, inv) }""",
    {"x": normal(2, 5, 8, seed=1, scale=3) + 2},
    weights={"s": normal(8, seed=2), "b": normal(8, seed=3), "w": normal(8, 4, seed=4)},
    wide=["z"],
)


def _shadow(model: ModelProto) -> None:
    """Names that converters give to what they add."""
    names = {"h": "y_cast_to_float16", "a": "x_cast_to_float16", "b": "w_float16", "c": "graph_input_cast_0"}
    for node in model.graph.node:
        for operands in (node.input, node.output):
            operands[:] = [names.get(name, name) for name in operands]
        node.name = node.output[0]


case(
    "names_taken",
    """(float[2,8] x) => (float[2,4] y) { h = MatMul(x, w) a = Relu(h) b = Add(a, h) c = Mul(b, a) y = Sub(c, h) }""",
    {"x": normal(2, 8)},
    weights={"w": normal(8, 4, seed=1)},
    change=_shadow,
)
