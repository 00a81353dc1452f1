"""Pairs that differ at one place only: a tie, a line, a bound, a size, a row, a step. Each must be told different."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.lab.proof.pair import Form, Pair

Array = Any


def _floats(*values: float) -> Array:
    return np.array(values, np.float32)


def _whole(*values: int) -> Array:
    return np.array(values, np.int64)


def _drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _with(values: Array, index: Any, value: float) -> Array:
    """A copy with another element, or row."""
    changed = values.copy()
    changed[index] = value
    return changed


WIDE = {"inputs": "float[N,8] x", "outputs": "float[N,8] y"}
IMAGE = {"inputs": "float[N,3,H,W] x", "outputs": "float[N,3,P,Q] y"}
TABLE, POSITIONS = _drawn(1000, 8, seed=1), _drawn(512, 8, seed=2)
WEIGHTS = _drawn(64, 64, seed=3) / 8
SIGNED = _with(np.abs(_drawn(64, seed=4)) + 0.1, 41, -0.5)
OTHER_WEIGHTS = _with(WEIGHTS, (17, 42), float(WEIGHTS[17, 42]) * 1.05)
MASKED = "k = Sub(one, attention_mask) f = Cast<to=1>(k) m = Mul(f, low) s = Add(scores, m) p = Softmax<axis=1>(s) y = Mul(p, weight)"

TIES = [
    Pair(
        "round to even",
        "Round takes 2.5 to 2, and Floor(x + 0.5) to 3",
        **WIDE,
        before="y = Round(x)",
        after="s = Add(x, half) y = Floor(s)",
        constants="float half = {0.5}",
        witness={"x": _floats(0.5, 1.5, 2.5, -0.5, 3, 4, 5, 6)[None]},
    ),
    Pair(
        "first of equal maxima",
        "ArgMax takes the last of equal maxima instead of the first",
        "float[N,8] x",
        "int64[N,1] y",
        before="y = ArgMax<axis=1>(x)",
        after="y = ArgMax<axis=1, select_last_index=1>(x)",
        witness={"x": _floats(1, 2, 2, 1, 0, 0, 0, 0)[None]},
    ),
    Pair(
        "TopK of equal maxima",
        "TopK takes the lower index of equal maxima, and ArgMax of the reversed row the higher one",
        "float[N,8] x",
        "int64[N,1] y",
        before="v, y = TopK<axis=1>(x, one)",
        after="r = Slice(x, start, end, one, back) i = ArgMax<axis=1>(r) y = Sub(last, i)",
        constants="int64[1] one = {1}, int64[1] start = {-1}, int64[1] end = {-100}, int64[1] back = {-1}, int64 last = {7}",
        witness={"x": _floats(1, 2, 2, 1, 0, 0, 0, 0)[None]},
    ),
    Pair(
        "Hardmax of equal maxima",
        "Hardmax marks the first maximum, and a comparison with the maximum all of them",
        **WIDE,
        before="y = Hardmax<axis=1>(x)",
        after="m = ReduceMax<axes=[1]>(x) e = Equal(x, m) y = Cast<to=1>(e)",
        witness={"x": _floats(1, 2, 2, 1, 0, 0, 0, 0)[None]},
    ),
    Pair(
        "Greater on the line",
        "GreaterOrEqual instead of Greater, on a line that is no special number",
        **WIDE,
        before="c = Greater(x, line) n = Neg(x) y = Where(c, x, n)",
        after="c = GreaterOrEqual(x, line) n = Neg(x) y = Where(c, x, n)",
        constants="float line = {0.3}",
        witness={"x": _floats(0.3, 1, 2, 3, 4, 5, 6, 7)[None]},
    ),
    Pair(
        "Less of two inputs",
        "LessOrEqual instead of Less, between two inputs",
        "float[N] a, float[N] b",
        "float[N] y",
        before="c = Less(a, b) d = Add(b, b) y = Where(c, a, d)",
        after="c = LessOrEqual(a, b) d = Add(b, b) y = Where(c, a, d)",
        witness={"a": _floats(1, 2), "b": _floats(1, 3)},
    ),
    Pair(
        "Sign of zero",
        "Sign of 0 is 0, and the comparison makes 1 of it",
        **WIDE,
        before="y = Sign(x)",
        after="c = Less(x, zero) y = Where(c, minus, one)",
        constants="float zero = {0}, float one = {1}, float minus = {-1}",
        witness={"x": np.zeros((1, 8), np.float32)},
    ),
    Pair(
        "negative zero",
        "1 / -0.0 is -inf; what was added to 0.0 has no sign",
        **WIDE,
        before="r = Reciprocal(x) c = Less(r, zero) y = Where(c, minus, one)",
        after="s = Add(x, zero) r = Reciprocal(s) c = Less(r, zero) y = Where(c, minus, one)",
        constants="float zero = {0}, float one = {1}, float minus = {-1}",
        witness={"x": np.full((1, 8), -0.0, np.float32)},
    ),
    Pair(
        "division guarded at 0",
        "0 / 0 is 0 with the guard, and NaN without it",
        "float[N] a, float[N] b",
        "float[N] y",
        before="q = Div(a, b) c = Equal(b, zero) y = Where(c, zero, q)",
        after="y = Div(a, b)",
        constants="float zero = {0}",
        witness={"a": _floats(0, 1), "b": _floats(0, 1)},
    ),
]

BOUNDS = [
    Pair(
        "Clip far out",
        "the upper bound of 100 is gone",
        **WIDE,
        before="y = Clip(x, low, high)",
        after="y = Max(x, low)",
        constants="float low = {-100}, float high = {100}",
        witness={"x": np.full((1, 8), 101, np.float32)},
    ),
    Pair(
        "HardSwish above 3",
        "the gate is not cut at 1",
        **WIDE,
        before="y = HardSwish(x)",
        after="g = Mul(x, sixth) h = Add(g, half) r = Relu(h) y = Mul(x, r)",
        constants="float sixth = {0.16666667}, float half = {0.5}",
        witness={"x": np.full((1, 8), 4, np.float32)},
    ),
    Pair(
        "ReLU6 of 6",
        "the upper bound is 6.5 instead of 6",
        **WIDE,
        before="y = Clip(x, low, high)",
        after=Form("y = Clip(x, low, high)", constants="float low = {0}, float high = {6.5}"),
        constants="float low = {0}, float high = {6}",
        witness={"x": np.full((1, 8), 7, np.float32)},
    ),
    Pair(
        "Softplus that overflows",
        "Log(1 + Exp(x)) is infinite from 88.8 on",
        **WIDE,
        before="y = Softplus(x)",
        after="e = Exp(x) s = Add(e, one) y = Log(s)",
        constants="float one = {1}",
        witness={"x": np.full((1, 8), 90, np.float32)},
    ),
    Pair(
        "Softmax that overflows",
        "without the maximum subtracted, 89 makes NaN",
        **WIDE,
        before="y = Softmax<axis=1>(x)",
        after="e = Exp(x) s = ReduceSum(e, one) y = Div(e, s)",
        constants="int64[1] one = {1}",
        witness={"x": _floats(90, 1, 2, 3, 4, 5, 6, 7)[None]},
    ),
    Pair(
        "saturation of uint8",
        "the largest quantized value is 254 instead of 255",
        "float[N,8] x",
        "uint8[N,8] y",
        before="y = QuantizeLinear(x, scale, zero)",
        after="q = QuantizeLinear(x, scale, zero) f = Cast<to=1>(q) c = Min(f, most) y = Cast<to=2>(c)",
        constants="float scale = {0.1}, uint8 zero = {128}, float most = {254}",
        witness={"x": np.full((1, 8), 50, np.float32)},
    ),
    Pair(
        "zero point of the lower bound",
        "QuantizeLinear saturates at 0, and the cast of -3 wraps to 253",
        "float[N,8] x",
        "uint8[N,8] y",
        before="y = QuantizeLinear(x, scale, zero)",
        after="q = Div(x, scale) r = Round(q) s = Add(r, shift) h = Min(s, most) i = Cast<to=6>(h) y = Cast<to=2>(i)",
        constants="float scale = {0.5}, uint8 zero = {128}, float shift = {128}, float most = {255}",
        witness={"x": np.full((1, 8), -65.5, np.float32)},
    ),
    Pair(
        "uint8 that wraps",
        "300 becomes 44 by a cast, and 255 where it is clipped before",
        "int32[N] x",
        "uint8[N] y",
        before="y = Cast<to=2>(x)",
        after="l = Max(x, least) h = Min(l, most) y = Cast<to=2>(h)",
        constants="int32 least = {0}, int32 most = {255}",
        witness={"x": np.array([1, 300, -1], np.int32)},
    ),
    Pair(
        "slope below 0",
        "LeakyRelu with another slope",
        **WIDE,
        before="y = LeakyRelu<alpha=0.01>(x)",
        after="y = LeakyRelu<alpha=0.011>(x)",
        witness={"x": -np.ones((1, 8), np.float32)},
    ),
    Pair(
        "slope of one channel",
        "PRelu with another slope in one of 64 channels",
        "float[N,64,H] x",
        "float[N,64,H] y",
        before=Form("y = PRelu(x, slope)", tensors={"slope": np.full((64, 1), 0.25, np.float32)}),
        after=Form("y = PRelu(x, slope)", tensors={"slope": _with(np.full((64, 1), 0.25, np.float32), 41, 0.3)}),
        witness={"x": -np.ones((1, 64, 2), np.float32)},
    ),
    Pair(
        "one negative weight",
        "Relu(x * w) is not Relu(x) * w in the one channel of 64 whose weight is negative",
        "float[N,64] x",
        "float[N,64] y",
        before="m = Mul(x, w) y = Relu(m)",
        after="r = Relu(x) y = Mul(r, w)",
        tensors={"w": SIGNED},
        witness={"x": np.ones((1, 64), np.float32)},
    ),
    Pair(
        "one weight of 4,096",
        "one element of a Gemm is 5 % larger",
        "float[N,64] x",
        "float[N,64] y",
        before=Form("y = Gemm(x, w)", tensors={"w": WEIGHTS}),
        after=Form("y = Gemm(x, w)", tensors={"w": OTHER_WEIGHTS}),
        witness={"x": np.ones((1, 64), np.float32)},
    ),
]

BATCHES = [
    Pair(
        "Softmax over the batch",
        "Softmax-11 on axis 0 normalizes over all rows, which is right for one",
        **WIDE,
        before="y = Softmax<axis=1>(x)",
        after="y = Softmax<axis=0>(x)",
        opset=11,
        witness={"x": _drawn(2, 8)},
    ),
    Pair(
        "mean over the batch",
        "statistics of all samples instead of each",
        "float[N,3,H,W] x",
        "float[N,3,H,W] y",
        before="m = ReduceMean<axes=[2,3]>(x) y = Sub(x, m)",
        after="m = ReduceMean<axes=[0,2,3]>(x) y = Sub(x, m)",
        witness={"x": _drawn(2, 3, 4, 4)},
    ),
    Pair(
        "first sample",
        "the shift of the first sample is added to all",
        **WIDE,
        before="m = ReduceMax<axes=[1]>(x) y = Add(x, m)",
        after="m = ReduceMax<axes=[1]>(x) f = Slice(m, begin, end) y = Add(x, f)",
        constants="int64[1] begin = {0}, int64[1] end = {1}",
        witness={"x": _drawn(2, 8)},
    ),
    Pair(
        "samples that change places",
        "Transpose instead of Reshape of [N, 2, 4] to [2, N, 4]",
        "float[N,2,4] x",
        "float[2,N,4] y",
        before="y = Transpose<perm=[1,0,2]>(x)",
        after="y = Reshape(x, shape)",
        constants="int64[3] shape = {2, -1, 4}",
        witness={"x": _drawn(2, 2, 4)},
    ),
    Pair(
        "sum along the batch",
        "CumSum along the batch does nothing to one sample",
        **WIDE,
        before="y = Identity(x)",
        after="y = CumSum(x, axis)",
        constants="int64 axis = {0}",
        witness={"x": _drawn(2, 8)},
    ),
]

SIZES = [
    Pair(
        "mean of the last four",
        "a quarter of the sum is not the mean where there are fewer than four",
        "float[L] x",
        "float y",
        before="t = Slice(x, begin, end) y = ReduceMean<keepdims=0>(t)",
        after="t = Slice(x, begin, end) s = ReduceSum<keepdims=0>(t) y = Mul(s, quarter)",
        constants="int64[1] begin = {-4}, int64[1] end = {1000000}, float quarter = {0.25}",
        witness={"x": _floats(1, 2)},
    ),
    Pair(
        "variance of one element",
        "the sum of squares is divided by L - 1, without a guard for L = 1",
        "float[L] x",
        "float y",
        before="m = ReduceMean(x) d = Sub(x, m) q = ReduceSumSquare<keepdims=0>(d) n = Size(x) k = Sub(n, one) g = Max(k, one) f = Cast<to=1>(g) y = Div(q, f)",
        after="m = ReduceMean(x) d = Sub(x, m) q = ReduceSumSquare<keepdims=0>(d) n = Size(x) k = Sub(n, one) f = Cast<to=1>(k) y = Div(q, f)",
        constants="int64 one = {1}",
        witness={"x": _floats(3)},
    ),
    Pair(
        "mean of nothing",
        "the sum of no elements is 0, and divided by their number NaN",
        "float[L] x",
        "float y",
        before="s = ReduceSum<keepdims=0>(x) n = Size(x) k = Max(n, one) f = Cast<to=1>(k) y = Div(s, f)",
        after="s = ReduceSum<keepdims=0>(x) n = Size(x) f = Cast<to=1>(n) y = Div(s, f)",
        constants="int64 one = {1}",
        witness={"x": _floats()},
    ),
    Pair(
        "Squeeze of one row",
        "Squeeze without axes drops the first dimension too where it is 1",
        "float[N,1,M] x",
        "float[P] y",
        before="s = Squeeze(x, axis) y = ReduceSum<keepdims=0>(s, zero)",
        after="s = Squeeze(x) y = ReduceSum<keepdims=0>(s, zero)",
        constants="int64[1] axis = {1}, int64[1] zero = {0}",
        witness={"x": _drawn(2, 1, 3)[:1]},
    ),
    Pair(
        "half pixel of one",
        "pytorch_half_pixel reads the first element where one is left, half_pixel the middle",
        **IMAGE,
        before='y = Resize<mode="linear", coordinate_transformation_mode="half_pixel">(x, , scales)',
        after='y = Resize<mode="linear", coordinate_transformation_mode="pytorch_half_pixel">(x, , scales)',
        constants="float[4] scales = {1, 1, 0.5, 0.5}",
        witness={"x": _drawn(1, 3, 2, 2)},
    ),
    Pair(
        "last column of an odd size",
        "ceil_mode keeps the window that sticks out",
        "float[N,3,H,W] x",
        "float[N,3] y",
        before="p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) y = ReduceMax<axes=[2,3], keepdims=0>(p)",
        after="p = MaxPool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(x) y = ReduceMax<axes=[2,3], keepdims=0>(p)",
        witness={"x": np.arange(27, dtype=np.float32).reshape(1, 3, 3, 3)},
    ),
    Pair(
        "scale of an odd size",
        "half the size is asked for as scales or as sizes: of 5 elements, 2 are every second one, or every 2.5th",
        "float[N,3,H,W] x",
        "float[N,3,P,Q] y",
        before='y = Resize<mode="linear", coordinate_transformation_mode="asymmetric">(x, , scales)',
        after='s = Shape(x) h = Div(s, parts) c = Max(h, ones) y = Resize<mode="linear", coordinate_transformation_mode="asymmetric">(x, , , c)',
        constants="float[4] scales = {1, 1, 0.5, 0.5}, int64[4] parts = {1, 1, 2, 2}, int64[4] ones = {1, 1, 1, 1}",
        witness={"x": _drawn(1, 3, 5, 5)},
    ),
    Pair(
        "reflection at the edge",
        "the padded border repeats the edge instead of what is behind it",
        "float[N,3,H,W] x",
        "float[N,3,H,W] y",
        before='p = Pad<mode="reflect">(x, pads) y = AveragePool<kernel_shape=[3,3]>(p)',
        after='p = Pad<mode="edge">(x, pads) y = AveragePool<kernel_shape=[3,3]>(p)',
        constants="int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}",
        witness={"x": np.array([[1, 0, 5], [0, 1, 0], [3, 0, 1]], np.float32)[None, None].repeat(3, 1)},
        opset=13,
    ),
    Pair(
        "padding that counts",
        "zeros at the border count for the mean",
        "float[N,3,H,W] x",
        "float[N,3,H,W] y",
        before="y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(x)",
        after="y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1>(x)",
        witness={"x": _drawn(1, 3, 4, 4)},
    ),
    Pair(
        "length that is ignored",
        "the whole row is reversed, not its first elements",
        "float[L,N] x, int64[N] lengths",
        "float[L,N] y",
        before="y = ReverseSequence(x, lengths)",
        after="y = Slice(x, begin, end, axis, back)",
        constants="int64[1] begin = {-1}, int64[1] end = {-1000000}, int64[1] axis = {0}, int64[1] back = {-1}",
        witness={"x": _drawn(4, 2), "lengths": _whole(2, 4)},
    ),
    Pair(
        "causal mask by one",
        "each step sees one step of the future",
        "float[L,L] x",
        "float[L,L] y",
        before="y = Trilu<upper=0>(x, k)",
        after=Form("y = Trilu<upper=0>(x, k)", constants="int64 k = {1}"),
        constants="int64 k = {0}",
        witness={"x": _drawn(3, 3)},
    ),
]

TABLES = [
    Pair(
        "one row of 1,000",
        "one row of an embedding is another",
        "int64[N,L] ids",
        "float[N,L,8] y",
        before=Form("y = Gather(table, ids)", tensors={"table": TABLE}),
        after=Form("y = Gather(table, ids)", tensors={"table": _with(TABLE, 517, 0.5)}),
        witness={"ids": _whole(517)[None]},
    ),
    Pair(
        "one element of a row behind a sum",
        "one element of an embedding is another, and positions are added",
        "int64[N,L] ids",
        "float[N,8] y",
        before=Form("e = Gather(table, ids) y = ReduceSum<keepdims=0>(e, one)", tensors={"table": TABLE}),
        after=Form(
            "e = Gather(table, ids) y = ReduceSum<keepdims=0>(e, one)", tensors={"table": _with(TABLE, (842, 3), 2.0)}
        ),
        constants="int64[1] one = {1}",
        witness={"ids": _whole(842, 1)[None]},
    ),
    Pair(
        "one position",
        "the embedding of position 20 of 512 is another",
        "float[N,L,8] x",
        "float[N,L,8] y",
        before=Form(
            "s = Shape<start=1, end=2>(x) p = Slice(table, zero, s) y = Add(x, p)", tensors={"table": POSITIONS}
        ),
        after=Form(
            "s = Shape<start=1, end=2>(x) p = Slice(table, zero, s) y = Add(x, p)",
            tensors={"table": _with(POSITIONS, 20, 0.5)},
        ),
        constants="int64[1] zero = {0}",
        witness={"x": _drawn(1, 24, 8)},
    ),
    Pair(
        "index from the end",
        "a negative index counts from the end, and is cut to 0 here",
        "int64[N] ids",
        "float[N,8] y",
        before="y = Gather(table, ids)",
        after="c = Max(ids, zero) y = Gather(table, c)",
        constants="int64 zero = {0}",
        tensors={"table": _drawn(10, 8, seed=5)},
        witness={"ids": _whole(-1, 2)},
    ),
    Pair(
        "mask that is ignored",
        "scores of what is masked count",
        "float[N,L] scores, int64[N,L] attention_mask",
        "float[N,L] y",
        before="k = Sub(one, attention_mask) f = Cast<to=1>(k) m = Mul(f, low) s = Add(scores, m) y = Softmax<axis=1>(s)",
        after="y = Softmax<axis=1>(scores)",
        constants="int64 one = {1}, float low = {-10000}",
        witness={"scores": _drawn(1, 4), "attention_mask": _whole(1, 1, 0, 0)[None]},
    ),
    Pair(
        "a mask that makes NaN",
        "masks are 0 or 1: any larger number makes all outputs NaN, and hides another weight",
        "float[N,L] scores, int64[N,L] attention_mask",
        "float[N,L] y",
        before=MASKED,
        after=Form(MASKED, constants="int64 one = {1}, float low = {-3.4028235e38}, float weight = {1.1}"),
        constants="int64 one = {1}, float low = {-3.4028235e38}, float weight = {1}",
        witness={"scores": _drawn(1, 4), "attention_mask": _whole(1, 1, 0, 0)[None]},
    ),
    *(
        Pair(
            f"a row that is masked whole, from {low}",
            "Softmax of the lowest numbers alone is one over their count, and of infinities NaN",
            "float[N,L,L] scores, bool[N,L,L] mask",
            "float[N,L,L] y",
            before="s = Where(mask, scores, low) y = Softmax<axis=-1>(s)",
            after=Form("s = Where(mask, scores, low) y = Softmax<axis=-1>(s)", tensors={"low": np.float32(other)}),
            tensors={"low": np.float32(low)},
            witness={"scores": _drawn(1, 2, 2), "mask": np.array([[[True, False], [False, False]]])},
        )
        for low, other in ((-3.4028235e38, "-inf"), ("-inf", -3.4028235e38))
    ),
    Pair(
        "mask of the keys",
        "the mask hides rows instead of columns",
        "float[N,L,L] scores, bool[N,L] mask",
        "float[N,L,L] y",
        before="m = Unsqueeze(mask, one) s = Where(m, scores, low) y = Softmax<axis=2>(s)",
        after="m = Unsqueeze(mask, two) s = Where(m, scores, low) y = Softmax<axis=2>(s)",
        constants="int64[1] one = {1}, int64[1] two = {2}, float low = {-10000}",
        witness={"scores": _drawn(1, 3, 3), "mask": np.array([[True, True, False]])},
    ),
]

STEPS = [
    Pair(
        "second step of a sum",
        "what is summed is cut at 1 in the second step, never in the first from a state of 0",
        "float[N,4] x, float[N,4] state",
        "float[N,4] y, float[N,4] stateN",
        before="t = Sigmoid(x) stateN = Add(state, t) y = Mul(stateN, two)",
        after="t = Sigmoid(x) stateN = Add(state, t) c = Min(stateN, most) y = Mul(c, two)",
        constants="float two = {2}, float most = {1}",
        witness={"x": np.ones((1, 4), np.float32), "state": np.full((1, 4), 0.7, np.float32)},
    ),
    Pair(
        "window over past and present",
        "only the last eight of past and present are seen",
        "float[N,L,4] x, float[N,P,4] past",
        "float[N,4] y, float[N,T,4] present",
        before="present = Concat<axis=1>(past, x) y = ReduceMean<axes=[1], keepdims=0>(present)",
        after="present = Concat<axis=1>(past, x) w = Slice(present, begin, end, one) y = ReduceMean<axes=[1], keepdims=0>(w)",
        constants="int64[1] begin = {-8}, int64[1] end = {1000000}, int64[1] one = {1}",
        witness={"x": _drawn(1, 5, 4), "past": _drawn(1, 5, 4, seed=1)},
    ),
    Pair(
        "second step of a counter",
        "the second step adds a bias that the others do not",
        "float[N] x, int64 step",
        "float[N] y, int64 stepN",
        before="stepN = Add(step, one) y = Tanh(x)",
        after="stepN = Add(step, one) c = Equal(step, one) t = Tanh(x) b = Add(t, bias) y = Where(c, b, t)",
        constants="int64 one = {1}, float bias = {0.5}",
        witness={"x": _floats(1, 2), "step": np.array(1)},
    ),
    Pair(
        "second turn of a Loop",
        "from the second turn on another weight is taken",
        "float[N] x, int64 turns",
        "float[N] y",
        before="y = Loop(turns, , x) <body = b (int64 i, bool c, float[N] v) => (bool d, float[N] w) { d = Identity(c) w = Mul(v, a) }>",
        after="""y = Loop(turns, , x) <body = b (int64 i, bool c, float[N] v) => (bool d, float[N] w) {
            d = Identity(c) e = Greater(i, zero) f = Where(e, o, a) w = Mul(v, f) }>""",
        constants="int64 zero = {0}, float a = {0.5}, float o = {0.625}",
        witness={"x": _floats(1, 2), "turns": np.array(2)},
    ),
    Pair(
        "branch that nobody takes",
        "the two branches differ where the maximum is above 1,000",
        **WIDE,
        before="""m = ReduceMax<keepdims=0>(x) c = Greater(m, line)
            y = If(c) <then_branch = t () => (float[N,8] p) { p = Mul(x, a) }, else_branch = e () => (float[N,8] q) { q = Tanh(x) }>""",
        after="""m = ReduceMax<keepdims=0>(x) c = Greater(m, line)
            y = If(c) <then_branch = t () => (float[N,8] p) { p = Mul(x, o) }, else_branch = e () => (float[N,8] q) { q = Tanh(x) }>""",
        constants="float line = {1000}, float a = {2}, float o = {2.5}",
        witness={"x": np.full((1, 8), 2000, np.float32)},
    ),
    Pair(
        "branch within a branch",
        "the rates 8000 and 16000 go different ways, of which the first is another",
        "float[N,8] x, int64 sr",
        "float[N,8] y",
        before="""h = Equal(sr, high) y = If(h) <then_branch = t () => (float[N,8] p) { p = Tanh(x) },
            else_branch = e () => (float[N,8] q) { l = Equal(sr, low)
            q = If(l) <then_branch = u () => (float[N,8] r) { r = Mul(x, a) }, else_branch = v () => (float[N,8] s) { s = Neg(x) }> }>""",
        after="""h = Equal(sr, high) y = If(h) <then_branch = t () => (float[N,8] p) { p = Tanh(x) },
            else_branch = e () => (float[N,8] q) { l = Equal(sr, low)
            q = If(l) <then_branch = u () => (float[N,8] r) { r = Mul(x, o) }, else_branch = v () => (float[N,8] s) { s = Neg(x) }> }>""",
        constants="int64 high = {16000}, int64 low = {8000}, float a = {2}, float o = {2.5}",
        witness={"x": _drawn(1, 8), "sr": np.array(8000)},
    ),
    Pair(
        "function body",
        "a function that is called twice adds another number",
        **WIDE,
        before="a = local.F(x) y = local.F(a)",
        after=Form(
            "a = local.F(x) y = local.F(a)",
            functions='<domain: "local", opset_import: ["" : 17]> F (v) => (w) { c = Constant<value_float=0.51>() s = Add(v, c) w = Tanh(s) }',
        ),
        functions='<domain: "local", opset_import: ["" : 17]> F (v) => (w) { c = Constant<value_float=0.5>() s = Add(v, c) w = Tanh(s) }',
        witness={"x": _drawn(1, 8)},
    ),
    Pair(
        "Scan backwards",
        "the sequence is read from its end",
        "float[L,4] x, float[4] s",
        "float[4] y",
        before="y = Scan<num_scan_inputs=1, body = b (float[4] v, float[4] e) => (float[4] w) { h = Mul(v, half) w = Add(h, e) }>(s, x)",
        after="y = Scan<num_scan_inputs=1, scan_input_directions=[1], body = b (float[4] v, float[4] e) => (float[4] w) { h = Mul(v, half) w = Add(h, e) }>(s, x)",
        constants="float half = {0.5}",
        witness={"x": _drawn(3, 4), "s": np.zeros(4, np.float32)},
    ),
]

EPSILONS = [
    Pair(
        "epsilon doubled",
        "LayerNormalization with 2e-5 instead of 1e-5",
        **WIDE,
        before="y = LayerNormalization<epsilon=0.00001>(x, scale)",
        after="y = LayerNormalization<epsilon=0.00002>(x, scale)",
        tensors={"scale": np.ones(8, np.float32)},
        witness={"x": _drawn(2, 8) / 10},
    ),
    Pair(
        "epsilon 20 times as large",
        "BatchNormalization with 2e-4 instead of 1e-5",
        "float[N,3,H,W] x",
        "float[N,3,H,W] y",
        before="y = BatchNormalization<epsilon=0.00001>(x, scale, bias, mean, variance)",
        after="y = BatchNormalization<epsilon=0.0002>(x, scale, bias, mean, variance)",
        constants="float[3] scale = {1, 2, 1.5}, float[3] bias = {0, 0.1, 0}, float[3] mean = {0, 0.5, 0.1}, float[3] variance = {1, 2, 1.5}",
        witness={"x": _drawn(1, 3, 2, 2)},
    ),
    Pair(
        "epsilon of an InstanceNormalization",
        "2e-4 instead of 1e-5",
        "float[N,3,H,W] x",
        "float[N,3,H,W] y",
        before="y = InstanceNormalization<epsilon=0.00001>(x, scale, bias)",
        after="y = InstanceNormalization<epsilon=0.0002>(x, scale, bias)",
        constants="float[3] scale = {1, 2, 1.5}, float[3] bias = {0, 0.1, 0}",
        witness={"x": _drawn(1, 3, 4, 4)},
    ),
    Pair(
        "epsilon under a root",
        "1e-6 instead of 1e-5, added to the variance",
        **WIDE,
        before="m = ReduceMean<axes=[1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[1]>(q) e = Add(v, small) r = Sqrt(e) y = Div(d, r)",
        after=Form(
            "m = ReduceMean<axes=[1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[1]>(q) e = Add(v, small) r = Sqrt(e) y = Div(d, r)",
            constants="float small = {0.000001}",
        ),
        constants="float small = {0.00001}",
        witness={"x": _drawn(2, 8) / 10},
    ),
    Pair(
        "guard of a norm",
        "a vector is divided by its norm or 1e-3, instead of 1e-12",
        **WIDE,
        before="n = ReduceL2<axes=[1]>(x) m = Max(n, small) y = Div(x, m)",
        after=Form("n = ReduceL2<axes=[1]>(x) m = Max(n, small) y = Div(x, m)", constants="float small = {0.001}"),
        constants="float small = {0.000000000001}",
        witness={"x": _drawn(1, 8) * 1e-5},
    ),
    Pair(
        "small numbers alone",
        "1e-8 is added to what is divided by: only numbers as small show it",
        **WIDE,
        before="a = Abs(x) d = Add(a, small) y = Div(x, d)",
        after=Form("a = Abs(x) d = Add(a, small) y = Div(x, d)", constants="float small = {0.00000002}"),
        constants="float small = {0.00000001}",
        witness={"x": np.full((1, 8), 1e-8, np.float32)},
    ),
    Pair(
        "small numbers cut to 0",
        "what is smaller than 1e-6 becomes 0",
        **WIDE,
        before="y = Identity(x)",
        after="y = Shrink<lambd=0.000001>(x)",
        witness={"x": np.full((1, 8), 1e-8, np.float32)},
    ),
    Pair(
        "approximate Gelu",
        "the formula by Tanh, which differs by 4e-4",
        **WIDE,
        before="y = Gelu(x)",
        after='y = Gelu<approximate="tanh">(x)',
        opset=20,
        witness={"x": _drawn(2, 8) * 2},
    ),
]

NEGATIVE = [
    Pair(
        "sign of a remainder",
        "Mod with the sign of the dividend",
        "int64[N] a, int64[N] b",
        "int64[N] y",
        before="y = Mod(a, b)",
        after="y = Mod<fmod=1>(a, b)",
        witness={"a": _whole(-7, 7), "b": _whole(3, 3)},
    ),
    Pair(
        "quotient of negatives",
        "-7 / 2 is -3 in integers, and -4 rounded down",
        "int64[N] a",
        "int64[N] y",
        before="y = Div(a, two)",
        after="r = Mod(a, two) e = Sub(a, r) y = Div(e, two)",
        constants="int64 two = {2}",
        witness={"a": _whole(-7, 7)},
    ),
    Pair(
        "root of negatives",
        "NaN becomes the root of the absolute value",
        **WIDE,
        before="y = Sqrt(x)",
        after="a = Abs(x) y = Sqrt(a)",
        witness={"x": -np.ones((1, 8), np.float32)},
    ),
    Pair(
        "cast of negatives",
        "a cast to integers cuts, and Floor goes down",
        **WIDE,
        before="i = Cast<to=7>(x) y = Cast<to=1>(i)",
        after="y = Floor(x)",
        witness={"x": np.full((1, 8), -1.5, np.float32)},
    ),
]

DIFFERING = [*TIES, *BOUNDS, *BATCHES, *SIZES, *TABLES, *STEPS, *EPSILONS, *NEGATIVE]
