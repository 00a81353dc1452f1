"""Pairs that compute the same by other nodes or under other names. None may be told different."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.lab.proof.pair import Form, Pair

Array = Any
ROUNDING = 2e-6


def _drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


WIDE = {"inputs": "float[N,8] x", "outputs": "float[N,8] y", "witness": {"x": _drawn(3, 8)}}
IMAGE = {"inputs": "float[N,3,H,W] x", "outputs": "float[N,4,P,Q] y", "witness": {"x": _drawn(2, 3, 6, 7)}}
WEIGHTS, BIAS = _drawn(8, 8, seed=1), _drawn(8, seed=2)
TABLE = _drawn(10, 8, seed=8)
LONGER_TABLE = np.concatenate([TABLE[:8], -TABLE[8:]])
KERNEL = _drawn(4, 3, 3, 3, seed=3)
SCALE, SHIFT, MEAN = np.abs(_drawn(4, seed=4)) + 0.5, _drawn(4, seed=5), _drawn(4, seed=6)
VARIANCE = np.abs(_drawn(4, seed=7)) + 0.5
FACTORS = SCALE / np.sqrt(VARIANCE + np.float32(1e-5))
FUNCTION = '<domain: "local", opset_import: ["" : 17]> F (v) => (w) { c = Constant<value_float=0.5>() s = Add(v, c) w = Tanh(s) }'

CAUSAL = (
    "d = Shape(scores) l = Gather(d, one) r = Range(zero, l, one) c = Unsqueeze(r, first) m = LessOrEqual(r, c) "
    "s = Where(m, scores, low) y = Softmax<axis=-1>(s)"
)

NAMES = [
    Pair(
        "other outputs",
        "the outputs have other names",
        **WIDE,
        before="y = Tanh(x)",
        after=Form("z = Tanh(x)", outputs="float[N,8] z"),
    ),
    Pair(
        "other values",
        "each value between has another name",
        **WIDE,
        before="a = Tanh(x) b = Exp(a) c = Add(a, b) y = Neg(c)",
        after="k = Tanh(x) l = Exp(k) m = Add(k, l) y = Neg(m)",
    ),
    Pair(
        "names that changed places",
        "the names of two values are exchanged",
        **WIDE,
        before="a = Tanh(x) b = Exp(x) y = Sub(a, b)",
        after="b = Tanh(x) a = Exp(x) y = Sub(b, a)",
    ),
    Pair(
        "a name for another value",
        "a is doubled in one model, and halved again in the next node",
        **WIDE,
        before="a = Tanh(x) b = Exp(a) y = Neg(b)",
        after="t = Tanh(x) a = Mul(t, two) h = Mul(a, half) b = Exp(h) y = Neg(b)",
        constants="float two = {2}, float half = {0.5}",
    ),
    Pair(
        "weights by other names",
        "the weights of two layers have exchanged their names",
        **WIDE,
        before=Form("h = MatMul(x, v) y = MatMul(h, w)", tensors={"v": WEIGHTS, "w": WEIGHTS.T.copy()}),
        after=Form("h = MatMul(x, w) y = MatMul(h, v)", tensors={"w": WEIGHTS, "v": WEIGHTS.T.copy()}),
    ),
    Pair(
        "a constant node",
        "a constant is a node instead of an initializer",
        **WIDE,
        before=Form("y = Add(x, c)", constants="float c = {0.25}"),
        after="c = Constant<value_float=0.25>() y = Add(x, c)",
    ),
    Pair(
        "unused values",
        "values that nothing uses compute something else",
        **WIDE,
        before="d = Exp(x) e = Log(d) y = Tanh(x)",
        after="d = Cos(x) e = Sqrt(d) y = Tanh(x)",
    ),
    Pair(
        "unused noise",
        "random numbers that nothing uses",
        **WIDE,
        before="d = RandomNormalLike(x) y = Tanh(x)",
        after="y = Tanh(x)",
    ),
    Pair(
        "Identity",
        "a chain of Identity",
        **WIDE,
        before="a = Identity(x) b = Identity(a) t = Tanh(b) y = Identity(t)",
        after="y = Tanh(x)",
    ),
    Pair(
        "a function inlined",
        "the body in the place of the call",
        **WIDE,
        before="y = local.F(x)",
        after=Form("c = Constant<value_float=0.5>() s = Add(x, c) y = Tanh(s)", functions=""),
        functions=FUNCTION,
    ),
    Pair(
        "fixed sizes",
        "one of the models takes two samples and no other number",
        "float[N,8] x",
        "float[N,8] y",
        before="y = Tanh(x)",
        after=Form("y = Tanh(x)", inputs="float[2,8] x", outputs="float[2,8] y"),
        witness={"x": _drawn(2, 8)},
    ),
    Pair(
        "a fixed length",
        "one of the models takes one sample of six tokens",
        "int64[N,L] ids",
        "float[N,8] y",
        before="e = Gather(table, ids) y = ReduceMean<axes=[1], keepdims=0>(e)",
        after=Form(
            "e = Gather(table, ids) y = ReduceMean<axes=[1], keepdims=0>(e)",
            inputs="int64[1,6] ids",
            outputs="float[1,8] y",
        ),
        tensors={"table": TABLE},
        witness={"ids": np.arange(6)[None]},
    ),
]

INVARIANTS = [
    Pair(
        "x - x",
        "a value that is always 0 is added",
        **WIDE,
        before="y = Tanh(x)",
        after="z = Sub(x, x) s = Add(x, z) y = Tanh(s)",
    ),
    Pair(
        "Clip behind Sigmoid",
        "what is between 0 and 1 is cut to that",
        **WIDE,
        before="s = Sigmoid(x) y = Clip(s, low, high)",
        after="y = Sigmoid(x)",
        constants="float low = {0}, float high = {1}",
    ),
    Pair(
        "Relu behind Softmax",
        "probabilities are not negative",
        **WIDE,
        before="s = Softmax<axis=1>(x) y = Relu(s)",
        after="y = Softmax<axis=1>(x)",
    ),
    Pair(
        "Abs behind Exp",
        "Exp is not negative",
        **WIDE,
        before="t = Tanh(x) s = Exp(t) y = Abs(s)",
        after="t = Tanh(x) y = Exp(t)",
    ),
    Pair(
        "Relu of a norm",
        "a root is not negative",
        "float[N,8] x",
        "float[N,1] y",
        before="n = ReduceL2<axes=[1]>(x) y = Relu(n)",
        after="y = ReduceL2<axes=[1]>(x)",
        witness={"x": _drawn(3, 8)},
    ),
    Pair(
        "positive weights",
        "Relu(x * w) is Relu(x) * w where all weights are positive",
        **WIDE,
        before="m = Mul(x, w) y = Relu(m)",
        after="r = Relu(x) y = Mul(r, w)",
        tensors={"w": np.abs(BIAS) + np.float32(0.1)},
    ),
    Pair(
        "Where on a constant",
        "the condition is a constant",
        **WIDE,
        before="t = Tanh(x) e = Exp(x) y = Where(c, t, e)",
        after="y = Tanh(x)",
        constants="bool c = {1}",
    ),
    Pair(
        "absolute value",
        "the larger of x and -x, or the absolute value of x",
        **WIDE,
        before="n = Neg(x) y = Max(x, n)",
        after="y = Abs(x)",
    ),
    Pair(
        "Max of itself",
        "the larger of a value and itself",
        **WIDE,
        before="t = Tanh(x) y = Max(t, t)",
        after="y = Tanh(x)",
    ),
    Pair(
        "Softmax shifted",
        "any number may be subtracted from a row before Softmax",
        **WIDE,
        before="y = Softmax<axis=1>(x)",
        after="m = ReduceMean<axes=[1]>(x) s = Sub(x, m) y = Softmax<axis=1>(s)",
        allowed=ROUNDING,
    ),
    Pair(
        "not less",
        "Not(Less) is GreaterOrEqual, without NaN",
        **WIDE,
        before="t = Tanh(x) l = Less(t, h) c = Not(l) y = Where(c, t, h)",
        after="t = Tanh(x) c = GreaterOrEqual(t, h) y = Where(c, t, h)",
        constants="float h = {0.3}",
    ),
]

SHAPES = [
    Pair(
        "two Transposes",
        "that undo each other",
        "float[N,3,H,W] x",
        "float[N,3,H,W] y",
        before="a = Transpose<perm=[0,2,3,1]>(x) b = Transpose<perm=[0,3,1,2]>(a) y = Tanh(b)",
        after="y = Tanh(x)",
        witness={"x": _drawn(2, 3, 4, 5)},
    ),
    Pair(
        "Reshapes",
        "a chain of Reshape, and one",
        "float[N,4,6] x",
        "float[N,24] y",
        before="a = Reshape(x, s) b = Reshape(a, t) y = Reshape(b, u)",
        after="y = Flatten<axis=1>(x)",
        constants="int64[2] s = {-1, 6}, int64[4] t = {-1, 2, 2, 6}, int64[2] u = {-1, 24}",
        witness={"x": _drawn(2, 4, 6)},
    ),
    Pair(
        "sizes computed",
        "the shape is computed from that of the input, or written with 0 and -1",
        "float[N,L,8] x",
        "float[N,L,2,4] y",
        before="a = Shape<start=0, end=2>(x) s = Concat<axis=0>(a, t) y = Reshape(x, s)",
        after="y = Reshape(x, u)",
        constants="int64[2] t = {2, 4}, int64[4] u = {0, 0, 2, -1}",
        witness={"x": _drawn(2, 3, 8)},
    ),
    Pair(
        "Split and Concat",
        "halves that are put together again",
        **WIDE,
        before="a, b = Split<axis=1>(x, s) c = Concat<axis=1>(a, b) y = Tanh(c)",
        after="y = Tanh(x)",
        constants="int64[2] s = {3, 5}",
    ),
    Pair(
        "Slice of all",
        "from 0 to the end",
        **WIDE,
        before="s = Slice(x, b, e) y = Tanh(s)",
        after="y = Tanh(x)",
        constants="int64[1] b = {0}, int64[1] e = {9223372036854775807}",
    ),
    Pair(
        "Gather of all",
        "each column once, in order",
        **WIDE,
        before="s = Gather<axis=1>(x, i) y = Tanh(s)",
        after="y = Tanh(x)",
        constants="int64[8] i = {0, 1, 2, 3, 4, 5, 6, 7}",
    ),
    Pair(
        "Unsqueeze and Squeeze",
        "or nothing",
        **WIDE,
        before="a = Unsqueeze(x, i) t = Tanh(a) y = Squeeze(t, i)",
        after="y = Tanh(x)",
        constants="int64[1] i = {1}",
    ),
    Pair(
        "global mean",
        "GlobalAveragePool, or ReduceMean over both axes",
        "float[N,3,H,W] x",
        "float[N,3,1,1] y",
        before="y = GlobalAveragePool(x)",
        after="y = ReduceMean<axes=[2,3]>(x)",
        witness={"x": _drawn(2, 3, 4, 5)},
        allowed=ROUNDING,
    ),
]

FORMULAS = [
    Pair(
        "Gemm",
        "MatMul and Add, or Gemm",
        **WIDE,
        before="m = MatMul(x, w) y = Add(m, b)",
        after="y = Gemm(x, w, b)",
        tensors={"w": WEIGHTS, "b": BIAS},
        allowed=ROUNDING,
    ),
    Pair(
        "transposed weights",
        "Gemm with its weights transposed",
        **WIDE,
        before=Form("y = Gemm(x, w, b)", tensors={"w": WEIGHTS}),
        after=Form("y = Gemm<transB=1>(x, w, b)", tensors={"w": WEIGHTS.T.copy()}),
        tensors={"b": BIAS},
        allowed=ROUNDING,
    ),
    Pair(
        "BatchNormalization in a Conv",
        "scale and shift are part of the weights",
        **IMAGE,
        before=Form(
            "c = Conv(x, w) y = BatchNormalization(c, s, b, m, v)",
            tensors={"w": KERNEL, "s": SCALE, "b": SHIFT, "m": MEAN, "v": VARIANCE},
        ),
        after=Form(
            "y = Conv(x, w, b)", tensors={"w": KERNEL * FACTORS[:, None, None, None], "b": SHIFT - MEAN * FACTORS}
        ),
        allowed=ROUNDING,
    ),
    Pair(
        "padding of a Conv",
        "Pad before Conv, or pads of it",
        **IMAGE,
        before=Form("p = Pad(x, pads) y = Conv(p, w)", constants="int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}"),
        after="y = Conv<pads=[1,1,1,1]>(x, w)",
        tensors={"w": KERNEL},
        allowed=ROUNDING,
    ),
    Pair(
        "order of a sum",
        "four terms in another order",
        **WIDE,
        before="a = Tanh(x) b = Exp(x) c = Cos(x) s = Add(a, b) y = Add(s, c)",
        after="a = Tanh(x) b = Exp(x) c = Cos(x) s = Add(c, b) y = Add(s, a)",
        allowed=ROUNDING,
    ),
    Pair(
        "LayerNormalization",
        "expanded to means, a root and a quotient",
        **WIDE,
        before="y = LayerNormalization<epsilon=0.00001>(x, s, b)",
        after="m = ReduceMean<axes=[1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[1]>(q) e = Add(v, small) r = Sqrt(e) n = Div(d, r) t = Mul(n, s) y = Add(t, b)",
        constants="float small = {0.00001}",
        tensors={"s": BIAS, "b": BIAS[::-1].copy()},
        allowed=ROUNDING,
    ),
    Pair(
        "Gelu",
        "expanded with Erf",
        **WIDE,
        before="y = Gelu(x)",
        after="d = Div(x, r) e = Erf(d) s = Add(e, one) m = Mul(x, s) y = Mul(m, half)",
        constants="float r = {1.41421356}, float one = {1}, float half = {0.5}",
        opset=20,
        allowed=ROUNDING,
    ),
    Pair(
        "Softmax",
        "expanded, with the maximum subtracted",
        **WIDE,
        before="y = Softmax<axis=1>(x)",
        after="m = ReduceMax<axes=[1]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, i) y = Div(e, s)",
        constants="int64[1] i = {1}",
        allowed=ROUNDING,
    ),
    Pair(
        "HardSwish",
        "x times HardSigmoid",
        **WIDE,
        before="y = HardSwish(x)",
        after="h = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(x, h)",
        allowed=ROUNDING,
    ),
    Pair(
        "Sub", "as Add of Neg", **WIDE, before="t = Tanh(x) y = Sub(x, t)", after="t = Tanh(x) n = Neg(t) y = Add(x, n)"
    ),
    Pair(
        "Div",
        "as a product with the reciprocal",
        **WIDE,
        before="e = Exp(x) y = Div(x, e)",
        after="e = Exp(x) r = Reciprocal(e) y = Mul(x, r)",
        allowed=ROUNDING,
    ),
    Pair(
        "doubled and halved",
        "powers of 2 leave no rounding",
        **WIDE,
        before="t = Tanh(x) d = Mul(t, two) y = Mul(d, half)",
        after="y = Tanh(x)",
        constants="float two = {2}, float half = {0.5}",
    ),
    Pair(
        "Casts of no loss",
        "to double and back, and int32 to int64 and back",
        "float[N] x, int32[N] i",
        "float[N] y, int32[N] j",
        before="d = Cast<to=11>(x) f = Cast<to=1>(d) y = Tanh(f) l = Cast<to=7>(i) k = Cast<to=6>(l) j = Neg(k)",
        after="y = Tanh(x) j = Neg(i)",
        witness={"x": _drawn(4), "i": np.arange(4, dtype=np.int32)},
    ),
    Pair(
        "a Loop of three turns",
        "or its body three times",
        **WIDE,
        before="y = Loop(n, , x) <body = b (int64 i, bool c, float[N,8] v) => (bool d, float[N,8] w) { d = Identity(c) t = Tanh(v) w = Mul(t, a) }>",
        after="t0 = Tanh(x) w0 = Mul(t0, a) t1 = Tanh(w0) w1 = Mul(t1, a) t2 = Tanh(w1) y = Mul(t2, a)",
        constants="int64 n = {3}, float a = {0.5}",
    ),
    Pair(
        "an If of equal branches",
        "or the branch",
        "float[N,8] x, bool c",
        "float[N,8] y",
        before="y = If(c) <then_branch = t () => (float[N,8] p) { p = Tanh(x) }, else_branch = e () => (float[N,8] q) { q = Tanh(x) }>",
        after="y = Tanh(x)",
        witness={"x": _drawn(2, 8), "c": np.array(True)},
    ),
    Pair(
        "a Scan of a sum",
        "or CumSum",
        "float[L,4] x",
        "float[L,4] y",
        before="s, y = Scan<num_scan_inputs=1, body = b (float[4] v, float[4] e) => (float[4] w, float[4] o) { w = Add(v, e) o = Identity(w) }>(z, x)",
        after="y = CumSum(x, a)",
        constants="float[4] z = {0, 0, 0, 0}, int64 a = {0}",
        witness={"x": _drawn(5, 4)},
        allowed=ROUNDING,
    ),
    Pair(
        "a state in another order",
        "the state is scaled before or behind the sum",
        "float[N,4] x, float[N,4] state",
        "float[N,4] y, float[N,4] stateN",
        before="s = Mul(state, half) stateN = Add(s, x) y = Tanh(stateN)",
        after="d = Add(x, x) e = Add(state, d) stateN = Mul(e, half) y = Tanh(stateN)",
        constants="float half = {0.5}",
        witness={"x": _drawn(2, 4), "state": _drawn(2, 4, seed=1)},
        allowed=ROUNDING,
    ),
]

UNREACHABLE = [
    Pair(
        "a branch that is never taken",
        "the branches differ, but Sigmoid is never above 2",
        **WIDE,
        before="""s = Sigmoid(x) m = ReduceMax<keepdims=0>(s) c = Greater(m, two)
            y = If(c) <then_branch = t () => (float[N,8] p) { p = Mul(s, two) }, else_branch = e () => (float[N,8] q) { q = Tanh(s) }>""",
        after="""s = Sigmoid(x) m = ReduceMax<keepdims=0>(s) c = Greater(m, two)
            y = If(c) <then_branch = t () => (float[N,8] p) { p = Exp(s) }, else_branch = e () => (float[N,8] q) { q = Tanh(s) }>""",
        constants="float two = {2}",
        answer="unverified",
    ),
    Pair(
        "rows that are never read",
        "ArgMax of eight is below 8, so the last two of ten rows do not matter",
        "float[N,8] x",
        "float[N,8] y",
        before=Form("i = ArgMax<axis=1, keepdims=0>(x) y = Gather(table, i)", tensors={"table": TABLE}),
        after=Form("i = ArgMax<axis=1, keepdims=0>(x) y = Gather(table, i)", tensors={"table": LONGER_TABLE}),
        witness={"x": _drawn(3, 8)},
    ),
    Pair(
        "remainders of positions",
        "positions are not negative, so both kinds of Mod are the same",
        "float[L] x",
        "int64[L] y",
        before="n = Size(x) r = Range(zero, n, one) y = Mod(r, three)",
        after="n = Size(x) r = Range(zero, n, one) y = Mod<fmod=1>(r, three)",
        constants="int64 zero = {0}, int64 one = {1}, int64 three = {3}",
        witness={"x": _drawn(7)},
    ),
    Pair(
        "guard of a divisor",
        "1 + x * x is never 0",
        **WIDE,
        before="q = Mul(x, x) d = Add(q, one) z = Equal(d, zero) g = Where(z, one, d) y = Div(x, g)",
        after="q = Mul(x, x) d = Add(q, one) y = Div(x, d)",
        constants="float one = {1}, float zero = {0}",
    ),
    Pair(
        "sine and cosine",
        "the sum of their squares is 1",
        **WIDE,
        before="c = Cos(x) s = Sin(x) p = Mul(c, c) q = Mul(s, s) r = Add(p, q) t = Tanh(x) y = Mul(t, r)",
        after="y = Tanh(x)",
        allowed=ROUNDING,
    ),
    Pair(
        "probabilities divided by their sum",
        "which is 1",
        **WIDE,
        before="p = Softmax<axis=1>(x) s = ReduceSum(p, i) y = Div(p, s)",
        after="y = Softmax<axis=1>(x)",
        constants="int64[1] i = {1}",
        allowed=ROUNDING,
    ),
    Pair(
        "Relu before QuantizeLinear",
        "a zero point of 0 saturates what is negative",
        "float[N,8] x",
        "uint8[N,8] y",
        before="r = Relu(x) y = QuantizeLinear(r, scale, zero)",
        after="y = QuantizeLinear(x, scale, zero)",
        constants="float scale = {0.02}, uint8 zero = {0}",
        witness={"x": _drawn(3, 8)},
    ),
    Pair(
        "Relu and MaxPool",
        "change places",
        "float[N,3,H,W] x",
        "float[N,3,P,Q] y",
        before="r = Relu(x) y = MaxPool<kernel_shape=[2,2]>(r)",
        after="p = MaxPool<kernel_shape=[2,2]>(x) y = Relu(p)",
        witness={"x": _drawn(2, 3, 4, 5)},
    ),
    Pair(
        "ArgMax of Softmax",
        "the largest score has the largest probability",
        "float[N,8] x",
        "int64[N] y",
        before="p = Softmax<axis=1>(x) y = ArgMax<axis=1, keepdims=0>(p)",
        after="y = ArgMax<axis=1, keepdims=0>(x)",
        witness={"x": _drawn(3, 8)},
    ),
    Pair(
        "masked by the lowest number, or by infinity",
        "no row is masked whole, as each position sees itself",
        "float[N,L,L] scores",
        "float[N,L,L] y",
        before=CAUSAL,
        after=Form(CAUSAL, tensors={"low": np.float32("-inf")}),
        constants="int64 zero = {0}, int64 one = {1}, int64[1] first = {1}",
        tensors={"low": np.float32(-3.4028235e38)},
        witness={"scores": _drawn(1, 3, 3)},
    ),
    Pair(
        "masked by -1e9, or by the lowest number",
        "as two exporters write a causal mask: nothing is left of either behind Softmax",
        "float[N,L,L] scores",
        "float[N,L,L] y",
        before=CAUSAL,
        after=Form(CAUSAL, tensors={"low": np.float32(-3.4028235e38)}),
        constants="int64 zero = {0}, int64 one = {1}, int64[1] first = {1}",
        tensors={"low": np.float32(-1e9)},
        witness={"scores": _drawn(1, 3, 3)},
    ),
    Pair(
        "a norm of 1",
        "what was divided by its norm is within -1 and 1",
        **WIDE,
        before="n = ReduceL2<axes=[1]>(x) e = Max(n, small) d = Div(x, e) y = Clip(d, low, high)",
        after="n = ReduceL2<axes=[1]>(x) e = Max(n, small) y = Div(x, e)",
        constants="float small = {0.000000000001}, float low = {-1.00001}, float high = {1.00001}",
    ),
    Pair(
        "two Transposes merged, of which one is still measured",
        "as recognisers of text have them in front of an LSTM, with two states of as many zeros",
        "float[N,4,W] x",
        "float[W,N,4] y",
        before="""r = Relu(x) m = Mul(r, two) t = Transpose<perm=[0,2,1]>(m) u = Transpose<perm=[1,0,2]>(t)
            n = Shape(t) f = Slice(n, first, second) h = Tile(ones, f) s = Shape(t) g = Slice(s, first, second)
            c = Tile(ones, g) p = Unsqueeze(h, last) q = Unsqueeze(c, last) v = Mul(u, p) y = Sub(v, q)""",
        after="""r = Relu(x) m = Mul(r, two) t = Transpose<perm=[0,2,1]>(m) u = Transpose<perm=[2,0,1]>(m)
            n = Shape(t) f = Slice(n, first, second) h = Tile(ones, f) p = Unsqueeze(h, last) v = Mul(u, p)
            y = Sub(v, p)""",
        constants="int64[1] first = {0}, int64[1] second = {1}, int64[1] last = {1}, float[1] ones = {1}, float two = {2}",
        witness={"x": _drawn(2, 4, 3)},
    ),
]

AGREEING = [*NAMES, *INVARIANTS, *SHAPES, *FORMULAS, *UNREACHABLE]
