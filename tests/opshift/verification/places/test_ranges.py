"""What is claimed of numbers is true of every one that onnxruntime yields; what is not known is not claimed."""

import math

import numpy as np
import pytest

from opshift.verification.engines import OnnxRuntime
from opshift.verification.places.ranges import ANY, Ranges
from tests.support import model

POSITIVE, UNIT, SHARE = (0, math.inf), (-1, 1), (0, 1)
HELD = """float half = {0.5}, float two = {2}, float three = {3}, float six = {6}, float low = {-4}, float zero = {0}, float far = {-9},
    int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}, int64[1] k = {1}, int64[1] last = {-1}, bool yes = {1}, int64[2] parts = {1, 1},
    uint8 z = {3}, float s = {0.5}, float[2] ends = {1, 2}, uint8 z0 = {0}"""
GATE = "a = Sigmoid(x) b = Relu(x) "
CELL = "t = Reshape(x, shape) "
RNN = f"{HELD}, int64[3] shape = {{2, 2, 4}}, float[1,8,4] w = {{{', '.join(['2', '-1.5'] * 16)}}}, float[1,8,2] r = {{{', '.join(['3'] * 16)}}}"
RNN += ", float[1,2,2] big = {5, 5, -7, 5}, float[1,2,2] small = {0.5, 0, 0, 0}, int32[2] lengths = {2, 0}"
RNN += f", float[1,6,4] w3 = {{{', '.join(['2', '-1.5'] * 12)}}}, float[1,6,2] r3 = {{{', '.join(['3'] * 12)}}}"
RNN += f", float[1,2,4] w1 = {{{', '.join(['2', '-1.5'] * 4)}}}, float[1,2,2] r1 = {{3, 3, 3, 3}}"

CLAIMS = {
    "y = Relu(x)": POSITIVE,
    "y = Conv(x, x)": ANY,
    "y = Softmax(x)": SHARE,
    f"{GATE} y = Add(a, b)": POSITIVE,
    f"{GATE} y = Add(a, three)": (3, 4),
    f"{GATE} y = Sub(a, b)": (-math.inf, 1),
    f"{GATE} y = Sub(half, a)": (-0.5, 0.5),
    f"{GATE} y = Mul(a, low)": (-4, 0),
    f"{GATE} y = Mul(b, b)": POSITIVE,
    "y = Mul(x, x)": POSITIVE,
    f"{GATE} y = Mul(a, x)": ANY,
    f"{GATE} y = Div(a, two)": (0, 0.5),
    f"{GATE} y = Div(a, b)": POSITIVE,
    f"{GATE} n = Neg(b) y = Div(a, n)": ANY,
    f"{GATE} c = Add(a, two) y = Div(low, c)": (-2, -4 / 3),
    f"{GATE} y = Neg(b)": (-math.inf, 0),
    f"{GATE} y = Sum(a, a, three)": (3, 5),
    f"{GATE} y = Mean(a, three)": (0, 3),
    f"{GATE} y = Max(x, half)": (0.5, math.inf),
    f"{GATE} y = Min(b, half)": (0, 0.5),
    f"{GATE} y = Concat<axis = 1>(a, x)": ANY,
    f"{GATE} t = Tanh(x) y = Concat<axis = 1>(a, t)": UNIT,
    f"{GATE} c = Greater(x, zero) y = Where(c, a, far)": (-9, 1),
    f"{GATE} y = Where(yes, far, a)": (-9, 1),
    f"{GATE} y = Pow(x, two)": POSITIVE,
    f"{GATE} y = Pow(x, three)": ANY,
    f"{GATE} y = Pow(b, half)": POSITIVE,
    f"{GATE} y = ReduceSum(b, last)": POSITIVE,
    f"{GATE} n = Neg(a) y = ReduceSum(n, last)": (-math.inf, 0),
    "y = ReduceSum(x, last)": ANY,
    f"{GATE} y = ReduceMax<axes = [3]>(a)": SHARE,
    "y = Clip(x, low, six)": (-4, 6),
    "y = Clip(x, , six)": (-math.inf, 6),
    "y = Clip(x, low)": (-4, math.inf),
    f"{GATE} y = Clip(b, low, six)": (0, 6),
    f"{GATE} y = Clip(b, six, low)": (-4, -4),
    f"{GATE} m = ReduceMax<keepdims = 0>(a) y = Clip(x, m, six)": (0, 6),
    f"{GATE} c = Add(a, six) y = AveragePool<kernel_shape = [2, 2], pads = [1, 1, 1, 1], count_include_pad = 1>(c)": (0, 7),
    f"{GATE} c = Add(a, six) y = MaxPool<kernel_shape = [2, 2], pads = [1, 1, 1, 1]>(c)": (6, 7),
    f"{GATE} v, y = MaxPool<kernel_shape = [2, 2]>(a)": None,
    "y = LpPool<kernel_shape = [2, 2]>(x)": POSITIVE,
    f"{GATE} c = Add(a, six) y = Pad(c, pads)": (0, 7),
    f"{GATE} c = Add(a, six) y = Pad(c, pads, far)": (-9, 7),
    f"{GATE} c = Add(a, six) y = Pad<mode = \"edge\">(c, pads, far)": (6, 7),
    f"{GATE} v, y = Split<axis = 1>(a, parts)": SHARE,
    f"{GATE} y = Dropout(a)": SHARE,
    f"{GATE} y = Dropout(a, half, yes)": None,
    f"{GATE} y, i = TopK(a, k)": SHARE,
    f"{GATE} v, y = TopK(a, k)": None,
    f"{GATE} y = Cast<to = 10>(a)": SHARE,
    "y = Cast<to = 9>(x)": SHARE,
    f"{GATE} y = Cast<to = 2>(a)": SHARE,
    f"{GATE} y = Cast<to = 3>(b)": ANY,
    "i = Cast<to = 6>(x) y = Abs(i)": ANY,
    "i = Cast<to = 6>(x) y = Mul(i, i)": ANY,
    "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)": (-1.5, 126),
    "q = QuantizeLinear(x, s, z0) y = DequantizeLinear(q, s)": (0, 127.5),
    "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Relu(d)": POSITIVE,
    "y = Hardmax(x)": SHARE,
    "y = Elu(x)": ANY,
    "y = NonZero(x)": None,
    "y = com.microsoft.Gelu(x)": None,
    f"{CELL} y, h, c = LSTM<hidden_size = 2>(t, w, r)": UNIT,
    f"{CELL} a, h, y = LSTM<hidden_size = 2>(t, w, r)": ANY,
    f"{CELL} a, y = LSTM<hidden_size = 2>(t, w, r, , , big, big)": UNIT,
    f"{CELL} a, y = LSTM<hidden_size = 2>(t, w, r, , lengths, big, big)": (-7, 5),
    f"{CELL} y = GRU<hidden_size = 2>(t, w3, r3)": UNIT,
    f"{CELL} a, y = GRU<hidden_size = 2>(t, w3, r3, , , big)": (-7, 5),
    f"{CELL} y = GRU<hidden_size = 2>(t, w3, r3, , , small)": UNIT,
    f"{CELL} y = GRU<hidden_size = 2, activations = [\"Tanh\", \"Tanh\"]>(t, w3, r3)": None,
    f"{CELL} y = GRU<hidden_size = 2, activations = [\"HardSigmoid\", \"Softsign\"]>(t, w3, r3)": UNIT,
    f"{CELL} y = RNN<hidden_size = 2>(t, w1, r1)": UNIT,
    f"{CELL} y = RNN<hidden_size = 2, activations = [\"Relu\"]>(t, w1, r1)": None,
    f"{CELL} y = RNN<hidden_size = 2, activations = [\"Affine\"]>(t, w1, r1)": None,
}  # fmt: skip


@pytest.mark.parametrize("body", list(CLAIMS))
def test_what_is_claimed(body):
    domains = '"com.microsoft" : 1' if "com.microsoft" in body else ""
    io = {"inputs": "float[1,2,2,4] x", "outputs": "y", "constants": RNN if CELL in body else HELD, "domains": domains}
    source = model(body, 17, **io)
    claim = Ranges(source).of("y")
    assert claim == CLAIMS[body]
    if claim in (None, ANY):
        return
    session = OnnxRuntime(source)
    for x in np.float32([[-100, 100, 0.3, -0.0], [0, 5, -5, 1e4], [1e-30, -3e5, 0.5, 2]]):
        (y,) = session.run({"x": np.resize(x, (1, 2, 2, 4))})
        y = y.astype(np.float64)[np.isfinite(y)]
        assert y.min() >= claim[0] - 1e-6
        assert y.max() <= claim[1] + 1e-6


def test_numbers_that_are_given_are_any():
    source = model(
        "y = Relu(x)", 17, inputs="float[2] x", outputs="y", constants="float[2] i = {1, 0}, float[70000] f = {1}"
    )
    source.graph.initializer[0].float_data[:] = []
    source.graph.initializer[0].raw_data = np.float32([1, np.inf]).tobytes()
    ranges = Ranges(source)
    assert [ranges.of(name) for name in ("x", "i", "f", "nothing")] == [ANY, ANY, ANY, None]
