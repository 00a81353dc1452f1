"""Operators of `com.microsoft` that are compositions of ONNX's, whatever their types and ranks."""

from onnx import TensorProto
from onnxscript import script
from onnxscript.values import Opset
from opshift.functions.define import define, native
from opshift.passes.model.schemas import MICROSOFT

T = TensorProto
op13, op20 = Opset("", 13), Opset("", 20)
DOMAIN = Opset(MICROSOFT, 1)

FLOATS = native(T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16)


@define("Gelu", FLOATS, domain=MICROSOFT, grade="exact")
@script(DOMAIN, default_opset=op20)
def Gelu(x):
    """0.5 * x * (1 + erf(x / sqrt(2))): Gelu-20"""
    return op20.Gelu(x)


@define("SampleOp", FLOATS, domain=MICROSOFT, grade="exact")
@script(DOMAIN, default_opset=op13)
def SampleOp(x):
    """x: an example of how operators are added"""
    return op13.Identity(x)
