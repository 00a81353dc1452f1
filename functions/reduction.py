"""The reduce operators that are compositions, from opset 18 on: data, axes as an optional input.

The first five reproduce the bodies that ONNX publishes (onnx/defs/reduction/defs.cc). Where a published body is
sound for an element type it is also what expansion uses; elsewhere a form further below is, computed in a type in
which it holds: ReduceL2's published body squares in the data type and casts the sum to float32, which loses
doubles and integers, and ReduceLogSumExp's overflows above 709. These two, without `@define`, become of no call:
a test compares all five with what the installed onnx publishes, so that a change of a body is noticed.
"""

from onnx import TensorProto
from onnxscript import opset18 as op
from onnxscript import script
from onnxscript.values import Opset
from opshift.functions.define import EXACT_WIDE, define, finite_range, native

T = TensorProto
ONNX = Opset("", 18)

FLOATS = native(T.FLOAT, T.DOUBLE)
SIGNED = native(T.INT32, T.INT64)
UNSIGNED_AS_SIGNED: dict[int, int] = {
    T.UINT32: T.INT64,
    T.UINT64: T.INT64,
}  # sums and products agree modulo 2**32 and 2**64
INTEGERS_AS_DOUBLE: dict[int, int] = dict.fromkeys((T.INT32, T.INT64, T.UINT32, T.UINT64), T.DOUBLE)


@define("ReduceL1", FLOATS | SIGNED | EXACT_WIDE)
@script(ONNX)
def ReduceL1(data, axes, noop_with_empty_axes: int, keepdims: int):
    """sum(|data|)"""
    data_abs = op.Abs(data)
    reduced = op.ReduceSum(data_abs, axes, keepdims=keepdims, noop_with_empty_axes=noop_with_empty_axes)
    return reduced


@script(ONNX)
def ReduceL2(data, axes, noop_with_empty_axes: int, keepdims: int):
    """sqrt(float(sum(data * data))): as published, to be compared with; `ReduceL2_same_type` is used."""
    data_square = op.Mul(data, data)
    sum_square = op.ReduceSum(data_square, axes, keepdims=keepdims, noop_with_empty_axes=noop_with_empty_axes)
    sum_square_dbl = op.Cast(sum_square, to=1)
    sqrt = op.Sqrt(sum_square_dbl)
    reduced = op.CastLike(sqrt, data)
    return reduced


@define("ReduceLogSum", FLOATS | EXACT_WIDE | INTEGERS_AS_DOUBLE)
@script(ONNX)
def ReduceLogSum(data, axes, noop_with_empty_axes: int, keepdims: int):
    """log(sum(data))"""
    reduced_sum = op.ReduceSum(data, axes, keepdims=keepdims, noop_with_empty_axes=noop_with_empty_axes)
    reduced = op.Log(reduced_sum)
    return reduced


@script(ONNX)
def ReduceLogSumExp(data, axes, noop_with_empty_axes: int, keepdims: int):
    """log(sum(exp(double(data)))): as published, to be compared with; `ReduceLogSumExp_float` or `_double` is used."""
    data_double = op.Cast(data, to=11)
    data_exp = op.Exp(data_double)
    reduced_sum = op.ReduceSum(data_exp, axes, keepdims=keepdims, noop_with_empty_axes=noop_with_empty_axes)
    reduced_double = op.Log(reduced_sum)
    reduced = op.CastLike(reduced_double, data)
    return reduced


@define("ReduceSumSquare", FLOATS | SIGNED | EXACT_WIDE | UNSIGNED_AS_SIGNED)
@script(ONNX)
def ReduceSumSquare(data, axes, noop_with_empty_axes: int, keepdims: int):
    """sum(data * data)"""
    data_square = op.Mul(data, data)
    reduced = op.ReduceSum(data_square, axes, keepdims=keepdims, noop_with_empty_axes=noop_with_empty_axes)
    return reduced


@define("ReduceL1", UNSIGNED_AS_SIGNED)
@script(ONNX)
def ReduceL1_unsigned(data, axes, noop_with_empty_axes: int, keepdims: int):
    """sum(data)"""
    return op.ReduceSum(data, axes, keepdims=keepdims, noop_with_empty_axes=noop_with_empty_axes)


@define("ReduceL2", FLOATS | EXACT_WIDE | INTEGERS_AS_DOUBLE)
@script(ONNX)
def ReduceL2_same_type(data, axes, noop_with_empty_axes: int, keepdims: int):
    """sqrt(sum(data * data))"""
    square = op.Mul(data, data)
    total = op.ReduceSum(square, axes, keepdims=keepdims, noop_with_empty_axes=noop_with_empty_axes)
    return op.Sqrt(total)


FLOAT_RANGE = finite_range(T.FLOAT)
DOUBLE_RANGE = finite_range(T.DOUBLE)


@define("ReduceLogSumExp", native(T.FLOAT) | EXACT_WIDE)
@script(ONNX)
def ReduceLogSumExp_float(data, axes, noop_with_empty_axes: int, keepdims: int):
    """m + log(sum(exp(data - m))), with m = max(data) brought into the finite range"""
    m = op.ReduceMax(data, axes, keepdims=1, noop_with_empty_axes=noop_with_empty_axes)
    finite = op.Clip(m, op.Constant(value=FLOAT_RANGE[0]), op.Constant(value=FLOAT_RANGE[1]))
    total = op.ReduceSum(op.Exp(data - finite), axes, keepdims=1, noop_with_empty_axes=noop_with_empty_axes)
    shifted = op.Log(total) + finite
    return op.ReduceSum(shifted, axes, keepdims=keepdims, noop_with_empty_axes=noop_with_empty_axes)


@define("ReduceLogSumExp", native(T.DOUBLE) | INTEGERS_AS_DOUBLE)
@script(ONNX)
def ReduceLogSumExp_double(data, axes, noop_with_empty_axes: int, keepdims: int):
    """m + log(sum(exp(data - m))), with m = max(data) brought into the finite range"""
    m = op.ReduceMax(data, axes, keepdims=1, noop_with_empty_axes=noop_with_empty_axes)
    finite = op.Clip(m, op.Constant(value=DOUBLE_RANGE[0]), op.Constant(value=DOUBLE_RANGE[1]))
    total = op.ReduceSum(op.Exp(data - finite), axes, keepdims=1, noop_with_empty_axes=noop_with_empty_axes)
    shifted = op.Log(total) + finite
    return op.ReduceSum(shifted, axes, keepdims=keepdims, noop_with_empty_axes=noop_with_empty_axes)
