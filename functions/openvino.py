"""OpenVINO's ReduceL1-4 and NormalizeL2-1, by the text of their specification.

Where the text of NormalizeL2 contradicts itself, its formula counts: without axes a negative element
becomes -1, though a sentence says 1, and eps takes part; 0 stays 0 there for every eps. Integers are summed
in their own type, which wraps around.

OpenVINO's runtime (2026.4.1, CPU) keeps to the text on ordinary numbers and differs from it here:

- ReduceL1 over empty constant axes is |data| with keep_dims, not data; without keep_dims, and over empty
  axes that arrive at run time, it is refused, as are several run-time axes without keep_dims (the rank is
  not known).
- NormalizeL2 over empty constant axes is 1 for every element but 0, also for -2, for nan and where eps is
  larger than the element; over empty axes that arrive at run time it is the formula, with nan for 0 where
  eps is 0.
- double is computed in float32 (1e39 is summed as 3.4e38, 1e200 is normalized to 0), int64 and uint64 in 32
  bits (`2**53 + 1` is summed as 1), int32 in float32 (`2**24 + 1` is summed as `2**24`); int8 saturates at 127.
- NormalizeL2 with eps_mode max ignores a nan in the sum on some paths, where ONNX's Max yields nan.

Computed in float32, NormalizeL2 gives 0 from 1.9e19 on in both, because the square is infinite.
"""

from onnx import TensorProto, helper
from onnxscript import opset15 as op
from onnxscript import script
from onnxscript.values import Opset
from opshift.functions import OPENVINO
from opshift.functions.define import EXACT_WIDE, define, native

T = TensorProto
DOMAIN = Opset(OPENVINO, 1)

FLOATS = native(T.FLOAT, T.DOUBLE)
SIGNED: dict[int, int] = {T.INT8: T.INT32, T.INT16: T.INT32, **native(T.INT32, T.INT64)}
UNSIGNED: dict[int, int] = {T.UINT8: T.INT32, T.UINT16: T.INT32, T.UINT32: T.INT64, T.UINT64: T.INT64}
TRUE_FALSE = helper.make_tensor("", T.BOOL, [2], [True, False])


@define("ReduceL1", FLOATS | EXACT_WIDE | SIGNED, domain=OPENVINO)
@script(DOMAIN, default_opset=op)
def ReduceL1(data, axes, keep_dims: int = 0):
    """sum(|data|) over axes; data itself where axes is empty"""
    listed = op.Reshape(op.Cast(axes, to=7), op.Constant(value_ints=[-1]))
    if op.Equal(op.Size(axes), op.Constant(value_int=0)):
        result = op.Identity(data)
    else:
        result = op.ReduceSum(op.Abs(data), listed, keepdims=keep_dims)
    return result


@define("ReduceL1", UNSIGNED, domain=OPENVINO)
@script(DOMAIN, default_opset=op)
def ReduceL1_unsigned(data, axes, keep_dims: int = 0):
    """sum(data) over axes; data itself where axes is empty"""
    listed = op.Reshape(op.Cast(axes, to=7), op.Constant(value_ints=[-1]))
    if op.Equal(op.Size(axes), op.Constant(value_int=0)):
        result = op.Identity(data)
    else:
        result = op.ReduceSum(data, listed, keepdims=keep_dims)
    return result


@define("NormalizeL2", FLOATS | EXACT_WIDE, domain=OPENVINO, choices={"eps_mode": ("add", "max")})
@script(DOMAIN, default_opset=op)
def NormalizeL2(data, axes, eps: float, eps_mode: str):
    """data / sqrt(eps_mode(sum(data * data), eps)), the sum over axes; a sum of one where axes is empty

    Without axes, data and sqrt(eps) are first divided by the larger of both, so that no square leaves the
    range of the type and 1, -1 and 0 come out for every number; where both are 0, sqrt(eps) is taken as
    1. The larger of the two squares is 1 then, which is all that max leaves; add adds the smaller.
    Strings cannot be compared below opset 19, but Unique takes them: `place` is 0 for max, 1 for add, and
    beyond what it indexes for any other mode.
    """
    mode = op.Reshape(op.Constant(value_string=eps_mode), op.Constant(value_ints=[1]))
    as_max = op.Size(op.Unique(op.Concat(op.Constant(value_strings=["max"]), mode, axis=0)))
    as_any = op.Size(op.Unique(op.Concat(op.Constant(value_strings=["max", "add"]), mode, axis=0)))
    place = op.Sub(op.Add(as_max, as_any), op.Constant(value_int=3))
    maximum = op.Gather(op.Constant(value=TRUE_FALSE), place)
    adding = op.CastLike(op.Not(maximum), data)
    one = op.CastLike(op.Constant(value_float=1.0), data)
    bias = op.CastLike(op.Constant(value_float=eps), data)

    listed = op.Reshape(op.Cast(axes, to=7), op.Constant(value_ints=[-1]))
    total = op.ReduceSum(op.Mul(data, data), listed, keepdims=1)
    if maximum:  # noqa: SIM108
        bounded = op.Max(total, bias)
    else:
        bounded = op.Add(total, bias)
    norm = op.Sqrt(bounded)

    if op.Equal(op.Size(axes), op.Constant(value_int=0)):
        size = op.Abs(data)
        root = op.Sqrt(bias)
        positive = op.Ceil(op.Min(op.Max(size, root), one))
        root = op.Add(root, op.Sub(one, positive))
        larger = op.Max(size, root)
        part = op.Div(data, larger)
        rest = op.Div(root, larger)
        smaller = op.Min(op.Mul(part, part), op.Mul(rest, rest))
        result = op.Div(part, op.Sqrt(op.Add(one, op.Mul(adding, smaller))))
    else:
        result = op.Div(data, norm)
    return result
