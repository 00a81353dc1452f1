"""Pairs of models that a proof once told wrong, or would without care, and the verdict that is right.

Each row is two graphs in ONNX text with the same inputs. `LINES`, `FAR`, ... are grouped by what makes them hard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx.numpy_helper
import onnx.parser
from onnx import ModelProto

from tests.support import model

Array = Any
DIFFERENT, EQUAL, UNVERIFIED = "different", "equal", "unverified"
VERIFY, CONVERT = "verify", "convert"
"""Two models of any origin, or a model and what opshift made of it, in which a name is a promise."""


@dataclass(frozen=True)
class Row:
    """Two models and the verdict that is right.

    Attributes:
        name: what differs, or why nothing does.
        expected: `equal`, `different` or `unverified`.
        before, after: the nodes.
        grade: of the conversion, where it is one.
        ways: how they are compared; empty for both.
        of_any_origin: the verdict that is right for two models of any origin, where it is another: a branch that no
            input was seen to take is not proved then.
    """

    name: str
    expected: str
    before: str
    after: str
    inputs: str = "float[N,8] x"
    outputs: str = "float[N,8] y"
    constants: str = ""
    other: str | None = None
    tensors: Mapping[str, Array] = field(default_factory=dict)
    others: Mapping[str, Array] = field(default_factory=dict)
    opset: int = 17
    opset_after: int = 0
    domains: str = ""
    functions: str = ""
    grade: str = "close"
    ways: tuple[str, ...] = (VERIFY, CONVERT)
    of_any_origin: str = ""

    def models(self) -> tuple[ModelProto, ModelProto]:
        """Both models; `other` and `others` are constants of the second one, in the place of those of the first."""
        constants = self.constants if self.other is None else self.other
        return (
            self._model(self.before, self.opset, self.constants, self.tensors),
            self._model(self.after, self.opset_after or self.opset, constants, {**self.tensors, **self.others}),
        )

    def _model(self, body: str, opset: int, constants: str, tensors: Mapping[str, Array]) -> ModelProto:
        domains = self.domains or ('"local" : 1' if self.functions else "")
        made = model(body, opset, inputs=self.inputs, outputs=self.outputs, constants=constants, domains=domains)
        if self.functions:
            head = (
                f'<ir_version: 8, opset_import: ["" : {opset}, "local" : 1]> g (float x) => (float y) {{ y = Neg(x) }} '
            )
            made.functions.extend(onnx.parser.parse_model(head + self.functions).functions)
        for name, value in tensors.items():
            made.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
        return made


def _drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# --- branches that inputs rarely take ------------------------------------------------------------------------

_IF = (
    "y = If(b) <then_branch = t () => (float[A,B] v) { v = %s(x) }, else_branch = e () => (float[C,D] u) { u = %s(x) }>"
)
_RARELY = "c = Constant<value_float = 1e9>() s = ReduceSum<keepdims = 0>(x) b = Greater(s, c) "
_LARGE = "n = Shape(x) i = Constant<value_ints = [0]>() r = Gather(n, i) k = Constant<value_ints = [100]>() b = Greater(r, k) "
_NESTED = (
    _RARELY
    + """y = If(b) <
    then_branch = t () => (float[A,B] v) {
        d = Less(s, c)
        v = If(d) <then_branch = p () => (float[A,B] o) { o = %s(x) }, else_branch = q () => (float[A,B] w) { w = %s(x) }>
    },
    else_branch = e () => (float[C,D] u) { u = Neg(x) }>"""
)
_NEVER_RUNS = (
    _RARELY
    + """k = Constant<value_ints = [5, 5]>() y = If(b) <
    then_branch = t () => (float[A,B] v) { v = Reshape(x, k) }, else_branch = e () => (float[C,D] u) { u = %s(x) }>"""
)
_OPEN = {"outputs": "float[A,B] y"}
_EITHER = """<domain: "local", opset_import: ["" : 17]> Either (x) => (y) {
    c = Constant<value_float = 1e9>() s = ReduceSum<keepdims = 0>(x) b = Greater(s, c)
    y = If(b) <then_branch = t () => (float[A,B] v) { v = Relu(x) }, else_branch = e () => (float[C,D] u) { u = Neg(x) }> }
<domain: "local", opset_import: ["" : 17]> Or (x) => (y) {
    c = Constant<value_float = 1e9>() s = ReduceSum<keepdims = 0>(x) b = Greater(s, c)
    y = If(b) <then_branch = t () => (float[A,B] v) { v = Abs(x) }, else_branch = e () => (float[C,D] u) { u = Neg(x) }> }"""
_LOOP = """z = Constant<value = int64 {0}>() f = Constant<value = int64 {5000}>() g = Constant<value = bool {1}>() s = Shape(x)
    n = Gather(s, z) m = Sub(n, f) l = Loop(m, g, x) <body = r (int64 i, bool c, float[N,8] p) => (bool d, float[N,8] q) {
    d = Identity(c) q = %s(p, p) }> y = Add(l, x)"""

BRANCHES = [
    Row(
        "a branch that is rarely taken",
        DIFFERENT,
        _RARELY + _IF % ("Relu", "Neg"),
        _RARELY + _IF % ("Abs", "Neg"),
        **_OPEN,
        of_any_origin=UNVERIFIED,
    ),
    Row(
        "the branch that is taken", DIFFERENT, _RARELY + _IF % ("Relu", "Neg"), _RARELY + _IF % ("Relu", "Abs"), **_OPEN
    ),
    Row(
        "a branch for large batches",
        DIFFERENT,
        _LARGE + _IF % ("Relu", "Neg"),
        _LARGE + _IF % ("Abs", "Neg"),
        **_OPEN,
        of_any_origin=UNVERIFIED,
    ),
    Row(
        "a branch in a branch",
        DIFFERENT,
        _NESTED % ("Relu", "Neg"),
        _NESTED % ("Abs", "Neg"),
        **_OPEN,
        of_any_origin=UNVERIFIED,
    ),
    Row(
        "the other branch in a branch",
        DIFFERENT,
        _NESTED % ("Relu", "Neg"),
        _NESTED % ("Relu", "Abs"),
        **_OPEN,
    ),
    Row(
        "a branch by an input",
        DIFFERENT,
        _IF % ("Relu", "Neg"),
        _IF % ("Abs", "Neg"),
        inputs="float[N,8] x, bool b",
        **_OPEN,
    ),
    Row("beside a branch that never runs", DIFFERENT, _NEVER_RUNS % "Neg", _NEVER_RUNS % "Abs", **_OPEN),
    Row("a branch that never runs in both", EQUAL, _NEVER_RUNS % "Neg", _NEVER_RUNS % "Neg", opset_after=16, **_OPEN),
    Row(
        "a branch that fails in the second",
        DIFFERENT,
        _RARELY + _IF % ("Abs", "Neg"),
        _NEVER_RUNS % "Neg",
        **_OPEN,
    ),
    Row(
        "a branch in a function",
        DIFFERENT,
        "y = local.Either(x)",
        "y = local.Or(x)",
        functions=_EITHER,
        **_OPEN,
        of_any_origin=UNVERIFIED,
    ),
    Row(
        "branches that compute the same",
        EQUAL,
        _RARELY + _IF % ("Abs", "Neg"),
        _RARELY + (_IF % ("Abs", "Neg")).replace("v = Abs(x)", "n = Neg(x) v = Max(x, n)"),
        **_OPEN,
    ),
    Row(
        "a branch whose output had the name of another value",
        EQUAL,
        _RARELY + _IF % ("Relu", "Neg"),
        _RARELY + (_IF % ("Relu", "Neg")).replace("v) { v = Relu(x)", "w) { v = Neg(x) n = Neg(v) w = Relu(n)"),
        **_OPEN,
    ),
    Row("a Loop that rarely turns", DIFFERENT, _LOOP % "Add", _LOOP % "Mul"),
    Row(
        "a Loop that rarely turns, written otherwise",
        EQUAL,
        _LOOP % "Add",
        (_LOOP % "Add").replace("Add(p, p)", "Sum(p, p)"),
    ),
]

# --- lines at which operators decide --------------------------------------------------------------------------

_HELD = """float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}, float seven = {7}, float two = {2}, float more = {2.03}, float one = {1},
    float half = {0.5}, float zero = {0}, float minus = {-1}, float two2 = {-2}"""


def _deciding(name: str, one: str, other: str, expected: str = DIFFERENT, **more: Any) -> Row:
    """What decides is moved by the inputs, and crosses each line on ordinary inputs, but rarely meets it."""
    body = "a = Mul(x, w) b = Sin(a) n = Mul(b, seven) {} y = Add(h, x)"
    return Row(name, expected, body.format(one), body.format(other), **{"constants": _HELD, **more})


_OF_STEPS = "d = Div(n, half) m = Add(d, half) f = Floor(m) h = Mul(f, half)"
LINES = [
    _deciding("a threshold that is 3 % off", "h = ThresholdedRelu<alpha = 3.0>(n)", "h = ThresholdedRelu<alpha = 3.1>(n)"),
    _deciding("a compared bound that is 1.5 % off", "c = Less(n, two) h = Where(c, n, x)", "c = Less(n, more) h = Where(c, n, x)"),
    _deciding("LessOrEqual for Less, with a constant", "c = Less(n, two) h = Where(c, n, x)", "c = LessOrEqual(n, two) h = Where(c, n, x)"),
    _deciding("LessOrEqual for Less, with another value", "c = Less(n, x) d = Cast<to = 1>(c) h = Mul(d, n)", "c = LessOrEqual(n, x) d = Cast<to = 1>(c) h = Mul(d, n)"),
    _deciding("GreaterOrEqual for Greater, with a vector", "c = Greater(w, n) h = Where(c, n, x)", "l = LessOrEqual(w, n) c = Not(l) d = Equal(w, n) e = Or(c, d) h = Where(e, n, x)"),
    _deciding("Ceil less 1 for Floor", "h = Floor(n)", "g = Ceil(n) h = Sub(g, one)"),
    _deciding("halves of what is scaled", "m = Mul(n, two) r = Round(m) h = Mul(r, half)", "p = Mul(n, two2) q = Sub(p, half) f = Ceil(q) g = Neg(f) h = Mul(g, half)"),
    _deciding("halves of steps", "z = Constant<value = int8 {0}>() q = QuantizeLinear(n, half, z) h = DequantizeLinear(q, half, z)", _OF_STEPS),
    _deciding("Floor of half more for Round", "h = Round(n)", "g = Add(n, half) h = Floor(g)"),
    _deciding("Sign of 0", "h = Sign(n)", "c = Less(n, zero) h = Where(c, minus, one)"),
    _deciding("truth of 0", "c = Cast<to = 9>(n) h = Cast<to = 1>(c)", "c = GreaterOrEqual(n, zero) d = Less(n, zero) e = Or(c, d) h = Cast<to = 1>(e)"),
    _deciding("a Cast of whole numbers", "c = Cast<to = 6>(n) h = Cast<to = 1>(c)", "p = Abs(n) q = Ceil(p) r = Sub(q, one) s = Sign(n) h = Mul(r, s)"),
    _deciding("the first of equal maxima", "i = ArgMax<axis = -1>(n) h = Cast<to = 1>(i)", "i = ArgMax<axis = -1, select_last_index = 1>(n) h = Cast<to = 1>(i)", outputs="float[N,M] y"),
    _deciding("the line of Shrink", "h = Shrink<lambd = 2.0>(n)", "l = Greater(n, two) m = Less(n, two2) k = Or(l, m) f = Abs(n) g = Equal(f, two) j = Or(k, g) h = Where(j, n, zero)"),
    _deciding("Where of Less, as Not of its reverse", "c = LessOrEqual(n, x) h = Where(c, n, x)", "g = Less(x, n) c = Not(g) h = Where(c, n, x)", EQUAL),
    _deciding("Round between copies", "h = Round(n)", "i = Identity(n) j = Round(i) h = Identity(j)", EQUAL),
    _deciding("Less, as Greater the other way", "c = Less(n, two) h = Where(c, n, x)", "c = Greater(two, n) h = Where(c, n, x)", EQUAL),
    _deciding("Floor of what is not negative, as a Cast", "t = Abs(n) c = Cast<to = 6>(t) h = Cast<to = 1>(c)", "t = Abs(n) h = Floor(t)", EQUAL),
    _deciding("Floor, as Ceil of the negative", "h = Floor(n)", "m = Neg(n) k = Ceil(m) h = Neg(k)", EQUAL),
    Row("LessOrEqual for Less in float16", DIFFERENT, "s = Sin(x) c = Less(s, x) y = Where(c, s, z)", "s = Sin(x) c = LessOrEqual(s, x) y = Where(c, s, z)",
        inputs="float16[N,8] x", outputs="float16[N,8] y", constants="float16 z = {16384}"),
    Row("a threshold in float16", DIFFERENT, "a = Neg(x) y = ThresholdedRelu<alpha = 6e4>(a)", "a = Neg(x) y = ThresholdedRelu<alpha = 3e4>(a)", inputs="float16[N,8] x", outputs="float16[N,8] y"),
    Row("a threshold beyond float16", EQUAL, "a = Neg(x) y = ThresholdedRelu<alpha = 1e6>(a)", "a = Neg(x) y = ThresholdedRelu<alpha = 5e5>(a)", inputs="float16[N,8] x", outputs="float16[N,8] y"),
]  # fmt: skip

# --- numbers that inputs rarely lead to ------------------------------------------------------------------------

_FAR = "float k = {-1e6}, float t = {1e5}, float t2 = {9e4}, float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[8] v = {8, 7, 6, 5, 4, 3, 2, 1}"
_CELL = "e = Unsqueeze(x, first) p, h, a = LSTM<hidden_size = 1>(e, v4, v1) b = Clip(a, k, %s) c = ReduceMax(b) y = Add(c, x)"
_CELLS = {"v4": np.ones((1, 4, 8), np.float32), "v1": np.ones((1, 4, 1), np.float32), "first": np.array([0])}
_QUANTIZED = "q = QuantizeLinear(x, s, z) h = Clip(q, lo, hi) d = DequantizeLinear(h, s, z) y = Add(d, x)"
_ENDS = {"s": np.float32(1), "z": np.uint8(100), "lo": np.uint8(0), "hi": np.uint8(255)}

FAR = [
    Row("a Relu that is 0 beside a residual", DIFFERENT, "a = Mul(x, w) b = Add(a, k) c = Relu(b) d = Mul(c, v) y = Add(d, x)", "a = Mul(x, w) b = Add(a, k) c = Relu(b) d = Mul(c, w) y = Add(d, x)", constants=_FAR),
    Row("an upper bound that few reach", DIFFERENT, "a = Mul(x, w) c = Clip(a, k, t) y = Add(c, x)", "a = Mul(x, w) c = Clip(a, k, t2) y = Add(c, x)", constants=_FAR),
    Row("an upper bound that only the second has", DIFFERENT, "y = Identity(x)", "y = Min(x, t)", constants=_FAR),
    Row("the side of a condition that few take", DIFFERENT, "c = Greater(x, t) d = Sin(x) e = Neg(x) y = Where(c, d, e)", "c = Greater(x, t) d = Cos(x) e = Neg(x) y = Where(c, d, e)", constants=_FAR),
    Row("a Sigmoid that is 0", DIFFERENT, "a = Mul(x, w) b = Add(a, k) c = Sigmoid(b) d = Mul(c, v) y = Add(d, x)", "a = Mul(x, w) b = Add(a, k) c = Sigmoid(b) d = Mul(c, w) y = Add(d, x)", constants=_FAR),
    Row("a bound that a cell of one turn never reaches", EQUAL, _CELL % "t", _CELL % "t2", constants=_FAR, tensors=_CELLS),
    Row("the least of quantized values", DIFFERENT, _QUANTIZED, _QUANTIZED, tensors=_ENDS, others={"lo": np.uint8(20)}),
    Row("a HardSwish that is written out", EQUAL, "a = Mul(x, small) b = Add(a, three) c = Clip(b, n, six) d = Mul(a, c) h = Div(d, six) y = Add(h, x)", "a = Mul(x, small) h = HardSwish(a) y = Add(h, x)",
        constants="float small = {0.01}, float three = {3}, float six = {6}, float n = {0}"),
    Row("a HardSwish of another value", DIFFERENT, "a = Mul(x, small) f = LeakyRelu<alpha = 0.9>(a) b = Add(a, three) c = Clip(b, n, six) d = Mul(a, c) h = Div(d, six) y = Add(h, x)", "a = Mul(x, small) f = LeakyRelu<alpha = 0.9>(a) h = HardSwish(f) y = Add(h, x)",
        constants="float small = {0.01}, float three = {3}, float six = {6}, float n = {0}"),
    Row("a HardSigmoid that is written out", EQUAL, "a = Mul(x, small) b = Mul(a, sixth) e = Add(b, half) h = Clip(e, n, o) y = Add(h, x)", "a = Mul(x, small) h = HardSigmoid<alpha = 0.16666667>(a) y = Add(h, x)",
        constants="float small = {0.01}, float sixth = {0.16666667}, float half = {0.5}, float n = {0}, float o = {1}"),
    Row("a name that means the negative", EQUAL, "t = Atan(x) v = Sub(t, k) s = Sigmoid(v) y = Add(s, x)", "t = Atan(x) v = Sub(k, t) u = Neg(v) s = Sigmoid(u) y = Add(s, x)", constants="float k = {60}", ways=(VERIFY,)),
    Row("a difference computed twice", EQUAL, "t = Atan(x) a = Sub(t, k) b = Relu(a) c = Neg(a) y = Add(b, c)", "t = Atan(x) a = Sub(t, k) b = Relu(a) c = Sub(k, t) y = Add(b, c)", constants="float k = {1e4}"),
    Row("Abs of a square root", EQUAL, "p = Abs(x) a = Sqrt(p) b = Abs(a) y = Add(b, x)", "p = Abs(x) a = Sqrt(p) b = Identity(a) y = Add(b, x)"),
    Row("Relu of a square", EQUAL, "a = Mul(x, x) b = Relu(a) y = Add(b, x)", "a = Mul(x, x) b = Identity(a) y = Add(b, x)"),
    Row("Clip of Softmax to 0 and 1", EQUAL, "a = Softmax(x) b = Clip(a, n, o) y = Add(b, x)", "a = Softmax(x) b = Identity(a) y = Add(b, x)", constants="float n = {0}, float o = {1}"),
    Row("Relu of a transposed Relu", EQUAL, "a = Relu(x) p = Transpose(a) b = Relu(p) y = Transpose(b)", "y = Relu(x)"),
    Row("negative numbers behind a sum", DIFFERENT, "h = Mul(x, k) n = LeakyRelu<alpha = 0.01>(h) y = Neg(n)", "h = Mul(x, k) n = LeakyRelu<alpha = 0.0103>(h) y = Neg(n)",
        inputs="float16[N,8] x", outputs="float16[N,8] y", constants="float16[1] k = {17408}"),
    Row("an epsilon in float16", DIFFERENT, "h = Mul(x, k) n = LayerNormalization(h, w) y = Neg(n)", "h = Mul(x, k) n = LayerNormalization<epsilon = 0.001>(h, w) y = Neg(n)",
        inputs="float16[N,8] x", outputs="float16[N,8] y", constants="float16[1] k = {17408}", tensors={"w": np.ones(8, np.float16)}),
    Row("a LeakyRelu in float16 that is written out", EQUAL, "y = LeakyRelu<alpha = 0.01>(x)", "z = Sub(x, x) s = Min(x, z) p = Max(x, z) t = Mul(s, c) y = Add(p, t)",
        inputs="float16[N,8] x", outputs="float16[N,8] y", constants="float16[1] c = {8479}"),
    Row("a LayerNormalization in float16 that is written out", EQUAL, "y = LayerNormalization<epsilon = 0.00001>(x, w)",
        "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes = [-1]>(q) g = Add(v, e) s = Sqrt(g) n = Div(d, s) y = Mul(n, w)",
        inputs="float16[N,8] x", outputs="float16[N,8] y", constants="float16[1] e = {168}", tensors={"w": np.ones(8, np.float16)}),
]  # fmt: skip

# --- special numbers and sizes ---------------------------------------------------------------------------------

_NAN = {"before": "y = Relu(x)", "after": "m = Greater(x, z) y = Where(m, x, z)", "constants": "float z = {0}"}
_ROW = {"inputs": "float[N,3] x", "outputs": "float[N,1] y"}

SPECIAL = [
    Row("infinity for the lowest number where scores are masked", EQUAL, "a = Where(m, x, low) y = Softmax(a)", "a = Where(m, x, low) y = Softmax(a)", inputs="float[N,8] x, bool[N,8] m", tensors={"low": np.finfo(np.float32).min}, others={"low": np.float32(-np.inf)}, ways=(CONVERT,)),
    Row("Relu, as Max with 0", EQUAL, "y = Relu(x)", "y = Max(x, z)", constants="float z = {0}", grade="exact"),
    Row("NaN, where all is exact", DIFFERENT, **_NAN, grade="exact", ways=(CONVERT,)),
    Row("NaN, where changes are close", EQUAL, **_NAN),
    Row("a bound beyond all but infinities", DIFFERENT, "y = Identity(x)", "y = Clip(x, l, h)", constants="float l = {-1e30}, float h = {1e30}", grade="exact", ways=(CONVERT,)),
    Row("an overflow on the way", DIFFERENT, "y = Identity(x)", "a = Mul(x, t) y = Mul(a, s)", constants="float t = {256}, float s = {0.00390625}", grade="exact", ways=(CONVERT,)),
    Row("what is added to denormals", DIFFERENT, "y = Reciprocal(x)", "a = Add(x, s) y = Reciprocal(a)", constants="float s = {1e-37}", grade="exact", ways=(CONVERT,)),
    Row("infinity times 0", DIFFERENT, "u = Add(x, v) a = Mul(u, w) y = Neg(a)", "u = Add(x, v) s = Shape(u) a = Expand(w, s) y = Neg(a)",
        constants="float[8] w = {0, 0, 0, 0, 0, 0, 0, 0}, float[8] v = {1, 2, 3, 4, 5, 6, 7, 8}", grade="exact", ways=(CONVERT,)),
    Row("NaN in one of two", DIFFERENT, "y = Max(x, z)", "c = Greater(x, z) y = Where(c, x, z)", inputs="float[N,8] x, float[N,8] z", grade="exact", ways=(CONVERT,)),
    Row("no samples", DIFFERENT, "y = Identity(x)", "y = Reshape(x, s)", constants="int64[2] s = {0, -1}", grade="exact", ways=(VERIFY,)),
    Row("int64 by way of double", DIFFERENT, "y = Identity(x)", "f = Cast<to = 11>(x) y = Cast<to = 7>(f)", inputs="int64[N] x", outputs="int64[N] y", grade="exact"),
    Row("extremes that tell sizes", EQUAL, "a = Abs(s) y = ConstantOfShape(a) z = Neg(k)", "a = Abs(s) y = ConstantOfShape(a) n = Abs(k) m = Sign(k) p = Mul(n, m) z = Neg(p)", inputs="int64[2] s, int64[2] k", outputs="float[N,M] y, int64[2] z"),
    Row("a window that does not fit everywhere", EQUAL, "y = MaxPool<kernel_shape = [3]>(x)", "y = MaxPool<kernel_shape = [3]>(x)", inputs="float[1,1,W] x", outputs="float[1,1,V] y", opset_after=11),
    Row("an overflow in float16", DIFFERENT, "m = ReduceMax(x) y = Mul(m, k)", "t = Mul(x, k) u = Mul(t, k) v = ReduceMax(u) y = Div(v, k)", inputs="float16[8] x", outputs="float16[1] y", tensors={"k": np.float16(300)}),
    Row("a size that stands in the second", DIFFERENT, "y = Relu(x)", "r = Relu(x) y = Reshape(r, s)", inputs="float[N,3] x", outputs="float[A,B] y", constants="int64[2] s = {3, 3}"),
    Row("a shape without its last axis", DIFFERENT, "a = Mul(x, w) b = Sin(a) y = Add(b, x)", "a = Mul(x, w) b = Sin(a) s = Shape(x) t = Slice(s, k, l) z = Add(b, x) y = Reshape(z, t)",
        outputs="y", constants="float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}, int64[1] k = {0}, int64[1] l = {1}"),
    Row("infinities in kernels of two engines", EQUAL, "y = AveragePool<kernel_shape = [2]>(x)", "y = AveragePool<kernel_shape = [2]>(x)", inputs="float[2,3,6] x", outputs="float[2,3,5] y", opset=6, opset_after=7, grade="exact", ways=(CONVERT,)),
    Row("infinities beside numbers whose sum overflows", EQUAL, "y = AveragePool<kernel_shape = [3, 2], strides = [3, 2]>(x)", "y = AveragePool<kernel_shape = [3, 2], strides = [3, 2]>(x)", inputs="float[2,24,12,24] x", outputs="float[2,24,4,12] y", opset=12, opset_after=21, grade="exact", ways=(CONVERT,)),
    Row("a slice whose ends are attributes", EQUAL, "a = Slice<axes = [1], starts = [1], ends = [3]>(x) y = Neg(a)", "a = Slice(x, s, e, k) y = Neg(a)", outputs="float[N,2] y", opset=9, opset_after=13, other="int64[1] s = {1}, int64[1] e = {3}, int64[1] k = {1}", grade="exact", ways=(CONVERT,)),
    Row("Softmax at 12 stamped 13", DIFFERENT, "y = Softmax(x)", "y = Softmax(x)", inputs="float[2,3,4] x", outputs="float[2,3,4] y", opset=12, opset_after=13),
    Row("the axes of ReduceMax move to an input", EQUAL, "y = ReduceMax<axes = [1]>(x)", "y = ReduceMax(x, a)", opset=13, opset_after=18, other="int64[1] a = {1}", grade="exact", **_ROW),
    Row("a largest element for a least one", DIFFERENT, "y = ReduceMax<axes = [1]>(x)", "y = ReduceMin(x, a)", opset=13, opset_after=18, other="int64[1] a = {1}", **_ROW),
    Row("another type", DIFFERENT, "y = Cast<to = 1>(x)", "y = Cast<to = 11>(x)", outputs="y"),
]  # fmt: skip

# --- rounding, in any precision ---------------------------------------------------------------------------------

_TINY = "v = Sub(x, s) y = Sigmoid(v)"
_FORMULA = "v = Sub(s, x) e = Exp(v) o = Constant<value_float = 1.0>() d = Add(e, o) y = Reciprocal(d)"
_SHIFT = {"s": np.full(8, 17.46, np.float32)}
_TIE = "a, b, c = Split<axis = 1>(x, n) p = Add(%s) u = Add(p, %s) w = Add(a, b) v = Add(w, c) t = Concat<axis = 1>(u, v) y = ArgMax<axis = 1, keepdims = 0>(t) i = Cast<to = 1>(y) s = ReduceMax<axes = [1], keepdims = 0>(t) z = Mul(i, s)"
_TIES = {
    "inputs": "float[16,3] x",
    "outputs": "int64[16] y, float[16] z",
    "constants": "int64[3] n = {1, 1, 1}",
    "opset": 13,
}
_SUMS = "a = Add(x, u) b = Add(a, v) r = Round(b) n = Mul(r, t) c = Add(n, h) q = Round(c) y = Mul(q, t)"
_OTHERWISE = "a = Add(u, v) b = Add(x, a) r = Round(b) n = Mul(r, t) c = Add(n, h) q = Round(c) y = Mul(q, t)"
_SUMMED = {
    "constants": "float[1] u = {0.1}, float[1] v = {0.3}, float t = {3}, float h = {0.25}, float w = {0.65}, float k = {1.25}"
}
_IN_FLOAT16 = {"inputs": "float16[3,4] x", "outputs": "float16[3,4] y", "opset": 18}

ROUNDING = [
    Row("a sum in another order", EQUAL, "s = Add(x, u) y = Add(s, v)", "t = Add(u, v) y = Add(x, t)", inputs="float[64] x, float[64] u, float[64] v", outputs="float[64] y", grade="exact"),
    Row("a quotient, as a product", EQUAL, "t = Mul(x, k) y = Exp(t)", "t = Div(x, q) y = Exp(t)", constants="float k = {0.3}, float q = {3.3333333}"),
    Row("a product that is 0.1 % off", DIFFERENT, "t = Mul(x, k) y = Exp(t)", "t = Div(x, q) y = Exp(t)", constants="float k = {0.3}, float q = {3.33}"),
    Row("weights squared and divided again", EQUAL, "a = Mul(x, w) b = Sin(a) y = Add(b, x)", "t = Mul(w, w) u = Mul(x, t) a = Div(u, w) b = Sin(a) y = Add(b, x)", constants="float[8] w = {0.5, 2, -1, 3, 4, 5, 6, 7}"),
    Row("magnitude times sign", EQUAL, "b = Sin(x) y = Add(b, x)", "b = Sin(x) c = Abs(b) d = Sign(b) e = Mul(c, d) y = Add(e, x)", grade="exact"),
    Row("a function for another one", DIFFERENT, "a = Mul(x, x) b = Sin(a) y = Add(b, x)", "a = Mul(x, x) b = Cos(a) y = Add(b, x)"),
    Row("a small addend before Exp", DIFFERENT, "a = Exp(x) b = Mul(a, k) y = Neg(b)", "a = Exp(x) c = Add(a, t) b = Mul(c, k) y = Neg(b)", constants="float k = {1}, float t = {1e-4}"),
    Row("float16 in wider casts", EQUAL, "t = Exp(x) y = Sin(t)", "a = Cast<to = 1>(x) b = Exp(a) t = Cast<to = 10>(b) c = Cast<to = 1>(t) d = Sin(c) y = Cast<to = 10>(d)", **_IN_FLOAT16),
    Row("rounding to float16 on purpose", DIFFERENT, "h = Cast<to = 10>(x) t = Cast<to = 1>(h) y = Mul(t, t)", "t = Identity(x) y = Mul(t, t)"),
    Row("rounding to float16 that was not asked for", DIFFERENT, "t = Identity(x) y = Mul(t, t)", "h = Cast<to = 10>(x) t = Cast<to = 1>(h) y = Mul(t, t)"),
    Row("float16 weights that change places", EQUAL, "t = Mul(x, w) y = Mul(t, v)", "t = Mul(x, v) y = Mul(t, w)", inputs="float16[64] x", outputs="float16[64] y", tensors={"w": np.float16([0.3]), "v": np.float16([0.7])}, ways=(VERIFY,)),
    Row("float16 weights that are 7 % off", DIFFERENT, "t = Mul(x, w) y = Mul(t, v)", "t = Mul(x, w) y = Mul(t, v)", inputs="float16[64] x", outputs="float16[64] y", tensors={"w": np.float16([0.3]), "v": np.float16([0.7])}, others={"v": np.float16([0.75])}),
    Row("small elements beside a huge one", DIFFERENT, "t = Mul(x, k) y = Sub(t, x)", "t = Mul(x, k) y = Sub(t, x)", constants="float[8] k = {1e7, 2, 2, 2, 2, 2, 2, 2}", other="float[8] k = {1e7, 2.5, 2, 2, 2, 2, 2, 2}"),
    Row("a saturated Sigmoid", EQUAL, "t = Mul(x, k) u = Sub(t, c) y = Sigmoid(u)", "t = Mul(x, k) u = Add(t, d) y = Sigmoid(u)", constants="float k = {0.3}, float c = {17.3}, float d = {-17.3}", grade="exact"),
    Row("a Sigmoid that engines make 0", EQUAL, _TINY, _FORMULA, tensors={"s": np.full(8, 60, np.float32)}, ways=(VERIFY,)),
    Row("a tiny Sigmoid, doubled", DIFFERENT, _TINY, "v = Sub(x, s) t = Sigmoid(v) y = Add(t, t)", tensors=_SHIFT),
    Row("a tiny Sigmoid of the negative", DIFFERENT, _TINY, "v = Sub(s, x) y = Sigmoid(v)", tensors=_SHIFT, ways=(VERIFY,)),
    Row("a tiny Sigmoid, shifted twice", DIFFERENT, _TINY, "v = Sub(x, s) w = Sub(v, s) y = Sigmoid(w)", tensors=_SHIFT),
    Row("a tiny Sigmoid that is 0", DIFFERENT, _TINY, "v = Sub(x, s) t = Sigmoid(v) y = Sub(t, t)", tensors=_SHIFT),
    Row("the largest of sums in another order", EQUAL, _TIE % ("a, b", "c"), _TIE % ("b, c", "a"), **_TIES, ways=(VERIFY,)),
    Row("the largest of other sums", DIFFERENT, _TIE % ("b, c", "a"), (_TIE % ("b, c", "a")).replace("Concat<axis = 1>(u, v)", "Concat<axis = 1>(v, w)"), **_TIES),
    Row("Round of sums in another order", EQUAL, _SUMS, _OTHERWISE, **_SUMMED, ways=(VERIFY,)),
    Row("a bias behind a tie", DIFFERENT, _SUMS, _OTHERWISE.replace("Add(n, h)", "Add(n, w)"), **_SUMMED),
    Row("a factor behind a tie", DIFFERENT, _SUMS, _OTHERWISE.replace("c = Add(n, h) q = Round(c)", "c = Add(n, h) d = Mul(c, k) q = Round(d)"), **_SUMMED),
    Row("Round of something else", DIFFERENT, _SUMS, _SUMS.replace("Round(b)", "Round(x)"), **_SUMMED),
    Row("a difference that Relu hides on one way", DIFFERENT, "a = Neg(x) r = Relu(a) b = Mul(a, x) y = Add(r, b)", "n = Neg(x) a = Mul(n, two) r = Relu(n) b = Mul(a, x) y = Add(r, b)", constants="float two = {2}"),
    Row("one weight", DIFFERENT, "a = Cos(x) b = Mul(a, w) y = Add(b, w)", "a = Cos(x) b = Mul(a, w) y = Add(b, w)", constants="float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}", other="float[8] w = {1, 2, 3, 4, 5, 6, 7, 8.1}"),
    Row("a constant node", DIFFERENT, "c = Constant<value_float = 1.0>() y = Add(x, c)", "c = Constant<value_float = 2.0>() y = Add(x, c)"),
    Row("the same names in another order", DIFFERENT, "a = Cos(x) t = Sin(a)", "t = Tanh(x) a = Exp(t)", outputs="float[N,8] t, float[N,8] a"),
    Row("a constant that is folded", EQUAL, "a = Mul(w, v) y = Mul(x, a)", "y = Mul(x, a)", constants="float[8] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}, float v = {0.3}", others={"a": np.float32([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]) * np.float32(0.3)}),
    Row("sums that cancel", EQUAL, "a = Add(x, k) b = Sub(a, k) y = Sub(b, x)", "a = Add(k, x) c = Neg(k) b = Add(a, c) d = Neg(x) y = Add(d, b)", constants="float k = {1000}"),
]  # fmt: skip

# --- quantized models -----------------------------------------------------------------------------------------

_SCALES = "float s = {0.25}, float t = {1.0}, uint8 z = {10}, uint8 o = {11}"
_BYTES = {
    "inputs": "uint8[40,8] x, float[8,4] w",
    "outputs": "float[40,4] y",
    "domains": '"com.microsoft" : 1',
    "constants": _SCALES,
}


def _added(adds: str = "f = Add(d, d)", layer: str = "h = MatMul(a, w) y = Relu(h)") -> str:
    """x + x in steps of half of the result's, so that half of the sums lie in the middle, and a layer behind it."""
    return f"d = DequantizeLinear(x, s, z) {adds} q = QuantizeLinear(f, t, z) a = DequantizeLinear(q, t, z) {layer}"


def _fused(scale: str = "t", zero: str = "z", layer: str = "h = MatMul(a, w) y = Relu(h)") -> str:
    return f"q = com.microsoft.QLinearAdd(x, s, z, x, s, z, {scale}, {zero}) a = DequantizeLinear(q, t, z) {layer}"


_SHIFTED = "g = Add(d, d) e = Constant<value_float = {}>() f = Add(g, e)"
_CONV = """q = QuantizeLinear(x, sx, z) d = DequantizeLinear(q, sx, z) w = DequantizeLinear(v, sw, zw) b = DequantizeLinear(a, sb)
    c = Conv<pads = [1, 1, 1, 1]>(d, w, b) p = QuantizeLinear(c, sp, z) e = DequantizeLinear(p, sp, z)
    k = AveragePool<kernel_shape = [2, 2]>(e) r = QuantizeLinear(k, sr, z) y = DequantizeLinear(r, sr, z)"""
_QLINEAR = """q = QuantizeLinear(x, sx, z) p = QLinearConv<pads = [1, 1, 1, 1]>(q, sx, z, v, sw, zw, sp, z, a)
    e = DequantizeLinear(p, sp, z) r = com.microsoft.QLinearAveragePool<kernel_shape = [2, 2]>(p, sp, z, sr, z)
    y = DequantizeLinear(r, sr, z)"""


def _convolution(zero: Any, bias: int = 0, scale: float = 1.0) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    biases = rng.integers(-300, 300, 4) + np.array([0, bias, 0, 0])
    scales = {"sx": 0.02, "sw": 0.005, "sb": np.float32(0.02) * np.float32(0.005), "sp": 0.04 * scale, "sr": 0.08}
    values = {"v": rng.integers(-60, 61, (4, 4, 3, 3)).astype(np.int8), "a": biases.astype(np.int32), "z": zero}
    return {**values, "zw": np.int8(0), **{name: np.float32(value) for name, value in scales.items()}}


_IMAGES = {"inputs": "float[1,4,16,16] x", "outputs": "float[1,4,15,15] y", "domains": '"com.microsoft" : 1'}
_U8, _I8 = {"tensors": _convolution(np.uint8(120))}, {"tensors": _convolution(np.int8(-8))}


def _layers(bias: float, count: int = 12, width: int = 32) -> tuple[str, dict[str, Array]]:
    """Layers that quantize what they are given by its own extremes, so that ties in one move all that follow."""
    rng = np.random.default_rng(0)
    body, last, held = "", "x", {"e": np.float32(0.01)}
    for k in range(count):
        held[f"w{k}"] = rng.integers(-127, 128, (width, width)).astype(np.int8)
        held[f"b{k}"] = (rng.standard_normal(width) * (bias if k == count - 2 else 1)).astype(np.float32)
        body += f"q{k}, s{k}, z{k} = DynamicQuantizeLinear({last}) i{k} = MatMulInteger(q{k}, w{k}, z{k}) "
        body += f"f{k} = Cast<to = 1>(i{k}) g{k} = Mul(f{k}, s{k}) m{k} = Mul(g{k}, e) p{k} = Add(m{k}, b{k}) l{k} = Tanh(p{k}) "
        last = f"l{k}"
    return f"{body}y = Relu({last})", held


_LAYERS, _BIASES = _layers(1.0)

QUANTIZED = [
    Row("a step that nobody would choose", EQUAL, "y = QuantizeLinear(x, s, z)", "d = Div(x, s) r = Round(d) c = Cast<to = 1>(z) a = Add(r, c) b = Clip(a, lo, hi) y = Cast<to = 5>(b)",
        inputs="float[16] x, float s, int16 z", outputs="int16[16] y", constants="float lo = {-32768}, float hi = {32767}", opset=21),
    Row("a range that is measured, written out", EQUAL, "q, s, z = DynamicQuantizeLinear(x) c = Cast<to = 1>(q) y = Mul(c, s)",
        """lo = ReduceMin<keepdims = 0>(x) l = Min(lo, n) hi = ReduceMax<keepdims = 0>(x) h = Max(hi, n) r = Sub(h, l) s = Div(r, k)
        p = Greater(s, n) f = Not(p) o = Cast<to = 1>(f) d = Add(s, o) m = Sub(n, l) z = QuantizeLinear(m, d) q = QuantizeLinear(x, d, z)
        c = Cast<to = 1>(q) y = Mul(c, s)""", constants="float n = {0}, float k = {255}", grade="exact"),
    Row("sums in the middle of a step", EQUAL, _added(), _fused(), **_BYTES),
    Row("an addend that is nothing beside rounding", EQUAL, _added(_SHIFTED.format(1e-6)), _fused(), **_BYTES),
    Row("an addend of a fifth of a step", DIFFERENT, _added(_SHIFTED.format(0.2)), _fused(), **_BYTES),
    Row("an addend of a thousandth of a step, on ties", DIFFERENT, _added(_SHIFTED.format(0.001)), _fused(), **_BYTES),
    Row("another zero point", DIFFERENT, _added(), _fused(zero="o"), **_BYTES),
    Row("another scale", DIFFERENT, _added(), _fused(scale="s"), **_BYTES),
    Row("another function behind what is quantized", DIFFERENT, _added(), _fused(layer="h = MatMul(a, w) y = Abs(h)"), **_BYTES),
    Row("a fused convolution of uint8", EQUAL, _CONV, _QLINEAR, **_IMAGES, **_U8),
    Row("a fused convolution of int8", EQUAL, _CONV, _QLINEAR, **_IMAGES, **_I8),
    Row("a fused convolution of uint8 with a bias that is off in one channel", DIFFERENT, _CONV, _QLINEAR, **_IMAGES, **_U8, others=_convolution(np.uint8(120), bias=250)),
    Row("the same by a sixteenth of a step", DIFFERENT, _CONV, _QLINEAR, **_IMAGES, **_U8, others=_convolution(np.uint8(120), bias=25)),
    Row("the bias of a channel, not fused", DIFFERENT, _CONV, _CONV, **_IMAGES, **_U8, others=_convolution(np.uint8(120), bias=25)),
    Row("a scale that is 0.2 % off", DIFFERENT, _CONV, _QLINEAR, **_IMAGES, **_I8, others=_convolution(np.int8(-8), scale=1.002)),
    Row("a bias between layers that quantize by their extremes", DIFFERENT, _LAYERS, _LAYERS, inputs="float[48,32] x", outputs="y", tensors=_BIASES, others=_layers(0.0)[1]),
]  # fmt: skip

# --- random generators -----------------------------------------------------------------------------------------

_GENERATED = {
    "inputs": "float[40,30] x",
    "outputs": "float[40,30] y",
    "constants": "float r = {0.5}, bool t = {1}",
    "opset": 15,
}
_DROPPED = "d, m = Dropout<seed = %s>(x, r, t) y = %s(d)"
_NORMAL = "d = RandomNormalLike<seed = %s>(x) y = %s(d)"
_COIN = "p = Sigmoid(x) d = Bernoulli<seed = %s>(p) y = %s(d)"
_BRANCH = """c = ReduceMax<keepdims = 0>(x) b = Cast<to = 9>(c) y = If(b) <
    then_branch = t () => (float[40,30] v) { d = RandomNormalLike<seed = %s>(x) v = Neg(d) },
    else_branch = e () => (float[40,30] u) { u = RandomNormalLike(x) }>"""

RANDOM = [
    Row("another seed of RandomNormalLike", EQUAL, _NORMAL % ("1.5", "Neg"), _NORMAL % ("2.5", "Neg"), **_GENERATED),
    Row("another seed of Bernoulli", EQUAL, _COIN % ("1.5", "Neg"), _COIN % ("2.5", "Neg"), **_GENERATED),
    Row("another seed of Dropout", EQUAL, _DROPPED % ("1", "Neg"), _DROPPED % ("2", "Neg"), **_GENERATED),
    Row("what lies behind RandomNormalLike", DIFFERENT, _NORMAL % ("1.5", "Neg"), _NORMAL % ("2.5", "Abs"), **_GENERATED),
    Row("what lies behind Bernoulli", DIFFERENT, _COIN % ("1.5", "Neg"), _COIN % ("2.5", "Abs"), **_GENERATED),
    Row("what lies behind Dropout", DIFFERENT, _DROPPED % ("1", "Neg"), _DROPPED % ("2", "Abs"), **_GENERATED),
    Row("what lies before a generator", DIFFERENT, "n = Neg(x) p = Sigmoid(x) y = Bernoulli<seed = 1.5>(p)", "n = Neg(x) p = Sigmoid(n) y = Bernoulli<seed = 2.5>(p)", **_GENERATED),
    Row("the same seed and another operator", DIFFERENT, "r0 = RandomUniformLike<seed = 1.0>(x) y = Add(r0, x)", "r0 = RandomUniformLike<seed = 1.0>(x) y = Sub(r0, x)", **_GENERATED),
    Row("twice as much is drawn", DIFFERENT, "y = RandomNormalLike(x)", "t = Concat<axis = 0>(x, x) y = RandomNormalLike(t)", inputs="float[4] x", outputs="float[N] y"),
    Row("another distribution", DIFFERENT, "y = RandomNormalLike(x)", "y = RandomUniformLike(x)", **_GENERATED),
    Row("the deviation of a distribution", DIFFERENT, "y = RandomNormalLike(x)", "y = RandomNormalLike<scale = 3.0>(x)", **_GENERATED),
    Row("a generator in a branch", EQUAL, _BRANCH % "1.5", _BRANCH % "2.5", **_GENERATED),
    Row("Bernoulli, written out as its text has it", EQUAL, "p = Sigmoid(x) y = Bernoulli(p)", "p = Sigmoid(x) u = RandomUniformLike(p) l = Greater(u, p) y = Cast<to = 1>(l)", **_GENERATED),
    Row("Bernoulli, written out the other way", DIFFERENT, "h = Add(x, x) p = Sigmoid(h) y = Bernoulli(p)", "h = Add(x, x) p = Sigmoid(h) u = RandomUniformLike(p) l = Less(u, p) y = Cast<to = 1>(l)", **{**_GENERATED, "inputs": "float[40,30] z", "constants": "float[40,30] x = {" + ", ".join(["1.5"] * 1200) + "}"}),
]  # fmt: skip

# --- tables, states, bodies and what else has a place ------------------------------------------------------------

_TABLE = _drawn(1000, 8, seed=1)
_ONE_ROW = _TABLE.copy()
_ONE_ROW[771] += 1
_IDS = {"inputs": "int64[N] x", "outputs": "float[N,8] y"}
_POSITIONS = "s = Shape(x) z = Constant<value_int = 0>() o = Constant<value_int = 1>() n = Gather(s, z) p = Range(z, n, o) e = Gather(%s, p) y = Add(x, e)"
_KEYED = "y = ai.onnx.ml.LabelEncoder<keys_int64s = [100, 20000], values_floats = [1.0, %s]>(x)"
_BOXES = "y = NonMaxSuppression(b, s, k, i)"
_SCORED = "m = ReduceMax<axes = [1], keepdims = 0>(x) g = Greater(m, t) y = NonZero(g)"
_SCAN = "s, y = Scan<num_scan_inputs = 1, body = b (float[4] v, float[4] e) => (float[4] w, float[4] o) { w = %s(v, e) o = Identity(w) }>(z, x)"
_TURNS = "y, t = Loop(n, , x) <body = b (int64 i, bool c, float[N,8] v) => (bool d, float[N,8] w, float[N,8] u) { d = Identity(c) w = %s(v) u = Sin(v) }>"
_LOCAL = """<domain: "local", opset_import: ["" : 17]> F <alpha>(v) => (w) { e = LeakyRelu<alpha: float = @alpha>(v) w = Add(e, v) }
<domain: "local", opset_import: ["" : 17]> G <alpha>(v) => (w) { e = LeakyRelu<alpha: float = @alpha>(v) w = Add(v, e) }
<domain: "local", opset_import: ["" : 17]> H <alpha>(v) => (w) { e = Elu<alpha: float = @alpha>(v) w = Add(v, e) }"""
_SCANNED = {"inputs": "float[L,4] x", "outputs": "float[M,4] y", "constants": "float[4] z = {0, 0, 0, 0}"}
_TURNED = {"outputs": "float[N,8] y, float[T,A,B] t", "constants": "int64 n = {3}"}
_MASKED = "m = Cast<to = 1>(mask) o = Sub(one, m) f = Mul(o, low) s = Add(x, f) y = Softmax(s)"
_IMAGE = {"inputs": "float[N,3,H,W] x", "outputs": "float[N,4,P,Q] y"}
_KERNEL = _drawn(4, 3, 3, 3, seed=2)
_TAP = _KERNEL.copy()
_TAP[:, :, 2, 2] *= -1

_CHAIN = "{} a = Tanh(d) b = {}(a) c = Tanh(b) e = Tanh(c) y = Neg(e)"
_SHIFTED_CHAIN = "{} b = Tanh(a) c = {}(b) e = Tanh(c) f = Tanh(e) y = Neg(f)"
_TAKEN = "s = ReduceSum<keepdims = 0>(x) z = Equal(s, s) y = If(z) <then_branch = t () => (float[A,8] v) {%s}, else_branch = e () => (float[B,8] u) {u = Neg(x)}>"
_INNER = "s = ReduceSum<keepdims = 0>(x) z = Less(s, s) y = If(z) <then_branch = t () => (float[A,B] v) {v = Exp(%s)}, else_branch = e () => (float[C,D] u) {u = Neg(x)}>"

PLACES = [
    Row("one row of an embedding", DIFFERENT, "y = Gather(table, x)", "y = Gather(table, x)", inputs="int64[N] x", outputs="float[N,8] y", tensors={"table": _TABLE}, others={"table": _ONE_ROW}),
    Row("a row of a table that is transposed", DIFFERENT, "t = Transpose(w) y = Gather(t, x)", "y = Gather(table, x)", tensors={"w": _TABLE.T.copy(), "table": _ONE_ROW}, **_IDS),
    Row("a table that is transposed", EQUAL, "t = Transpose(w) y = Gather(t, x)", "y = Gather(table, x)", tensors={"w": _TABLE.T.copy(), "table": _TABLE}, **_IDS),
    Row("a row of a table that is computed", DIFFERENT, "d = Add(w, w) y = Gather(d, x)", "g = Gather(v, x) y = Add(g, g)", tensors={"w": _TABLE, "v": _ONE_ROW}, **_IDS),
    Row("a row that is chosen by a product", DIFFERENT, "h = OneHot(x, d, v) y = MatMul(h, w)", "y = Gather(table, x)", tensors={"d": np.int64(1000), "v": np.array([0, 1], np.float32), "w": _TABLE, "table": _ONE_ROW}, **_IDS),
    Row("a row of positions", DIFFERENT, _POSITIONS % "w", _POSITIONS % "v", tensors={"w": _TABLE, "v": _ONE_ROW}),
    Row("OneHot of a negative index", DIFFERENT, "y = OneHot(x, d, v)", "z = Constant<value_ints = [0, 1, 2, 3]>() a = Constant<value_ints = [1]>() u = Unsqueeze(x, a) e = Equal(u, z) y = Cast<to = 1>(e)",
        inputs="int64[N] x", outputs="float[N,4] y", tensors={"d": np.int64(4), "v": np.array([0, 1], np.float32)}),
    Row("what a key stands for", DIFFERENT, _KEYED % "2.0", _KEYED % "2.5", inputs="int64[N] x", outputs="float[N] y", domains='"ai.onnx.ml" : 3'),
    Row("how far boxes may overlap", DIFFERENT, _BOXES, _BOXES, inputs="float[1,N,4] b, float[1,2,N] s", outputs="int64[M,3] y", tensors={"k": np.array([99]), "i": np.float32([0.5])}, others={"i": np.float32([0.55])}),
    Row("a line that scores meet", DIFFERENT, _SCORED, _SCORED, outputs="int64[1,M] y", tensors={"t": np.float32(0.25)}, others={"t": np.float32(0.2501)}),
    Row("more of the largest than there are", DIFFERENT, "s = Shape(x) i = Constant<value_ints = [1]>() n = Gather(s, i) m = Min(n, k) v, y = TopK(x, m)", "v, y = TopK(x, k)",
        inputs="float[N,M] x", outputs="int64[N,K] y", tensors={"k": np.array([3])}),
    Row("places that are attributes", EQUAL, "y = Slice<starts = [0], ends = [4], axes = [1]>(x)", "y = Slice(x, s, e, a)", outputs="float[N,4] y", tensors={"s": np.array([0]), "e": np.array([4]), "a": np.array([1])}, opset=9, opset_after=13),
    Row("names that are shifted", EQUAL, "a = Tanh(x) b = Tanh(a) c = Tanh(b) d = Tanh(c) y = Tanh(d)", "b = Tanh(x) c = Tanh(b) d = Tanh(c) e = Tanh(d) y = Tanh(e)", ways=(VERIFY,)),
    Row("names that are shifted behind a change", EQUAL, _CHAIN.format("d = Add(x, x)", "Tanh"), _SHIFTED_CHAIN.format("a = Sum(x, x)", "Tanh"), ways=(VERIFY,)),
    Row("a change among names that are shifted", DIFFERENT, _CHAIN.format("d = Add(x, x)", "Tanh"), _SHIFTED_CHAIN.format("a = Sum(x, x)", "Softsign"), ways=(VERIFY,)),
    Row("names that are shifted in front of a branch", EQUAL, "a = Tanh(x) b = Tanh(a) " + _INNER.replace("%s", "b"), "b = Tanh(x) c = Tanh(b) " + _INNER.replace("%s", "c"), ways=(VERIFY,), **_OPEN),
    Row("names that are shifted in a branch", EQUAL, _TAKEN % "a = Tanh(x) b = Exp(a) v = Neg(b)", _TAKEN % "b = Tanh(x) a = Exp(b) v = Neg(a)", ways=(VERIFY,)),
    Row("a change among names that are shifted in a branch", DIFFERENT, _TAKEN % "a = Tanh(x) b = Exp(a) v = Neg(b)", _TAKEN % "b = Softsign(x) a = Exp(b) v = Neg(a)", ways=(VERIFY,)),
    Row("Tanh by Sigmoid, which is less exact for small numbers", EQUAL, "a = Sin(x) b = Tanh(a) y = Neg(b)", "a = Sin(x) d = Add(a, a) s = Sigmoid(d) t = Add(s, s) b = Sub(t, one) y = Neg(b)", constants="float one = {1}", ways=(VERIFY,)),
    Row("a size that is written in", EQUAL, "r = Slice(x, s, e, a, t) y = Neg(r)", "r = Gather<axis = 3>(x, i) y = Neg(r)", inputs="float[1,1,512,512] x", outputs="float[1,1,512,256] y", grade="exact",
        tensors={"s": np.array([0]), "e": np.array([512]), "a": np.array([3]), "t": np.array([2]), "i": np.arange(0, 512, 2)}),
    Row("places counted from the end", DIFFERENT, "y = Gather(table, x)", "n = Abs(x) y = Gather(table, n)", inputs="int64[N] x", outputs="float[N,8] y", tensors={"table": _TABLE}),
    Row("an outer tap of a convolution", DIFFERENT, "c = Conv<pads = [1, 1, 1, 1]>(x, k) y = Relu(c)", "c = Conv<pads = [1, 1, 1, 1]>(x, k) y = Relu(c)", tensors={"k": _KERNEL}, others={"k": _TAP}, **_IMAGE),
    Row("another epsilon that is folded into a convolution", DIFFERENT, "c = Conv(x, k) y = BatchNormalization<epsilon = 1e-5>(c, one, nil, nil, half)", "y = Conv(x, k2)",
        tensors={"k": _KERNEL, "k2": (_KERNEL / np.sqrt(0.5 + 5e-5)).astype(np.float32), "one": np.ones(4, np.float32), "nil": np.zeros(4, np.float32), "half": np.full(4, 0.5, np.float32)}, **_IMAGE),
    Row("an outer tap deep down", DIFFERENT, "p = MaxPool<kernel_shape = [8, 8], strides = [8, 8]>(x) y = Conv<pads = [1, 1, 1, 1]>(p, k)", "p = MaxPool<kernel_shape = [8, 8], strides = [8, 8]>(x) y = Conv<pads = [1, 1, 1, 1]>(p, k)", tensors={"k": _KERNEL}, others={"k": _TAP}, **_IMAGE),
    Row("a mask that is ignored", DIFFERENT, _MASKED, "y = Softmax(x)", inputs="float[N,8] x, int64[N,8] mask", constants="float one = {1}, float low = {-10000}"),
    Row("what a second step does to a state", DIFFERENT, "h = Mul(state, half) stateN = Add(h, x) y = Tanh(stateN)", "h = Mul(state, half) stateN = Add(h, x) c = Clip(state, low, high) d = Mul(c, half) e = Add(d, x) y = Tanh(e)",
        inputs="float[N,4] x, float[N,4] state", outputs="float[N,4] y, float[N,4] stateN", constants="float half = {0.5}, float low = {-1.2}, float high = {1.2}"),
    Row("the state of a Scan", DIFFERENT, _SCAN % "Add", _SCAN % "Max", **_SCANNED),
    Row("the state of a Scan, written otherwise", EQUAL, _SCAN % "Add", _SCAN % "Sum", **_SCANNED),
    Row("the state of a Loop", DIFFERENT, _TURNS % "Exp", _TURNS % "Abs", **_TURNED),
    Row("a Loop, written otherwise", EQUAL, _TURNS % "Neg", (_TURNS % "Neg").replace("w = Neg(v)", "m = Constant<value_float = -1.0>() w = Mul(v, m)"), **_TURNED),
    Row("a function with attributes, written otherwise", EQUAL, "y = local.F<alpha = 0.25>(x)", "y = local.G<alpha = 0.25>(x)", functions=_LOCAL),
    Row("a function with another attribute", DIFFERENT, "y = local.F<alpha = 0.25>(x)", "y = local.G<alpha = 0.26>(x)", functions=_LOCAL),
    Row("a function of something else", DIFFERENT, "y = local.F<alpha = 0.25>(x)", "y = local.H<alpha = 0.25>(x)", functions=_LOCAL),
    Row("a function that is inlined", EQUAL, "y = local.F<alpha = 0.25>(x)", "e = LeakyRelu<alpha = 0.25>(x) y = Add(e, x)", functions=_LOCAL),
    Row("Softmax along the batch", DIFFERENT, "y = Softmax<axis = 1>(x)", "y = Softmax<axis = 0>(x)"),
    Row("an element of a sequence", DIFFERENT, "s = SequenceConstruct(x, z) y = SequenceAt(s, i)", "s = SequenceConstruct(z, x) y = SequenceAt(s, i)", inputs="float[2] x, float[2] z, int64 i", outputs="float[2] y"),
    Row("a sequence that is erased", EQUAL, "s = SequenceConstruct(x, z) y = SequenceAt(s, i)", "y = Identity(z)", inputs="float[2] x, float[2] z", outputs="float[2] y", constants="int64 i = {1}"),
    Row("words that are copied", EQUAL, "y = Identity(x)", "a = Identity(x) y = Concat<axis = 0>(a)", inputs="string[3] x", outputs="string[3] y"),
    Row("words in another order", DIFFERENT, "y = Concat<axis = 0>(x, z)", "y = Concat<axis = 0>(z, x)", inputs="string[3] x, string[3] z", outputs="string[6] y"),
]  # fmt: skip

# --- values that nobody tells apart -------------------------------------------------------------------------------

_UNKNOWN = {"domains": '"my" : 1', "inputs": "float[N,3] x", "outputs": "float[N,3] y"}

_NAN = "s = Shape(x) n = Expand(nan, s)"
_NUMBERS: dict[str, Any] = {"constants": "float two = {2}, float three = {3}", "tensors": {"nan": np.float32(np.nan)}}

ENGINES = [
    Row("an operator that no engine knows, beside an equal change", EQUAL, "a = my.Thing(x) b = Relu(a) y = Neg(b)", "a = my.Thing(x) b = Max(a, zero) y = Neg(b)", constants="float zero = {0}", **_UNKNOWN),
    Row("a wrong change in front of an operator that no engine knows", DIFFERENT, "b = Relu(x) a = my.Thing(b) y = Neg(a)", "b = Abs(x) a = my.Thing(b) y = Neg(a)", **_UNKNOWN),
    Row("an operator that no engine knows and nothing else", EQUAL, "y = my.Thing(x)", "y = my.Thing(x)", **_UNKNOWN),
    Row("an operator that no engine knows, for another", UNVERIFIED, "y = my.Thing(x)", "y = my.Other(x)", **_UNKNOWN),
    Row("NaN that constants make", UNVERIFIED, f"{_NAN} y = Mul(n, two)", f"{_NAN} y = Mul(n, three)", **_NUMBERS),
    Row("NaN in one output", UNVERIFIED, f"{_NAN} y = Mul(n, two) z = Neg(x)", f"{_NAN} y = Mul(n, three) z = Neg(x)", outputs="float[N,8] y, float[N,8] z", **_NUMBERS),
    Row("NaN that is replaced", EQUAL, f"{_NAN} p = Mul(n, two) b = IsNaN(p) y = Where(b, x, p)", f"{_NAN} p = Mul(n, three) b = IsNaN(p) y = Where(b, x, p)", **_NUMBERS),
    Row("values that are NaN in each run", DIFFERENT, "a = Add(x, nan) y = Mul(a, two)", "a = Add(x, nan) y = Mul(a, three)", constants="float two = {2}, float three = {3}", tensors={"nan": np.float32(np.nan)}),
]  # fmt: skip

ROWS = [*BRANCHES, *LINES, *FAR, *SPECIAL, *ROUNDING, *QUANTIZED, *RANDOM, *PLACES, *ENGINES]

_STEP = "outputs of whole models are not judged at one step of the quantization"

WRONG = {
    ("GreaterOrEqual for Greater, with a vector", CONVERT): "a line behind a Sin is not met, and a remark says so",
    ("no samples", VERIFY): "a second model that fails at size 0 is passed over",
    ("a Sigmoid that engines make 0", VERIFY): "the source is 0 everywhere, and allows for nothing",
    ("the largest of sums in another order", VERIFY): "outputs behind a tie are compared by rounding alone",
    ("an addend that is nothing beside rounding", VERIFY): _STEP,
    ("an addend that is nothing beside rounding", CONVERT): _STEP,
}
"""What the proof tells wrong today, and why: each is to go from here."""
