"""Masks of attention: added and selected, one and two, rows that are masked partly, wholly and not at all."""

import numpy as np

from tests.types.case import case, floats, normal

WEIGHTS = {
    "wq": normal(8, 8, seed=1),
    "wk": normal(8, 8, seed=2),
    "wv": normal(8, 8, seed=3),
    "scale": floats(0.35),
    "axis": np.array([1], np.int64),
}
HEAD = """q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv) t = Transpose<perm=[0,2,1]>(k) s0 = MatMul(q, t) s = Mul(s0, scale)"""
TAIL = """p = Softmax(a) y = MatMul(p, v)"""
X = normal(2, 5, 8)
NONE = np.ones((2, 5), np.int64)
PARTLY = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int64)
LEFT = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], np.int64)  # with a causal mask, the first rows see nothing
WHOLLY = np.array([[0, 0, 0, 0, 0], [1, 1, 0, 0, 0]], np.int64)
MASKS = [{"x": X, "mask": mask} for mask in (NONE, PARTLY, LEFT, WHOLLY)]
CAUSAL = np.triu(np.full((5, 5), -3.4028235e38, np.float32), 1)

case(
    "mask_added",  # BERT: (1 - mask) * -1e9
    f"""(float[2,5,8] x, int64[2,5] mask) => (float[2,5,8] y)
    {{ {HEAD} f = Cast<to=1>(mask) u = Unsqueeze(f, axis) i = Sub(one, u) b = Mul(i, low) a = Add(s, b) {TAIL} }}""",
    *MASKS,
    weights={**WEIGHTS, "one": floats(1), "low": floats(-1e9)},
    wide=["i", "b", "a", "p"],
    seen=["huggingface/transformers#17306", "NVIDIA/apex#93", "NVIDIA/TensorRT#2466"],
)
case(
    "mask_added_to_large_scores",  # a row that is masked wholly is uniform in float32: -1e9 has no room for scores
    f"""(float[2,5,8] x, int64[2,5] mask) => (float[2,5,8] y)
    {{ {HEAD} f = Cast<to=1>(mask) u = Unsqueeze(f, axis) i = Sub(one, u) b = Mul(i, low) a = Add(s, b) {TAIL} }}""",
    *MASKS,
    weights={**WEIGHTS, "one": floats(1), "low": floats(-1e12), "scale": floats(2)},
    wide=["i", "b", "a", "p"],
    seen=["huggingface/transformers#17306", "huggingface/transformers#10484"],
)
case(
    "mask_added_of_10000",  # is within the range, and leaves no room for scores in rows that are masked wholly
    f"""(float[2,5,8] x, int64[2,5] mask) => (float[2,5,8] y)
    {{ {HEAD} f = Cast<to=1>(mask) u = Unsqueeze(f, axis) i = Sub(one, u) b = Mul(i, low) a = Add(s, b) {TAIL} }}""",
    *MASKS[:3],
    weights={**WEIGHTS, "one": floats(1), "low": floats(-10000)},
    wide=["s", "i", "b", "a", "p"],
    seen=["huggingface/transformers#10484"],
)
case(
    "mask_added_twice_and_clipped",  # the number of the mask is the bound of Clip as well
    f"""(float[2,5,8] x, int64[2,5] mask) => (float[2,5,8] y)
    {{ {HEAD} f = Cast<to=1>(mask) u = Unsqueeze(f, axis) i = Sub(one, u) b = Mul(i, low) d = Add(b, causal) c = Clip(d, low) a = Add(s, c) {TAIL} }}""",
    *MASKS[:2],
    weights={**WEIGHTS, "one": floats(1), "low": floats(-3.4028235e38), "causal": CAUSAL, "scale": floats(0.01)},
    wide=["i", "b", "d", "c", "a", "p"],
    seen=["huggingface/transformers#17306"],
)
case(
    "masks_added_twice",  # the causal mask and the padding, each the lowest float32
    f"""(float[2,5,8] x, int64[2,5] mask) => (float[2,5,8] y)
    {{ {HEAD} f = Cast<to=1>(mask) u = Unsqueeze(f, axis) i = Sub(one, u) b = Mul(i, low) c = Add(b, causal) a = Add(s, c) {TAIL} }}""",
    *MASKS[:3],
    weights={**WEIGHTS, "one": floats(1), "low": floats(-3.4028235e38), "causal": CAUSAL},
    wide=["i", "b", "c", "a", "p"],
    seen=["huggingface/transformers#17306", "NVIDIA-NeMo/Automodel#2658", "apple/coremltools#2669"],
)
case(
    "mask_selected",
    f"""(float[2,5,8] x, int64[2,5] mask) => (float[2,5,8] y)
    {{ {HEAD} f = Cast<to=9>(mask) u = Unsqueeze(f, axis) a = Where(u, s, low) {TAIL} }}""",
    *MASKS,
    weights={**WEIGHTS, "low": floats(-1e9)},
    seen=["pytorch/benchmark#794", "bentrevett/pytorch-seq2seq#191"],
)
case(
    "mask_selected_then_added",  # a mask is made by Where, and added: as transformers export it
    f"""(float[2,5,8] x, int64[2,5] mask) => (float[2,5,8] y)
    {{ {HEAD} f = Cast<to=9>(mask) u = Unsqueeze(f, axis) b = Where(u, zero, low) c = Add(b, causal) a = Add(s, c) {TAIL} }}""",
    *MASKS[:3],
    weights={**WEIGHTS, "low": floats(-3.4028235e38), "zero": floats(0), "causal": CAUSAL},
    wide=["b", "c", "a", "p"],
    seen=["apple/coremltools#2669", "huggingface/transformers#17306"],
)
case(
    "mask_of_infinity",  # rows that are masked wholly are NaN, and 0 at the end: torch's scaled_dot_product_attention
    f"""(float[2,5,8] x, int64[2,5] mask) => (float[2,5,8] y)
    {{ {HEAD} f = Cast<to=9>(mask) u = Unsqueeze(f, axis) b = Where(u, zero, low) a = Add(s, b)
       n = Softmax(a) e = IsNaN(n) p = Where(e, zero, n) y = MatMul(p, v) }}""",
    *MASKS,
    weights={**WEIGHTS, "low": floats(-np.inf), "zero": floats(0)},
    seen=["NVIDIA/TensorRT#4175", "microsoft/onnxconverter-common#295"],
)
case(
    "mask_multiplied",  # GPT-2: scores * mask - 1e4 * (1 - mask), and -1e9 where it is wrong by a sign
    f"""(float[2,5,8] x, int64[2,5] mask) => (float[2,5,8] y)
    {{ {HEAD} f = Cast<to=1>(mask) u = Unsqueeze(f, axis) g = Mul(s, u) i = Sub(one, u) b = Mul(i, high) a = Sub(g, b) {TAIL} }}""",
    *MASKS,
    weights={**WEIGHTS, "one": floats(1), "high": floats(1e9)},
    wide=["i", "b", "a", "p"],
    seen=["huggingface/transformers#4098"],
)
