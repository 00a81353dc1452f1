"""Parts that are quantized already."""

import numpy as np

from tests.types.case import case, floats, normal

WEIGHT = np.clip(np.round(normal(4, 3, 3, 3, seed=1, scale=40)), -127, 127).astype(np.int8)

case(
    "quantized_below_19",  # DequantizeLinear yields float32 alone
    """(float[1,3,6,6] x) => (float[1,4,6,6] y)
    { a = Conv(x, w) q = QuantizeLinear(a, xs, zero) d = DequantizeLinear(q, xs, zero) v = DequantizeLinear(wq, ws, zero)
      c = Conv<pads=[1,1,1,1]>(d, v) r = Relu(c) q2 = QuantizeLinear(r, ys, zero) d2 = DequantizeLinear(q2, ys, zero) y = Conv(d2, z) }""",
    {"x": normal(1, 3, 6, 6)},
    weights={
        "w": normal(3, 3, 1, 1, seed=2),
        "z": normal(4, 4, 1, 1, seed=3),
        "wq": WEIGHT,
        "xs": floats(0.05),
        "ws": floats(0.01),
        "ys": floats(0.1),
        "zero": np.array(0, np.int8),
    },
    wide=["a", "c", "r"],
    opset=13,
    seen=["pytorch/pytorch#107023", "onnx/onnx-mlir#2701"],
)
case(
    "quantized",
    """(float[1,3,6,6] x) => (float[1,4,6,6] y)
    { a = Conv(x, w) q = QuantizeLinear(a, xs, zero) d = DequantizeLinear(q, xs, zero) v = DequantizeLinear(wq, ws, zero)
      c = Conv<pads=[1,1,1,1]>(d, v) r = Relu(c) q2 = QuantizeLinear(r, ys, zero) d2 = DequantizeLinear(q2, ys, zero) y = Conv(d2, z) }""",
    {"x": normal(1, 3, 6, 6)},
    weights={
        "w": normal(3, 3, 1, 1, seed=2),
        "z": normal(4, 4, 1, 1, seed=3),
        "wq": WEIGHT,
        "xs": floats(0.05),
        "ws": floats(0.01),
        "ys": floats(0.1),
        "zero": np.array(0, np.int8),
    },
    opset=21,
    seen=["microsoft/onnxruntime#22741", "NVIDIA/Model-Optimizer#809"],
)
case(
    "quantized_weight",
    """(float[2,8] x) => (float[2,4] y) { v = DequantizeLinear<axis=1>(wq, ws, zero) h = MatMul(x, v) y = Relu(h) }""",
    {"x": normal(2, 8)},
    weights={
        "wq": np.clip(np.round(normal(8, 4, seed=1, scale=40)), -127, 127).astype(np.int8),
        "ws": floats(0.01, 0.02, 0.015, 0.03),
        "zero": np.zeros(4, np.int8),
    },
    opset=21,
    seen=["microsoft/onnxconverter-common#287"],
)
case(
    "dynamically_quantized",  # sums of integers are beyond 65504 before they are scaled
    """(float[2,64] x) => (float[2,4] y)
    { a = MatMul(x, w) q, s, z = DynamicQuantizeLinear(a) i = MatMulInteger(q, wq, z) f = Cast<to=1>(i) k = Mul(s, ws) m = Mul(f, k)
      y = Add(m, b) }""",
    {"x": normal(2, 64)},
    weights={
        "w": normal(64, 64, seed=1),
        "wq": np.clip(np.round(normal(64, 4, seed=2, scale=60)), -127, 127).astype(np.int8),
        "ws": floats(0.01),
        "b": normal(4, seed=3),
    },
    wide=["k", "m", "y"],
    seen=["microsoft/onnxconverter-common#287"],
)
