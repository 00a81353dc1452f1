"""Activations that are compositions of other operators.

Those that came later than opset 1 are written at the opset that brought them, the others at one that has all they need.

16-bit floats are computed in float32 and rounded once; ONNX's own bodies round at every node.
"""

import math

import numpy as np
from onnx import TensorProto, numpy_helper
from onnxscript import script
from onnxscript.values import Opset
from opshift.functions.define import EXACT_WIDE, define, native

T = TensorProto
op12, op14, op16, op18, op20, op24, op28 = (Opset("", version) for version in (12, 14, 16, 18, 20, 24, 28))

FLOATS = native(T.FLOAT, T.DOUBLE)


def scalar(value: float) -> TensorProto:
    """A double, from which CastLike makes the number nearest to it in the type of the data."""
    return numpy_helper.from_array(np.array(value, np.float64))


ZERO, HALF, ONE, EIGHTY, CUBIC, ROOT_HALF, ROOT_2_BY_PI = map(
    scalar, (0.0, 0.5, 1.0, 80.0, 0.044715, math.sqrt(0.5), math.sqrt(2 / math.pi))
)


@define("Celu", native(T.FLOAT))
@script(op12)
def Celu(x, alpha: float):
    """alpha * Elu(x / alpha), or max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0) where alpha is negative"""
    scale = op12.Constant(value_float=alpha)
    if op12.Less(scale, op12.Constant(value_float=0.0)):
        none, one = op12.Constant(value_float=0.0), op12.Constant(value_float=1.0)
        below = op12.Mul(scale, op12.Sub(op12.Exp(op12.Div(x, scale)), one))
        curve = op12.Add(op12.Max(x, none), op12.Min(below, none))
    else:
        curve = op12.Mul(scale, op12.Elu(op12.Div(x, scale), alpha=1.0))
    return curve


@define("HardSwish", FLOATS | {T.FLOAT16: T.FLOAT})
@script(op14)
def HardSwish(x):
    """x * max(0, min(1, x / 6 + 0.5))"""
    return op14.Mul(x, op14.HardSigmoid(x, alpha=1.0 / 6.0, beta=0.5))


@define("Mish", FLOATS | {T.FLOAT16: T.FLOAT})
@script(op18)
def Mish(x):
    """x * tanh(log(1 + exp(x)))"""
    return op18.Mul(x, op18.Tanh(op18.Softplus(x)))


@define("Gelu", FLOATS | EXACT_WIDE, choices={"approximate": ("none", "tanh")})
@script(op20)
def Gelu(x, approximate: str):
    """0.5 * x * (1 + erf(x / sqrt(2))), or 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))"""
    half = op20.CastLike(op20.Constant(value=HALF), x)
    one = op20.CastLike(op20.Constant(value=ONE), x)
    if op20.Equal(op20.Constant(value_string=approximate), op20.Constant(value_string="tanh")):
        cube = op20.Mul(x, op20.Mul(x, x))
        inner = op20.Add(x, op20.Mul(op20.CastLike(op20.Constant(value=CUBIC), x), cube))
        curve = op20.Tanh(op20.Mul(op20.CastLike(op20.Constant(value=ROOT_2_BY_PI), x), inner))
    else:
        curve = op20.Erf(op20.Mul(op20.CastLike(op20.Constant(value=ROOT_HALF), x), x))
    return op20.Mul(op20.Mul(half, x), op20.Add(one, curve))


@define("Swish", FLOATS | EXACT_WIDE)
@script(op24)
def Swish(x, alpha: float):
    """x * sigmoid(alpha * x)"""
    if op24.Equal(op24.Constant(value_float=alpha), op24.Constant(value_float=1.0)):
        scaled = op24.Identity(x)
    else:
        scaled = op24.Mul(op24.CastLike(op24.Constant(value_float=alpha), x), x)
    return op24.Mul(x, op24.Sigmoid(scaled))


@define("SwiGLU", FLOATS | EXACT_WIDE, carried_inputs=(0, 1))
@script(op28)
def SwiGLU(a, b, alpha: float):
    """a * sigmoid(alpha * a) * b"""
    if op28.Equal(op28.Constant(value_float=alpha), op28.Constant(value_float=1.0)):
        scaled = op28.Identity(a)
    else:
        scaled = op28.Mul(op28.CastLike(op28.Constant(value_float=alpha), a), a)
    return op28.Mul(op28.Mul(a, op28.Sigmoid(scaled)), b)


@define("Relu", FLOATS | EXACT_WIDE | native(T.INT8, T.INT16, T.INT32, T.INT64), grade="exact")
@script(op16)
def Relu(x):
    """max(x, 0)"""
    return op16.Max(x, op16.CastLike(op16.Constant(value=ZERO), x))


@define("Sigmoid", FLOATS | EXACT_WIDE)
@script(op16)
def Sigmoid(x):
    """1 / (1 + exp(-x))"""
    one = op16.CastLike(op16.Constant(value=ONE), x)
    return op16.Reciprocal(op16.Add(one, op16.Exp(op16.Neg(x))))


@define("Softplus", FLOATS | EXACT_WIDE)
@script(op16)
def Softplus(x):
    """max(x, log(1 + exp(min(x, 80)))): no x overflows, and above 80 it is x to the last bit"""
    one = op16.CastLike(op16.Constant(value=ONE), x)
    bounded = op16.Min(x, op16.CastLike(op16.Constant(value=EIGHTY), x))
    return op16.Max(x, op16.Log(op16.Add(one, op16.Exp(bounded))))


@define("Softsign", FLOATS | EXACT_WIDE)
@script(op16)
def Softsign(x):
    """x / (1 + |x|)"""
    one = op16.CastLike(op16.Constant(value=ONE), x)
    return op16.Div(x, op16.Add(one, op16.Abs(x)))


@define("HardSigmoid", FLOATS | EXACT_WIDE)
@script(op16)
def HardSigmoid(x, alpha: float, beta: float):
    """max(0, min(1, alpha * x + beta))"""
    slope = op16.CastLike(op16.Constant(value_float=alpha), x)
    line = op16.Add(op16.Mul(slope, x), op16.CastLike(op16.Constant(value_float=beta), x))
    zero = op16.CastLike(op16.Constant(value=ZERO), x)
    one = op16.CastLike(op16.Constant(value=ONE), x)
    return op16.Max(op16.Min(line, one), zero)


@define("Elu", FLOATS | EXACT_WIDE)
@script(op16)
def Elu(x, alpha: float):
    """x, or alpha * (exp(x) - 1) where x < 0"""
    zero = op16.CastLike(op16.Constant(value=ZERO), x)
    below = op16.Sub(op16.Exp(x), op16.CastLike(op16.Constant(value=ONE), x))
    if op16.Equal(op16.Constant(value_float=alpha), op16.Constant(value_float=1.0)):
        scaled = op16.Identity(below)
    else:
        scaled = op16.Mul(op16.CastLike(op16.Constant(value_float=alpha), x), below)
    return op16.Where(op16.Less(x, zero), scaled, x)


@define("Selu", FLOATS | EXACT_WIDE)
@script(op16)
def Selu(x, alpha: float, gamma: float):
    """gamma * Elu(x, alpha)"""
    return op16.Mul(op16.CastLike(op16.Constant(value_float=gamma), x), op16.Elu(x, alpha=alpha))


@define("LeakyRelu", FLOATS | EXACT_WIDE)
@script(op16)
def LeakyRelu(x, alpha: float):
    """x, or alpha * x where x < 0"""
    slope = op16.CastLike(op16.Constant(value_float=alpha), x)
    return op16.Where(op16.Less(x, op16.CastLike(op16.Constant(value=ZERO), x)), op16.Mul(slope, x), x)


INTEGERS = native(T.INT32, T.INT64, T.UINT32, T.UINT64)


@define("PRelu", FLOATS | EXACT_WIDE | INTEGERS, carried_inputs=(0, 1), grade="exact")
@script(op16)
def PRelu(x, slope):
    """x, or slope * x where x < 0"""
    return op16.Where(op16.Less(x, op16.CastLike(op16.Constant(value=ZERO), x)), op16.Mul(slope, x), x)
