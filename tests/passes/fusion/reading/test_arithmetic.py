"""Numbers have one term however they are computed."""

from tests.passes.fusion.reading.support import differing

MEAN = "m1 = ReduceMean(x, last) c = Sub(x, m1) q = Mul(c, c) s = ReduceMean(q, last) a = Add(s, half)"
SAME = [
    "d = Dropout(x) e = Identity(x)", "d = Dropout(x, half, no) e = Identity(x)", "d = Cast<to=11>(x) e = Identity(x)", "d = Cast<to=10>(x) e = Identity(x)",
    "d = Cast<to=6>(i) e = Identity(i)", "d = CastLike(x, dx) e = Identity(x)", "d = Cast<to=1>(n) e = Identity(six)", "d = Cast<to=7>(i) e = Identity(i)",
    "d = Add(two, three) e = Constant<value_float=5.0>()", "d = Sub(two, three) e = Identity(minus)", "d = Mul(two, three) e = Identity(six)", "d = Div(one, two) e = Identity(half)",
    "d = Div(n, w) e = Constant<value_int=1>()", "d = Mul(twos, half) e = Mul(half, twos)", "d = Add(x, y) e = Add(y, x)", "d = Sum(x, y, v) a = Add(x, y) e = Add(a, v)",
    "a = Neg(y) d = Add(x, a) e = Sub(x, y)", "d = Neg(x) e = Mul(x, minus)", "d = Div(x, two) e = Mul(x, half)", "d = Reciprocal(x) e = Div(one, x)", "d = Sqrt(x) e = Pow(x, half)",
    "d = Pow(x, two) e = Mul(x, x)", "d = Pow(x, three) a = Mul(x, x) e = Mul(a, x)", "d = Pow(x, minus) e = Reciprocal(x)", "d = Pow(x, one) e = Identity(x)", "d = Pow(x, ones) e = Identity(x)",
    "a = Sqrt(x) d = Reciprocal(a) b1 = Div(one, a) e = Identity(b1)", "d = ReduceSumSquare(x, last) a = Mul(x, x) e = ReduceSum(a, last)", ("d = ReduceL2<axes=[-1]>(x) a = ReduceSumSquare<axes=[2]>(x) e = Sqrt(a)", 17),
    "d = ReduceL1(x, last) a = Abs(x) e = ReduceSum(a, last)", "d = ReduceLogSum(x, last) a = ReduceSum(x, last) e = Log(a)", "a = ReduceSum<keepdims=1>(x, last) d = Squeeze(a, last) e = ReduceSum<keepdims=0>(x, last)",
    "d = ReduceMax(x, mid) e = ReduceMax(x, last)", "d = GlobalAveragePool(x) e = ReduceMean(x, last)", "d = ReduceMean(x) e = ReduceMean(x, parts0)".replace("parts0", "all0").replace(", all0", ""),
    f"{MEAN} r = Sqrt(a) e = Div(c, r) d = InstanceNormalization<epsilon=0.5>(x, scale, bias)", "d = Clip(x, zero, six) r = Relu(x) e = Min(r, six)", ("d = Clip<min=0.0,max=6.0>(x) r = Relu(x) e = Clip<max=6.0>(r)", 10),
    "d = Relu(x) e = Max(x, zero)", "d = Max(zero, x) e = Clip(x, zero)", "d = Min(x, six) e = Clip(x, , six)", "d = Max(x, y) e = Max(y, x)", "d = Min(x, y) e = Min(y, x)",
    "d = Greater(x, y) e = Less(y, x)", "d = Softmax(x) e = Softmax<axis=2>(x)", ("d = Softmax<axis=2>(x) e = Softmax<axis=-1>(x)", 12), "d = Softmax<axis=1>(x) e = Softmax<axis=-2>(x)",
    "h = HardSigmoid<alpha=0.5,beta=0.25>(x) d = Identity(h) a = Mul(x, half) f = Add(a, q4) e = Clip(f, zero, one)".replace("q4", "quarter"), "d = HardSwish(x) a = Div(x, six) f = Add(a, half) g = Clip(f, zero, one) e = Mul(x, g)",
    "h = Mul(i, i) d = Identity(h) e = Mul(i, i)",
    *(f"o = Not(b) d = {op}(b, o) e = {op}(o, b)" for op in ("And", "Or", "Xor", "Equal")),
]  # fmt: skip
APART = [
    "d = Dropout(x, half, yes) e = Identity(x)", "d = Dropout(x, half, b0) e = Identity(x)".replace("b0", "open1"), "d = Cast<to=7>(x) e = Identity(x)", "d = Cast<to=1>(i) e = Identity(i)", "d = Cast<to=9>(i) e = Identity(i)", "d = CastLike(x, i) e = Identity(x)",
    "d = Cast<to=1>(b) e = Identity(b)", "d = Sub(x, y) e = Sub(y, x)", "d = Div(x, y) e = Div(y, x)", "d = Div(x, zero) e = Identity(x)", "d = Pow(x, six) e = Pow(x, two)", "d = Pow(x, y) e = Pow(y, x)",
    "d = Add(i, i) e = Mul(i, w)", "d = Neg(i) e = Identity(i)", "d = Sqrt(x) e = Reciprocal(x)", ("d = Add(x, y) e = Add(y, x)", 6), "d = ReduceSum(x, last) e = ReduceMean(x, last)", "d = ReduceSum(x, last) e = ReduceSum(x, mid0)".replace("mid0", "first"),
    "d = ReduceSum(x, last) e = ReduceSum<keepdims=0>(x, last)", "d = ReduceL2(x, last) e = ReduceL1(x, last)", "d = ReduceSum(i, first) e = Identity(i)", "d = ReduceMax(x, last) e = ReduceSum(x, last)", "d = Clip(x, zero, six) e = Clip(x, one, six)",
    "d = Clip(x, six, zero) e = Clip(x, zero, six)", "d = Clip(x, u, six) e = Clip(x, zero, six)", "d = Max(x, y) e = Min(x, y)", "d = Max(x, zero) e = Min(x, zero)", "d = Max(i, i) e = Identity(i)", "d = Less(x, y) e = Less(y, x)",
    "d = Softmax<axis=1>(x) e = Softmax(x)", ("d = Softmax<axis=1>(x) e = Softmax<axis=-1>(x)", 12), "d = InstanceNormalization(x, other, bias) e = InstanceNormalization(x, scale, bias)", "d = InstanceNormalization(x, scale, other) e = InstanceNormalization(x, scale, bias)",
    "d = HardSwish(x) e = HardSigmoid(x)", "d = HardSigmoid(x) e = HardSigmoid<alpha=0.25>(x)", "d = Div(w, zero0) e = Identity(w)".replace("zero0", "none0"), "d = Relu(x) e = Identity(x)",
    "d = MatMul(x, k) e = MatMul(k, x)", "o = Not(b) d = And(b, o) e = Or(b, o)", "o = Not(b) d = And(b, o) e = And(b, b)", "d = Greater(x, y) e = Greater(y, x)",
]  # fmt: skip


def test_the_same_is_one_term():
    assert differing(SAME, True) == []


def test_others_are_others():
    assert differing(APART, False) == []
