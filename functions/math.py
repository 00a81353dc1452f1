"""Activations that are compositions of older operators, each written at the opset that brought it.

16-bit floats are computed in float32 and rounded once; ONNX's own bodies round at every node.
"""

import math

import numpy as np
from onnx import TensorProto, numpy_helper
from onnxscript import script
from onnxscript.values import Opset
from opshift.functions.define import EXACT_WIDE, define, native

T = TensorProto
op12, op14, op18, op20, op24, op28 = (Opset("", version) for version in (12, 14, 18, 20, 24, 28))

FLOATS = native(T.FLOAT, T.DOUBLE)


def scalar(value: float) -> TensorProto:
    """A double, from which CastLike makes the number nearest to it in the type of the data."""
    return numpy_helper.from_array(np.array(value, np.float64))


HALF, ONE, CUBIC, ROOT_HALF, ROOT_2_BY_PI = map(scalar, (0.5, 1.0, 0.044715, math.sqrt(0.5), math.sqrt(2 / math.pi)))


@define("Celu", native(T.FLOAT))
@script(op12)
def Celu(x, alpha: float):
    """alpha * Elu(x / alpha)"""
    scale = op12.Constant(value_float=alpha)
    return op12.Mul(scale, op12.Elu(op12.Div(x, scale), alpha=1.0))


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
