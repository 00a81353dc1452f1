"""What calls of a function leave out is absent in its body, whatever is made of it."""

import numpy as np
import onnx
import onnx.checker
import onnx.inliner
import onnx.parser
import pytest
from opshift.passes.names import bodies

import opshift
from opshift import functions
from opshift.engines import OnnxRuntime

FEEDS = {"x": np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)}
HELD = """int64[1] one={1}, int64[2] parts={1,3}, float lo={-0.5}, float hi={0.75}, int64 k={1}, int64[1] axis={2}, int64[6] around={0,1,0,0,0,1},
    float[4] scale={1,2,0.5,3}, float[4] bias={1,0,-1,2}, float[2] addend={1,-1}, float[12,2] w={1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6},
    float[3] half={1,1,0.7}, int64[3] sizes={2,3,2}, uint8 zero={3}, float tenth={0.1}, bool yes={1}"""


def model(opset, body, formals, *calls, attributes="", ir=10, inputs="float[2,3,4] x", more=""):
    """A model whose outputs are what calls of `f.F`, such as `(x, , hi)` or `<p = 1>(x)`, make."""
    made = " ".join(f"y{i} = f.F{call}" for i, call in enumerate(calls))
    outputs = ", ".join(f"float[] y{i}" for i in range(len(calls)))
    text = f"""<ir_version: {ir}, opset_import: ["": {opset}, "f": 1]> g ({inputs}) => ({outputs}) <{HELD}> {{ {made} }}
    <opset_import: ["": {opset}, "f": 1], domain: "f"> F {attributes} ({formals}) => (y) {{ {body} }} {more}"""
    return onnx.parser.parse_model(text)


def inlined(of):
    """What the model means: its functions inlined by onnx, which does not shorten the inputs of a node."""
    flat = onnx.inliner.inline_local_functions(of)
    for body in bodies(flat):
        for node in body.node:
            while node.input and not node.input[-1]:
                node.input.pop()
    return flat


def check(source, verb, feeds=FEEDS):
    """The model that a verb makes of another one, which stays as it is and computes the same."""
    expected = OnnxRuntime(inlined(source)).run(feeds)
    for value, held in zip(source.graph.output, expected, strict=True):
        value.type.tensor_type.shape.SetInParent()
        for axis in range(held.ndim):
            value.type.tensor_type.shape.dim.add(dim_param=f"{value.name}_{axis}")
    before = source.SerializeToString(deterministic=True)
    result = verb(source)
    assert source.SerializeToString(deterministic=True) == before
    onnx.checker.check_model(result)
    for one, other in zip(expected, OnnxRuntime(inlined(result)).run(feeds), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
    return result


def to(opset, **options):
    return lambda source: opshift.convert_version(source, opset, **options)


def without(*ops):
    return lambda source: opshift.inline(source, list(ops))


CASES = {
    "Clip": (19, "y = Clip(x, lo, hi)", "x, lo, hi", ["(x)", "(x, , hi)", "(x, lo)", "(x, lo, hi)"], [18, 11, 10, 6]),
    "Clip, last": (12, "y = Clip(x, , hi)", "x, hi", ["(x)", "(x, hi)"], [13, 11, 10]),
    "ReduceMax": (19, "y = ReduceMax(x, a)", "x, a", ["(x)", "(x, one)"], [20, 17, 12]),
    "ReduceL2": (19, "y = ReduceL2(x, a)", "x, a", ["(x)", "(x, one)"], [17, 12]),
    "ReduceSum": (19, "y = ReduceSum(x, a)", "x, a", ["(x)", "(x, one)"], [12, 7]),
    "ReduceLogSumExp": (18, "y = ReduceLogSumExp<keepdims = 0>(x, a)", "x, a", ["(x)", "(x, one)"], [17]),
    "Trilu": (19, "y = Trilu(x, k)", "x, k", ["(x)", "(x, k)"], [13, 12]),
    "Gemm": (19, "t = Flatten(x) y = Gemm(t, w, c)", "x, w, c", ["(x, w)", "(x, w, addend)"], [10, 7]),
    "Pad": (19, "y = Pad(x, p, v, a)", "x, p, v, a", ["(x, around)", "(x, around, hi)"], [18, 17, 10]),
    "Pad, axes": (19, "y = Pad(x, p, , a)", "x, p, a", ["(x, around)", "(x, parts, axis)"], [17, 12]),
    "Slice": (19, "e = Neg(s) y = Slice(x, e, s, a, t)", "x, s, a, t", ["(x, one)", "(x, one, axis)", "(x, one, axis, one)"], [9]),
    "Split": (17, "y, z = Split<axis = 2>(x, s)", "x, s", ["(x)", "(x, parts)"], [18, 21, 12]),
    "Resize": (19, 'y = Resize<mode = "linear", coordinate_transformation_mode = "half_pixel_symmetric">(x, , s, n)', "x, s, n",
        ["(x, half)", "(x, , sizes)"], [18, 17, 13]),
    "LayerNormalization": (18, "y = LayerNormalization(x, s, b)", "x, s, b", ["(x, scale)", "(x, scale, bias)"], [17, 16, 13]),
    "Attention": (23, "y = Attention<q_num_heads = 1, kv_num_heads = 1>(x, x, x, m)", "x, m", ["(x)"], [24, 25, 22, 18]),
    "QuantizeLinear": (21, "q = QuantizeLinear(x, s, z) y = Cast<to = 1>(q)", "x, s, z", ["(x, tenth)", "(x, tenth, zero)"], [23, 19, 12]),
    "DequantizeLinear": (21, "q = Cast<to = 2>(x) y = DequantizeLinear(q, s, z)", "x, s, z", ["(x, tenth)", "(x, tenth, zero)"], [23, 19, 12]),
    "MatMulInteger": (19, "q = Cast<to = 2>(x) t = Transpose<perm = [0, 2, 1]>(q) m = MatMulInteger(q, t, z) y = Cast<to = 1>(m)", "x, z",
        ["(x)", "(x, zero)"], [9]),
    "ConvInteger": (19, "q = Cast<to = 2>(x) m = ConvInteger(q, q, a, b) y = Cast<to = 1>(m)", "x, a, b",
        ["(x)", "(x, zero)", "(x, , zero)", "(x, zero, zero)"], [9]),
    "Conv": (10, "y = Conv(x, x, b)", "x, b", ["(x)", "(x, addend)"], [11, 22]),
    "Dropout": (13, "y = Dropout(x, r)", "x, r", ["(x)", "(x, tenth)"], [22, 10]),
    "LSTM": (14, "t = Transpose<perm = [1, 0, 2]>(x) r = Slice(w, a, b) e = Unsqueeze(r, o) s = Reshape(w, h) y = LSTM<hidden_size = 1>(t, s, q, c)",
        "x, w", [], []),
}  # fmt: skip
del CASES["LSTM"]


@pytest.mark.parametrize("case", CASES)
def test_inputs_that_calls_leave_out(case):
    opset, body, formals, calls, targets = CASES[case]
    op = case.split(",")[0]
    for given in (calls, *([call] for call in calls)):
        for target in targets:
            check(model(opset, body, formals, *given), to(target))
        verbs = [without("f::F"), opshift.optimize, opshift.fold]
        for verb in [*verbs, without(op)] if functions.defined("", op) else verbs:
            check(model(opset, body, formals, *given), verb)
