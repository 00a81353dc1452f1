"""The same where an operator has many inputs that calls of a function may leave out, some of them in the middle."""

import numpy as np
import onnx
import pytest

from opshift import functions
from tests.passes.analysis.test_formals import check, kernels_of_the_newest, model, to, without

RANDOM = np.random.default_rng(7)


def recurrent(gates, *, more=""):
    inputs = f"float[2,3,4] x, float[1,{2 * gates},4] w, float[1,{2 * gates},2] r, float[1,{4 * gates}] b, int32[3] l"
    return f"{inputs}, float[1,3,2] h{more}"


STATES = ["(x, w, r)", "(x, w, r, b)", "(x, w, r, , l)", "(x, w, r, , , h)", "(x, w, r, b, l, h)"]
ATTENTION = "float[1,2,3,4] q, float[1,2,5,4] k, float[1,2,5,4] v, float[3,{}] m, float[1,2,2,4] p, float[1,2,2,4] o"
BOXES = "float[1,6,4] b, float[1,2,6] s, int64[1] n, float[1] o, float[1] t"

CASES = {
    "RNN": (14, "t, y = RNN<hidden_size = 2>(x, w, r, b, l, h)", recurrent(1), STATES, [22, 13, 7]),
    "GRU": (14, "y, t = GRU<hidden_size = 2, linear_before_reset = 1>(x, w, r, b, l, h)", recurrent(3), STATES, [22, 13, 7]),
    "LSTM": (14, "y = LSTM<hidden_size = 2>(x, w, r, b, l, h, c, p)", recurrent(4, more=", float[1,3,2] c, float[1,6] p"),
        [*STATES, "(x, w, r, , , , c)", "(x, w, r, , , , , p)", "(x, w, r, b, l, h, c, p)"], [22, 13, 7]),
    "NonMaxSuppression": (11, "i = NonMaxSuppression(b, s, n, o, t) y = Cast<to = 1>(i)", BOXES,
        ["(b, s)", "(b, s, n)", "(b, s, n, o)", "(b, s, n, , t)", "(b, s, n, o, t)"], [13, 10]),
    "NegativeLogLikelihoodLoss": (13, "y = NegativeLogLikelihoodLoss(x, t, w)", "float[3,5] x, int64[3] t, float[5] w",
        ["(x, t)", "(x, t, w)"], [22, 12, 11, 9]),
    "SoftmaxCrossEntropyLoss": (13, "y, z = SoftmaxCrossEntropyLoss(x, t, w)", "float[3,5] x, int64[3] t, float[5] w",
        ["(x, t)", "(x, t, w)"], [22, 12, 11, 9]),
    "MatMulInteger": (19, "m = MatMulInteger(a, b, c, d) y = Cast<to = 1>(m)", "uint8[2,3] a, uint8[3,2] b, uint8 c, uint8 d",
        ["(a, b)", "(a, b, c)", "(a, b, , d)", "(a, b, c, d)"], [23, 10, 9]),
    "ConvInteger": (19, "m = ConvInteger(a, b, c, d) y = Cast<to = 1>(m)", "uint8[1,1,4,4] a, uint8[1,1,2,2] b, uint8 c, uint8 d",
        ["(a, b)", "(a, b, c)", "(a, b, , d)", "(a, b, c, d)"], [23, 10, 9]),
    "Split": (13, "y, z = Split(x, s)", "float[4,2] x, int64[2] s", ["(x)", "(x, s)"], [18, 12, 10]),
    "Attention": (23, "y = Attention(q, k, v, m)", ATTENTION.format(5), ["(q, k, v)", "(q, k, v, m)"], [24, 22, 18, 13]),
    "Attention, past": (23, "y, a, b = Attention(q, k, v, m, p, o)", ATTENTION.format(7),
        ["(q, k, v, , p, o)", "(q, k, v, m, p, o)"], [24, 22, 18, 13]),
}  # fmt: skip

CHOSEN = {"l": np.int32([2, 1, 2]), "n": [2], "o": [0.5], "s": [1, 3], "t": [1, 0, 4]}


def feeds(of, op):
    """Numbers for the inputs of a model; those whose values matter are chosen."""
    made = {}
    for value in of.graph.input:
        kind = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        shape = [dim.dim_value for dim in kind.shape.dim]
        x = RANDOM.normal(size=shape) if dtype.kind == "f" else RANDOM.integers(0, 9, size=shape)
        made[value.name] = np.asarray(x, dtype)
        chosen = CHOSEN.get(value.name)
        if chosen is not None and np.shape(chosen) == tuple(shape):
            made[value.name] = np.asarray(chosen, dtype)
    if op == "NonMaxSuppression":
        corner = np.sort(RANDOM.uniform(0, 2, size=(1, 6, 2, 2)), axis=2)
        made |= {"b": np.float32(corner.reshape(1, 6, 4)), "t": np.float32([-0.2])}
    return made


@pytest.mark.parametrize("case", kernels_of_the_newest(CASES, "Attention"))
def test_inputs_that_calls_leave_out(case):
    opset, body, inputs, calls, targets = CASES[case]
    op, formals = case.split(",")[0], ", ".join(part.split()[-1] for part in inputs.split(", "))
    for given in (calls, calls[:1], calls[-1:]):
        verbs = [*map(to, targets), without("f::F")]
        if functions.has_definition("", op):
            verbs.append(without(op))
        source = model(opset, body, formals, *given, inputs=inputs, held="")
        check(source, *verbs, feeds=feeds(source, op))
