"""Rows of small numbers that are divided by their own size: float16 holds 1e-5, and not its square."""

import re

from tests.types.case import case, floats, integers, normal

WEIGHTS = {
    "w": normal(8, 16, seed=1),
    "z": normal(16, 4, seed=2),
    "eps": floats(1e-12),
    "two": floats(2),
    "minus_half": floats(-0.5),
    "axes": integers([-1]),
    "top": floats(1),
    "spread": normal(16, seed=5),
}
CENTERED = "m = ReduceMean<axes=[-1]>(h) d = Sub(h, m)"
MEAN = "v = ReduceMean<axes=[-1]>(p) e = Add(v, eps)"
NORM = "v = ReduceSum(p, axes) r = Sqrt(v)"


def rows(name: str, text: str, *wide: str, zeros: bool = True, opset: int = 17) -> None:
    """Add a case that normalizes rows of normal and of small numbers, and one of zeros."""
    text = f"(float[4,8] x) => (float[4,4] y) {{ h = MatMul(x, w) {text} y = MatMul(q, z) }}"
    _add(name, text, wide, floats([[1], [2e-4], [1e-5], [0 if zeros else 1]]), opset)


def logarithms(name: str, text: str, *wide: str) -> None:
    """Add a case that takes the logarithm of probabilities down to 1e-12."""
    text = f"(float[4,8] x) => (float[4,16] y) {{ h = MatMul(x, w) {text} }}"
    _add(name, text, wide, floats([[3], [9], [3], [9]]), 17)


def _add(name: str, text: str, wide: tuple[str, ...], scale: object, opset: int) -> None:
    weights = {key: value for key, value in WEIGHTS.items() if re.search(rf"\b{key}\b", text)}
    case(name, text, {"x": normal(4, 8) * scale}, weights=weights, wide=wide, opset=opset)


rows("small_layer_norm", f"{CENTERED} p = Pow(d, two) {MEAN} r = Sqrt(e) q = Div(d, r)", *"pver")
rows(
    "small_layer_norm_reciprocal",
    f"{CENTERED} p = Mul(d, d) {MEAN} r = Sqrt(e) i = Reciprocal(r) q = Mul(d, i)",
    *"pveriq",
)
rows(
    "small_layer_norm_power",
    f"{CENTERED} p = Mul(d, d) {MEAN} r = Pow(e, minus_half) a = Mul(h, r) b = Mul(m, r) q = Sub(a, b)",
    *"pverab",
)
rows(
    "small_variance_of_squares",
    "m = ReduceMean<axes=[-1]>(h) s = Mul(m, m) p = Mul(h, h) v = ReduceMean<axes=[-1]>(p) k = Sub(v, s) "
    "e = Add(k, eps) r = Sqrt(e) d = Sub(h, m) q = Div(d, r)",
    *"spvker",
)
rows("small_rms_norm", f"p = Pow(h, two) {MEAN} r = Sqrt(e) i = Reciprocal(r) q = Mul(h, i)", *"pveriq")
rows("small_l2_norm", f"p = Mul(h, h) {NORM} e = Max(r, eps) q = Div(h, e)", *"pvreq")
rows("small_sum_of_squares", "v = ReduceSumSquare<axes=[-1]>(h) e = Max(v, eps) r = Sqrt(e) q = Div(h, r)", *"verq")
rows("small_l2_norm_attribute", "r = ReduceL2<axes=[-1]>(h) e = Clip<min=1e-12>(r) q = Div(h, e)", *"req", opset=10)
rows("small_l2_norm_alone", f"p = Mul(h, h) {NORM} q = Div(h, r)", *"pvrq", zeros=False)
rows(
    "small_cosine",
    "g = Tanh(h) p = Mul(h, g) s = ReduceSum(p, axes) a = ReduceL2<axes=[-1]>(h) b = ReduceL2<axes=[-1]>(g) "
    "n = Mul(a, b) e = Add(n, eps) c = Div(s, e) q = Mul(c, spread)",
    *"psabnec",
)
logarithms("log_of_softmax", "s = Softmax(h) y = Log(s)", *"sy")
logarithms("log_of_clipped_sigmoid", "s = Sigmoid(h) e = Clip(s, eps, top) y = Log(e)", *"sey")
_add(
    "log_of_a_magnitude",
    "(float[4,8] x) => (float[4,1] y) { h = MatMul(x, w) p = Mul(h, h) v = ReduceSum(p, axes) r = Sqrt(v) s = Mul(r, r) "
    "e = Add(s, eps) y = Log(e) }",
    ("p", "v", "r", "s", "e", "y"),
    floats([[1], [1e-4], [1e-5], [0]]),
    17,
)
