"""Layers that compute each element from the elements at its place."""

from __future__ import annotations

import math
from collections.abc import Sequence

from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino.layer import FLOATS, SIGNED, UNSIGNED, Layer, Made, Unmapped, layer
from opshift.passes.rewrite.builder import Builder

T = TensorProto

FLOAT8 = {"f8e4m3": T.FLOAT8E4M3FN, "f8e5m2": T.FLOAT8E5M2}
FLOATS_8 = set(FLOAT8.values())

UNARY = {
    "Abs": "Abs",
    "Acos": "Acos",
    "Acosh": "Acosh",
    "Asin": "Asin",
    "Asinh": "Asinh",
    "Atan": "Atan",
    "Atanh": "Atanh",
    "BitwiseNot": "BitwiseNot",
    "Ceiling": "Ceil",
    "Cos": "Cos",
    "Cosh": "Cosh",
    "Erf": "Erf",
    "Exp": "Exp",
    "Floor": "Floor",
    "Identity": "Identity",
    "IsNaN": "IsNaN",
    "Log": "Log",
    "LogicalNot": "Not",
    "Mish": "Mish",
    "Negative": "Neg",
    "ReLU": "Relu",
    "Sigmoid": "Sigmoid",
    "Sign": "Sign",
    "Sin": "Sin",
    "Sinh": "Sinh",
    "SoftPlus": "Softplus",
    "SoftSign": "Softsign",
    "Sqrt": "Sqrt",
    "Tan": "Tan",
    "Tanh": "Tanh",
}

BINARY = {
    "Add": "Add",
    "BitwiseAnd": "BitwiseAnd",
    "BitwiseOr": "BitwiseOr",
    "BitwiseXor": "BitwiseXor",
    "Equal": "Equal",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "Less": "Less",
    "LessEqual": "LessOrEqual",
    "LogicalAnd": "And",
    "LogicalOr": "Or",
    "LogicalXor": "Xor",
    "Maximum": "Max",
    "Minimum": "Min",
    "Multiply": "Mul",
    "Power": "Pow",
    "Subtract": "Sub",
}


BITS = {"BitwiseAnd": "And", "BitwiseNot": "Not", "BitwiseOr": "Or", "BitwiseXor": "Xor"}
"""What the operators on bits are for booleans."""


def _operator_name(of: Layer, known: dict[str, str]) -> str:
    return BITS[of.type] if of.type in BITS and of.elem_type() == T.BOOL else known[of.type]


def _unary(op: str) -> None:
    layer(op)(lambda of: str(of.build.emit(_operator_name(of, UNARY), [of.input(0)])))


def _binary(op: str) -> None:
    layer(op)(lambda of: str(of.build.emit(_operator_name(of, BINARY), _operands(of))))


for _op in UNARY:
    _unary(_op)
for _op in BINARY:
    _binary(_op)


def _operands(of: Layer) -> list[str]:
    """Both inputs of a layer that broadcasts as ONNX does, or not at all."""
    of.choice("auto_broadcast", ("numpy", "none"), "numpy")
    return [of.input(0), of.input(1)]


@layer("NotEqual")
def not_equal(of: Layer) -> Made:
    return str(of.build.Not(of.build.Equal(*_operands(of))))


@layer("SquaredDifference")
def squared_difference(of: Layer) -> Made:
    difference = of.build.Sub(*_operands(of))
    return str(of.build.Mul(difference, difference))


@layer("Divide")
def divide(of: Layer) -> Made:
    """Integers are rounded to zero: `m_pythondiv` asks for floors, but OpenVINO floors only constants."""
    return str(of.build.Div(*_operands(of)))


@layer("Mod")
def truncated_mod(of: Layer) -> Made:
    return str(of.build.Mod(*_operands(of), fmod=1))


@layer("FloorMod")
def floor_mod(of: Layer) -> Made:
    a, b = _operands(of)
    if of.elem_type() not in FLOATS:
        return str(of.build.Mod(a, b, fmod=0))
    rest = of.build.Mod(a, b, fmod=1)
    zero = of.like(0)
    apart = of.build.Xor(of.build.Less(rest, zero), of.build.Less(b, zero))
    other = of.build.And(apart, of.build.Not(of.build.Equal(rest, zero)))
    return str(of.build.Where(other, of.build.Add(rest, b), rest))


@layer("BitwiseLeftShift", "BitwiseRightShift")
def shift(of: Layer) -> Made:
    return str(of.build.BitShift(*_operands(of), direction="LEFT" if "Left" in of.type else "RIGHT"))


@layer("Select")
def select(of: Layer) -> Made:
    of.choice("auto_broadcast", ("numpy", "none"), "numpy")
    return str(of.build.Where(of.input(0), of.input(1), of.input(2)))


@layer("Convert")
def convert(of: Layer) -> Made:
    return _cast(of, of.element_type("destination_type"))


@layer("ConvertLike")
def convert_like(of: Layer) -> Made:
    return _cast(of, of.elem_type(1))


def _cast(of: Layer, to: int) -> str:
    """What is too large for a type of 8 bits does not become its largest number."""
    return str(of.build.Cast(of.input(0), to=to, saturate=0 if to in FLOATS_8 else None))


@layer("IsFinite")
def is_finite(of: Layer) -> Made:
    return str(of.build.Not(of.build.Or(of.build.IsNaN(of.input(0)), of.build.IsInf(of.input(0)))))


@layer("IsInf")
def is_inf(of: Layer) -> Made:
    negative, positive = of.flag("detect_negative", True), of.flag("detect_positive", True)
    return str(of.build.IsInf(of.input(0), detect_negative=int(negative), detect_positive=int(positive)))


@layer("Round")
def round_(of: Layer) -> Made:
    if of.choice("mode", ("half_to_even", "half_away_from_zero"), "half_to_even") == "half_to_even":
        return str(of.build.Round(of.input(0)))
    size = of.build.Abs(of.input(0))
    lower = of.build.Floor(size)
    up = of.build.Not(of.build.Less(of.build.Sub(size, lower), of.like(0.5)))
    rounded = of.build.Where(up, of.build.Add(lower, of.like(1)), lower)
    return str(of.build.Where(of.build.Less(of.input(0), of.like(0)), of.build.Neg(rounded), rounded))


@layer("Clamp")
def clamp(of: Layer) -> Made:
    """Bounds of integers are rounded inwards."""
    low, high = of.number("min"), of.number("max")
    elem_type = of.elem_type()
    if math.isnan(low) or math.isnan(high) or low > high:
        raise Unmapped(f"min={low}, max={high}", supported="min <= max")
    if elem_type in FLOATS:
        return str(of.build.Clip(of.input(0), of.like(low), of.like(high)))
    least, most = _range(elem_type)
    bounds = [
        least if low <= least else most if low > most else math.ceil(low),
        most if high >= most else least if high < least else math.floor(high),
    ]
    return str(of.build.Clip(of.input(0), *(of.build.constant(bound, elem_type) for bound in bounds)))


def _range(elem_type: int) -> tuple[int, int]:
    if elem_type not in SIGNED | UNSIGNED:
        raise Unmapped("the elements are not numbers")
    width = {T.INT8: 8, T.UINT8: 8, T.INT16: 16, T.UINT16: 16, T.INT32: 32, T.UINT32: 32}.get(elem_type, 64)  # type: ignore[call-overload]
    return (0, 2**width - 1) if elem_type in UNSIGNED else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)


@layer("Elu")
def elu(of: Layer) -> Made:
    return str(of.build.Elu(of.input(0), alpha=of.number("alpha")))


@layer("Selu")
def selu(of: Layer) -> Made:
    alpha, scale = of.scalar(1), of.scalar(2)
    if of.elem_type() == T.FLOAT and alpha is not None and scale is not None:
        return str(of.build.Selu(of.input(0), alpha=alpha, gamma=scale))
    x = of.input(0)
    negative = of.build.Mul(of.input(1), of.build.Sub(of.build.Exp(x), of.like(1)))
    of.close("rounds exp(x) - 1")
    return str(of.build.Mul(of.input(2), of.build.Where(of.build.Greater(x, of.like(0)), x, negative)))


INNER = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
         0.246640727, 1.50140941)  # fmt: skip
OUTER = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
         1.00167406, 2.83297682)  # fmt: skip


@layer("ErfInv")
def inverse_of_erf(of: Layer) -> Made:
    """Giles's two polynomials of -log(1 - x^2), of 32 bits; infinite at the ends."""
    b, elem_type = of.build, of.elem_type()
    if elem_type not in (T.FLOAT, T.FLOAT16, T.BFLOAT16):
        raise Unmapped("other numbers than float32 and float16")
    x, one = of.cast(of.input(0), T.FLOAT), b.constant(1.0, T.FLOAT)
    w = b.Neg(b.Log(b.Mul(b.Sub(one, x), b.Add(one, x))))
    near = _polynomial(b, INNER, b.Sub(w, b.constant(2.5, T.FLOAT)))
    far = _polynomial(b, OUTER, b.Sub(b.Sqrt(w), b.constant(3.0, T.FLOAT)))
    found = b.Mul(b.Where(b.Less(w, b.constant(5.0, T.FLOAT)), near, far), x)
    ends = b.Equal(b.Abs(x), one)
    of.close("float32 polynomials; near 0 and 1 OpenVINO is up to 0.5 % off")
    return of.cast(b.Where(ends, b.Mul(x, b.constant(math.inf, T.FLOAT)), found), elem_type)


def _polynomial(build: Builder, factors: Sequence[float], x: str) -> str:
    value = build.constant(factors[0], T.FLOAT)
    for factor in factors[1:]:
        value = build.Add(build.Mul(value, x), build.constant(factor, T.FLOAT))
    return str(value)


@layer("PReLU")
def prelu(of: Layer) -> Made:
    """A vector of slopes that has a number for each channel belongs to axis 1, whatever the last axis is."""
    slopes, dims = of.dims(1), of.dims()
    if slopes is None:
        raise Unmapped("the rank of the slopes is unknown")
    if len(slopes) != 1 or slopes == [1]:
        return str(of.build.PRelu(of.input(0), of.input(1)))
    if dims is None or len(dims) < 2 or dims[1] < 0 or slopes[0] < 0:
        raise Unmapped("a vector of slopes, and the number of channels is unknown")
    if dims[1] != slopes[0] or len(dims) == 2:
        return str(of.build.PRelu(of.input(0), of.input(1)))
    return str(of.build.PRelu(of.input(0), of.reshape(1, [slopes[0], *[1] * (len(dims) - 2)])))


@layer("Gelu")
def gelu(of: Layer) -> Made:
    mode = of.choice("approximation_mode", ("erf", "tanh"), "erf")
    return str(of.build.Gelu(of.input(0), approximate="none" if mode == "erf" else "tanh"))


@layer("HSwish")
def hswish(of: Layer) -> Made:
    of.close("x / 6 + 0.5 instead of (x + 3) / 6")
    return str(of.build.HardSwish(of.input(0)))


@layer("HSigmoid")
def hsigmoid(of: Layer) -> Made:
    bounded = of.build.Clip(of.build.Add(of.input(0), of.like(3)), of.like(0), of.like(6))
    return str(of.build.Div(bounded, of.like(6)))


@layer("HardSigmoid")
def hard_sigmoid(of: Layer) -> Made:
    alpha, beta = of.scalar(1), of.scalar(2)
    if of.elem_type() == T.FLOAT and alpha is not None and beta is not None:
        return str(of.build.HardSigmoid(of.input(0), alpha=alpha, beta=beta))
    line = of.build.Add(of.build.Mul(of.input(0), of.input(1)), of.input(2))
    return str(of.build.Clip(line, of.like(0), of.like(1)))


@layer("Swish")
def swish(of: Layer) -> Made:
    x = of.input(0)
    scaled = of.build.Mul(x, of.input(1)) if of.has(1) and of.scalar(1) != 1 else x
    return str(of.build.Mul(x, of.build.Sigmoid(scaled)))


@layer("SoftMax")
def softmax(of: Layer) -> Made:
    return str(of.build.Softmax(of.input(0), axis=of.integer("axis", 1)))


@layer("LogSoftmax")
def log_softmax(of: Layer) -> Made:
    return str(of.build.LogSoftmax(of.input(0), axis=of.integer("axis", 1)))


@layer("FakeQuantize")
def fake_quantize(of: Layer) -> Made:
    """round((clamp(x) - low) / (high - low) * steps) / steps * (out_high - out_low) + out_low"""
    of.choice("auto_broadcast", ("numpy", "none"), "numpy")
    x, low, high, out_low, out_high = (of.input(index) for index in range(5))
    b, steps = of.build, of.like(of.integer("levels") - 1)
    least, most = b.Min(low, high), b.Max(low, high)
    part = b.Div(b.Sub(x, low), b.Sub(high, low))
    stepped = b.Div(b.Round(b.Mul(part, steps)), steps)
    inside = b.Add(b.Mul(stepped, b.Sub(out_high, out_low)), out_low)
    of.close("multiplies in another order")
    above = b.Where(b.Greater(x, most), out_high, inside)
    return str(b.Where(b.LessOrEqual(x, least), out_low, above))


@layer("FakeConvert")
def fake_convert(of: Layer) -> Made:
    """To float8 and back between a scale and a shift; what is too large is the largest number there."""
    b, elem_type = of.build, of.elem_type()
    to = of.choice("destination_type", tuple(FLOAT8), "f8e4m3")
    moved = b.Mul(of.input(0), of.input(1))
    moved = b.Sub(moved, of.input(2)) if of.has(2) else moved
    rounded = b.Cast(b.Cast(of.cast(str(moved), T.FLOAT16), to=FLOAT8[to]), to=elem_type)
    back = b.Add(rounded, of.input(2)) if of.has(2) else rounded
    return str(b.Div(back, of.input(1)))
