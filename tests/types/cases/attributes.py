"""Attention and normalization operators of new opsets, which keep float32 inside by an attribute."""

import numpy as np

from tests.types.case import case, floats, normal

case(
    "group_norm",
    """(float[1,3,6,6] x) => (float[1,4,6,6] y)
    { c = Conv<pads=[1,1,1,1]>(x, w) y = GroupNormalization<num_groups=2, epsilon=1e-12>(c, s, b) }""",
    {"x": normal(1, 3, 6, 6)},
    weights={"w": normal(4, 3, 3, 3, seed=1, scale=100), "s": normal(4, seed=2), "b": normal(4, seed=3)},
    opset=21,
)
case(
    "rms_normalization",
    """(float[3,8] x) => (float[3,4] y) { h = MatMul(x, w) n = RMSNormalization<epsilon=1e-12>(h, s) y = MatMul(n, z) }""",
    {"x": normal(3, 8)},
    weights={"w": normal(8, 16, seed=1, scale=150), "s": normal(16, seed=2), "z": normal(16, 4, seed=3)},
    opset=23,
)
case(
    "rms_normalization_of_an_input",  # the schema gives X and Y types of their own, inference gives Y that of X
    """(float[3,8] x) => (float[3,4] y) { n = RMSNormalization(x, s) y = MatMul(n, z) }""",
    {"x": normal(3, 8)},
    weights={"s": normal(8, seed=2), "z": normal(8, 4, seed=3)},
    opset=23,
)
case(
    "attention_mask",  # the mask is added inside
    """(float[1,2,5,8] x, bool[5,5] mask) => (float[1,2,5,4] y)
    { q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv) b = Where(mask, zero, low) y = Attention(q, k, v, b) }""",
    {"x": normal(1, 2, 5, 8), "mask": np.tri(5, dtype=bool)},
    weights={
        "wq": normal(8, 4, seed=1),
        "wk": normal(8, 4, seed=2),
        "wv": normal(8, 4, seed=3),
        "zero": floats(0),
        "low": floats(-3.4028235e38),
    },
    wide=["b", "y"],
    opset=23,
    seen=["huggingface/transformers#17306", "apple/coremltools#2669"],
)
