"""If, Loop, Scan, functions and sequences: what is captured, carried and called."""

import numpy as np
from onnx import ModelProto, TensorProto
from onnx.helper import make_attribute, make_tensor_type_proto

from tests.types.case import case, floats, integers, normal

YES, NO = np.array(True), np.array(False)
X = normal(2, 8)


def _say_the_type(model: ModelProto) -> None:
    empty = model.graph.node[1].attribute[1].g.node[0]
    empty.attribute.append(make_attribute("type", make_tensor_type_proto(TensorProto.FLOAT, [2, 4])))


case(
    "if_captures",  # both branches read a value from outside, and name theirs alike
    """(float[2,8] x, bool c) => (float[2,4] y)
    { h = MatMul(x, w)
      y = If (c) <then_branch = t () => (float[2,4] o) { s = Add(h, b) o = Relu(s) },
                  else_branch = e () => (float[2,4] o) { s = Mul(h, b) o = Tanh(s) }> }""",
    {"x": X, "c": YES},
    {"x": X, "c": NO},
    weights={"w": normal(8, 4, seed=1), "b": normal(4, seed=2)},
    seen=["NVIDIA/Model-Optimizer#1628", "microsoft/onnxconverter-common#260", "NVIDIA/Model-Optimizer#659"],
)
case(
    "if_weights_and_scales",  # a branch has weights of its own, and scales of Resize
    """(float[1,3,8,8] x, bool c) => (float[1,4,16,16] y)
    { r = Relu(x)
      y = If (c) <then_branch = t () => (float[1,4,16,16] o)
                    <float[4,3,1,1] v = {0.5, -0.25, 0.125, 1, 0.3, -0.7, 0.11, 0.13, 0.17, -1, 0.4, 0.6}, float[4] z = {1, 1, 2, 2}>
                    { a = Conv(r, v) o = Resize<mode="nearest">(a, , z) },
                  else_branch = e () => (float[1,4,16,16] o) { a = ConvTranspose<strides=[2,2]>(r, u) o = Sigmoid(a) }> }""",
    {"x": normal(1, 3, 8, 8), "c": YES},
    {"x": normal(1, 3, 8, 8), "c": NO},
    weights={"u": normal(3, 4, 2, 2, seed=1)},
    wide=["r"],
    seen=["NVIDIA/Model-Optimizer#1628", "microsoft/onnxruntime#20189"],
)
case(
    "if_passes_an_input",  # one branch passes a float32 input on, the other computes
    """(float[2,8] x, bool c) => (float[2,4] y)
    { g = If (c) <then_branch = t () => (float[2,8] o) { o = Identity(x) },
                  else_branch = e () => (float[2,8] o) { a = MatMul(x, w) o = Relu(a) }>
      y = MatMul(g, u) }""",
    {"x": X, "c": YES},
    {"x": X, "c": NO},
    weights={"w": normal(8, 8, seed=1), "u": normal(8, 4, seed=2)},
)
case(
    "if_large_factor",  # the logarithm of a spectrum that a branch multiplies by 2^20
    """(float[2,8] x, bool c) => (float[2,4] y)
    { h = MatMul(x, w)
      g = If (c) <then_branch = t () => (float[2,4] o)
                    { a = Relu(h) m = Mul(a, large) e = Add(m, one) o = Log(e) },
                  else_branch = e () => (float[2,4] o) { o = Tanh(h) }>
      y = MatMul(g, u) }""",
    {"x": X, "c": YES},
    {"x": X, "c": NO},
    weights={
        "w": normal(8, 4, seed=1),
        "u": normal(4, 4, seed=2),
        "large": floats(1048576),
        "one": floats(1),
    },
    wide=["m", "e", "o"],
)
case(
    "if_of_a_constant",  # a branch is only a constant
    """(float[2,8] x, bool c) => (float[2,4] y)
    { h = MatMul(x, w)
      g = If (c) <then_branch = t () => (float[2,4] o) { o = Constant<value = float[2,4] {1,2,3,4,5,6,7,8}>() },
                  else_branch = e () => (float[2,4] o) { o = Neg(h) }>
      y = Add(g, h) }""",
    {"x": X, "c": YES},
    {"x": X, "c": NO},
    weights={"w": normal(8, 4, seed=1)},
    seen=["microsoft/winml-cli#1280"],
)
case(
    "loop_state",  # a state and what is collected; the body reads two weights from outside
    """(float[2,8] x) => (float[2,4] y, float[3,2,4] all)
    { h = MatMul(x, w)
      y, all = Loop (three, , h) <body = l (int64 i, bool go, float[2,4] s) => (bool on, float[2,4] n, float[2,4] o)
        { on = Identity(go) m = MatMul(s, u) a = Add(m, h) n = Tanh(a) o = Mul(n, two) }> }""",
    {"x": X},
    weights={"w": normal(8, 4, seed=1), "u": normal(4, 4, seed=2), "two": floats(2), "three": integers(3)},
    seen=["NVIDIA/Model-Optimizer#1628"],
)
case(
    "loop_state_from_a_constant",  # the state begins as zeros that ConstantOfShape makes
    """(float[2,8] x) => (float[2,4] y)
    { h = MatMul(x, w) d = Shape(h) z = ConstantOfShape(d)
      y = Loop (three, , z) <body = l (int64 i, bool go, float[2,4] s) => (bool on, float[2,4] n)
        { on = Identity(go) m = MatMul(s, u) a = Add(m, h) n = Tanh(a) }> }""",
    {"x": X},
    weights={"w": normal(8, 4, seed=1), "u": normal(4, 4, seed=2), "three": integers(3)},
)
case(
    "loop_that_counts",  # a carried sum of floats: float16 stops at 2048
    """(float[1,8] x) => (float[1,4] y)
    { h = MatMul(x, w)
      t = Loop (many, , zero) <body = l (int64 i, bool go, float s) => (bool on, float n) { on = Identity(go) n = Add(s, one) }>
      d = Div(t, thousand) y = Mul(h, d) }""",
    {"x": normal(1, 8)},
    weights={
        "w": normal(8, 4, seed=1),
        "many": integers(5000),
        "zero": floats(0),
        "one": floats(1),
        "thousand": floats(1000),
    },
    wide=["n", "d"],
)
case(
    "loop_in_an_if",  # captured through two bodies
    """(float[2,8] x, bool c) => (float[2,4] y)
    { h = MatMul(x, w)
      y = If (c) <then_branch = t () => (float[2,4] o)
                    { o = Loop (three, , h) <body = l (int64 i, bool go, float[2,4] s) => (bool on, float[2,4] n)
                        { on = Identity(go) m = MatMul(s, u) a = Add(m, h) n = Tanh(a) }> },
                  else_branch = e () => (float[2,4] o) { o = MatMul(h, u) }> }""",
    {"x": X, "c": YES},
    {"x": X, "c": NO},
    weights={"w": normal(8, 4, seed=1), "u": normal(4, 4, seed=2), "three": integers(3)},
)
case(
    "scan",
    """(float[5,2,8] x) => (float[2,4] y, float[5,2,4] all)
    { z = ConstantOfShape<value = float[1] {0.25}>(shape)
      y, all = Scan<num_scan_inputs=1, body = l (float[2,4] s, float[2,8] e) => (float[2,4] n, float[2,4] o)
        { a = MatMul(e, w) b = MatMul(s, u) c = Add(a, b) n = Tanh(c) o = Identity(n) }> (z, x) }""",
    {"x": normal(5, 2, 8)},
    weights={"w": normal(8, 4, seed=1), "u": normal(4, 4, seed=2), "shape": integers(2, 4)},
    seen=["NVIDIA/Model-Optimizer#1628"],
)
case(
    "sequences",
    """(float[4,8] x) => (float[8,4] y)
    { h = MatMul(x, w) q = SplitToSequence<axis=0>(h, parts) e = SequenceAt(q, first) r = Relu(e)
      l = SequenceConstruct(r, h) m = SequenceInsert(l, r, first) y = ConcatFromSequence<axis=0>(m) }""",
    {"x": normal(4, 8)},
    weights={"w": normal(8, 4, seed=1), "parts": integers(2, 2), "first": integers(0)},
    seen=["microsoft/onnxconverter-common#208"],
)
case(
    "sequence_in_a_loop",  # an empty sequence is float32 unless it says otherwise
    """(float[2,8] x) => (float[6,4] y)
    { q = SequenceEmpty() h = MatMul(x, w)
      s = Loop (three, , q) <body = l (int64 i, bool go, seq(float[2,4]) s) => (bool on, seq(float[2,4]) n)
        { on = Identity(go) f = Cast<to=1>(i) a = Add(h, f) n = SequenceInsert(s, a) }>
      y = ConcatFromSequence<axis=0>(s) }""",
    {"x": X},
    weights={"w": normal(8, 4, seed=1), "three": integers(3)},
    seen=["NVIDIA/Model-Optimizer#1628"],
)
case(
    "optional",
    """(float[2,8] x) => (float[2,4] y) { h = MatMul(x, w) o = Optional(h) g = OptionalGetElement(o) y = MatMul(g, u) }""",
    {"x": X},
    weights={"w": normal(8, 4, seed=1), "u": normal(4, 4, seed=2)},
    opset=18,
)
case(
    "optional_that_is_empty",  # it says its type, as a message
    """(float[2,8] x, bool c) => (float[2,4] y)
    { h = MatMul(x, w)
      o = If (c) <then_branch = t () => (optional(float[2,4]) p) { p = Optional(h) },
                  else_branch = e () => (optional(float[2,4]) p) { p = Optional() }>
      k = OptionalHasElement(o)
      y = If (k) <then_branch = t () => (float[2,4] q) { g = OptionalGetElement(o) q = Relu(g) },
                  else_branch = e () => (float[2,4] q) { q = Tanh(h) }> }""",
    {"x": X, "c": YES},
    weights={"w": normal(8, 4, seed=1)},
    opset=18,
    change=_say_the_type,
)
case(
    "functions",  # two calls of one function, and one that it calls
    """(float[2,8] x) => (float[2,4] y) { h = own.Layer(x, w) y = own.Layer(h, u) }
    <opset_import: ["" : 17, "own" : 1], domain: "own"> Layer (a, k) => (r) { m = MatMul(a, k) r = own.Act(m) }
    <opset_import: ["" : 17], domain: "own"> Act (a) => (r)
      { c = Constant<value = float {0.1}>() l = Mul(a, c) r = Max(a, l) }""",
    {"x": X},
    weights={"w": normal(8, 4, seed=1), "u": normal(4, 4, seed=2)},
    seen=["microsoft/onnxruntime#20189"],
)
case(
    "function_of_positions",  # one call on positions above 2048, which stays float32, and one on what half holds
    """(float[3000,8] x, int64[3000] ids) => (float[3000,8] y)
    { h = MatMul(x, w) f = Cast<to=1>(ids) u = Unsqueeze(f, axes) a = Mul(u, freq) c = own.Wave(a) d = own.Wave(h) y = Mul(d, c) }
    <opset_import: ["" : 17], domain: "own"> Wave (a) => (r) { s = Sin(a) q = Mul(s, s) r = Sqrt(q) }""",
    {"x": normal(3000, 8, scale=0.3), "ids": np.arange(3000)},
    weights={
        "w": normal(8, 8, seed=1, scale=0.2),
        "axes": integers([-1]),
        "freq": (1 / 10000 ** (np.arange(8) / 8)).astype(np.float32),
    },
    wide=["u", "a", "s", "q", "r"],
)
case(
    "function_with_a_body",  # the branches in a function have weights of their own
    """(float[2,8] x, bool c) => (float[2,4] y) { h = MatMul(x, w) y = own.Choose(h, c) }
    <opset_import: ["" : 17], domain: "own"> Choose (a, c) => (r)
      { r = If (c) <then_branch = t () => (float[2,4] o) <float[4] b = {0.5, -1, 2, 0.25}> { o = Add(a, b) },
                    else_branch = e () => (float[2,4] o) <float[4] b = {1, 3, -2, 0.75}> { o = Mul(a, b) }> }""",
    {"x": X, "c": YES},
    {"x": X, "c": NO},
    weights={"w": normal(8, 4, seed=1)},
)
case(
    "function_argument_left_out",  # a call gives no upper bound
    """(float[2,8] x) => (float[2,4] y) { h = MatMul(x, w) a = own.Bound(h, low) y = own.Bound(a, low, high) }
    <opset_import: ["" : 17], domain: "own"> Bound (a, l, u) => (r) { n = Neg(a) r = Clip(n, l, u) }""",
    {"x": X},
    weights={"w": normal(8, 4, seed=1), "low": floats(-1.5), "high": floats(0.5)},
)
