"""Inputs, outputs and weights: what is both, what is read twice, what is half already, nodes in no order."""

from onnx import ModelProto, NodeProto, TensorProto
from onnx.helper import make_node, make_tensor_value_info

from tests.types.case import case, floats, integers, normal, reverse

X = normal(2, 8)


def _weights_as_inputs(model: ModelProto) -> None:
    model.ir_version = 3
    for tensor in model.graph.initializer:
        model.graph.input.append(make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))


def _initializer_as_output(model: ModelProto) -> None:
    value = model.graph.output.add(name="b")
    value.type.tensor_type.elem_type = TensorProto.FLOAT
    value.type.tensor_type.shape.dim.add(dim_value=4)


case(
    "unsorted",  # nodes that stand before what they read; opshift puts them in order, others write such files
    """(float[2,8] x) => (float[2,4] y) { h = MatMul(x, w) a = Add(h, b) r = Relu(a) y = MatMul(r, u) }""",
    {"x": X},
    weights={"w": normal(8, 4, seed=1), "b": normal(4, seed=2), "u": normal(4, 4, seed=3)},
    change=lambda model: reverse(model.graph),
    seen=["microsoft/onnxconverter-common#208", "microsoft/onnxconverter-common#291", "NVIDIA/Model-Optimizer#524"],
)
case(
    "input_is_an_output",
    """(float[2,8] x) => (float[2,8] x, float[2,4] y) { h = MatMul(x, w) y = Relu(h) }""",
    {"x": X},
    weights={"w": normal(8, 4, seed=1)},
    seen=["microsoft/winml-cli#1280"],
)
case(
    "initializer_is_an_output",
    """(float[2,8] x) => (float[2,4] y) { h = MatMul(x, w) y = Add(h, b) }""",
    {"x": X},
    weights={"w": normal(8, 4, seed=1), "b": normal(4, seed=2)},
    change=_initializer_as_output,
    seen=["microsoft/winml-cli#1280"],
)
case(
    "output_is_read",  # by another node, and by the body of one
    """(float[2,8] x, bool c) => (float[2,4] h, float[2,4] y)
    { h = MatMul(x, w)
      y = If (c) <then_branch = t () => (float[2,4] o) { o = MatMul(h, u) }, else_branch = e () => (float[2,4] o) { o = Relu(h) }> }""",
    {"x": X, "c": integers(1).astype(bool)},
    {"x": X, "c": integers(0).astype(bool)},
    weights={"w": normal(8, 4, seed=1), "u": normal(4, 4, seed=2)},
    seen=["tier4/autoware-ml#89", "NVIDIA/Model-Optimizer#2451"],
)
case(
    "output_twice_over",  # two outputs of one value, by Identity
    """(float[2,8] x) => (float[2,4] y, float[2,4] z) { h = MatMul(x, w) y = Relu(h) z = Identity(y) }""",
    {"x": X},
    weights={"w": normal(8, 4, seed=1)},
    seen=["microsoft/onnxconverter-common#307"],
)
case(
    "integers_and_floats",  # integer inputs and outputs stay, a float input is only looked at
    """(float[b,8] x, float[b,3] z, int64[b] ids) => (float[b,4] y, int64[2] d, int64[b] k)
    { h = MatMul(x, w) e = Gather(table, ids) y = Add(h, e) d = Shape(z) k = Add(ids, one) }""",
    {"x": X, "z": normal(2, 3), "ids": integers(3, 1)},
    weights={"w": normal(8, 4, seed=1), "table": normal(5, 4, seed=2), "one": integers(1)},
)
case(
    "weight_with_two_readers",  # an embedding that is the last layer as well
    """(int64[n] ids) => (float[n,50] y) { e = Gather(w, ids) r = MatMul(e, u) t = Transpose(w) y = MatMul(r, t) }""",
    {"ids": integers(3, 1, 49, 7)},
    weights={"w": normal(50, 8, seed=1), "u": normal(8, 8, seed=2)},
)
case(
    "weight_in_both_types",  # one reader multiplies positions above 2048 with it
    """(float[n,8] x, int64[n] ids) => (float[n,8] y)
    { h = Mul(x, freq) g = MatMul(h, w) f = Cast<to=1>(ids) u = Unsqueeze(f, axes) a = Mul(u, freq) c = Cos(a) y = Mul(g, c) }""",
    {"x": normal(6, 8), "ids": integers(3001, 3003, 3005, 4007, 4009, 1)},
    weights={"w": normal(8, 8, seed=1), "freq": floats(1, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.01), "axes": integers([-1])},
    wide=["h", "u", "a", "c"],
)
case(
    "weight_that_is_an_input",  # a default that callers may replace
    """(float[2,8] x, float[4] b) => (float[2,4] y) { h = MatMul(x, w) y = Add(h, b) }""",
    {"x": X},
    {"x": X, "b": normal(4, seed=5)},
    weights={"w": normal(8, 4, seed=1), "b": normal(4, seed=2)},
    wide=["y"],
)
case(
    "weights_at_ir_3",  # below IR 4 each weight has to be an input: nobody feeds it
    """(float[1,3,8,8] x) => (float[1,4,4,4] y)
    { c = Conv<pads=[1,1,1,1]>(x, w) n = BatchNormalization(c, s, b, mean, var) r = Relu(n) y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(r) }""",
    {"x": normal(1, 3, 8, 8)},
    weights={
        "w": normal(4, 3, 3, 3, seed=1, scale=0.2),
        "s": normal(4, seed=2),
        "b": normal(4, seed=3),
        "mean": normal(4, seed=4),
        "var": floats(0.5, 1, 2, 1.5),
    },
    opset=8,
    change=_weights_as_inputs,
)


def _weights_as_constants(model: ModelProto) -> None:
    constants = [
        make_node("Constant", [], [tensor.name], tensor.name, value=tensor) for tensor in model.graph.initializer
    ]
    nodes = [*constants, *(NodeProto.FromString(node.SerializeToString()) for node in model.graph.node)]
    del model.graph.initializer[:], model.graph.node[:]
    model.graph.node.extend(nodes)


case(
    "weights_in_constant_nodes",  # as paddle2onnx and torch write them
    """(float[1,3,8,8] x) => (float[1,4] y)
    { c = Conv<pads=[1,1,1,1]>(x, w) n = BatchNormalization(c, s, b, mean, var) r = Relu(n) p = GlobalAveragePool(r) f = Flatten(p)
      y = Gemm(f, v, bias) }""",
    {"x": normal(1, 3, 8, 8)},
    weights={
        "w": normal(4, 3, 3, 3, seed=1, scale=0.2),
        "s": normal(4, seed=2),
        "b": normal(4, seed=3),
        "mean": normal(4, seed=4),
        "var": floats(0.5, 1, 2, 1.5),
        "v": normal(4, 4, seed=5),
        "bias": normal(4, seed=6),
    },
    opset=11,
    change=_weights_as_constants,
)
case(
    "half_in_part",  # a convolution is half already, between casts
    """(float[1,3,6,6] x) => (float[1,4] y)
    { c = Cast<to=10>(x) a = Conv(c, w) r = Relu(a) f = Cast<to=1>(r) p = GlobalAveragePool(f) l = Flatten(p) y = MatMul(l, u) }""",
    {"x": normal(1, 3, 6, 6)},
    weights={"w": normal(4, 3, 3, 3, seed=1, scale=0.3).astype("float16"), "u": normal(4, 4, seed=2)},
    seen=["NVIDIA/Model-Optimizer#1946", "microsoft/winml-cli#1280"],
)
case(
    "half_input",  # the interface is half on one side
    """(float16[2,8] x) => (float[2,4] y) { f = Cast<to=1>(x) h = MatMul(f, w) r = Relu(h) y = MatMul(r, u) }""",
    {"x": X.astype("float16")},
    weights={"w": normal(8, 4, seed=1), "u": normal(4, 4, seed=2)},
    seen=["onnx/onnxmltools#248"],
)
case(
    "unnamed_and_unused",  # a node without a name, an output that nobody reads, an optional operand that is left out
    """(float[2,8] x) => (float[2,4] y)
    { h = MatMul(x, w) a, b = Split<axis=1>(h) c = Concat<axis=1>(a, b) d = Clip(c, , high) m, i = MaxPool<kernel_shape=[2]>(k) y = Relu(d) }""",
    {"x": X},
    weights={"w": normal(8, 4, seed=1), "high": floats(2), "k": normal(1, 1, 4, seed=2)},
    opset=13,
)
