"""Operators whose operands and results are quantized: what their inputs are made of."""

from __future__ import annotations

from math import prod

from opshift.passes.changes import GRANTED
from opshift.passes.fusion.quantization.biases import Scales, int32_bias
from opshift.passes.fusion.quantization.calls import (
    FloatCall,
    IntegerOperands,
    Make,
    attributes_of,
    check_kernel,
    check_same,
)
from opshift.passes.fusion.quantization.operands import Operands, Stays
from opshift.passes.model.types import Dim
from opshift.passes.operators.shared.dequantized import PER_AXIS, softmax_needs, softmax_overflows
from opshift.passes.rewrite.builder import Builder


def all_of(count: int) -> Make:
    """So many operands, all of the type of the result."""

    def make(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
        if call.attributes or (count and len(call.inputs) != count):
            return None
        rows = [of.operand(build, name) for name in call.inputs]
        check_same(of, elem_type, *(row[0] for row in rows))
        return IntegerOperands([name for row in rows for name in row], attributes_of(call))

    return make


def choice_of_integers(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    if _are_constant(of, call.scale, call.zero_point) and not _are_constant(of, *map(of.zero_point, call.inputs[1:])):
        raise Stays("one zero point is computed and the result's is constant, which crashes onnxruntime")
    made = all_of(2)(of, build, FloatCall(call.node, call.inputs[1:], []), elem_type)
    return None if made is None else IntegerOperands([call.inputs[0], *made.inputs], {})


def _are_constant(of: Operands, *names: str) -> bool:
    return all(of.scope.is_constant(name) for name in names if name)


def convolution(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    rank = len(of.scope.shape(call.inputs[1]) or ())
    x, w = of.operand(build, call.inputs[0]), of.operand(build, call.inputs[1], 0, rank)
    check_kernel(of, elem_type, x[0], w[0])
    if not _alike(of, w[2]):
        raise Stays("the weights have a zero point for each channel", supported="one zero point")
    added, remark = int32_bias(of, build, call.inputs[2], Scales(x[1], w[1], call.scale)) if call.input(2) else ("", "")
    return IntegerOperands([*x, *w, added], {**attributes_of(call), **call.attributes}, remark=remark)


def standard_convolution(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    return None if call.attributes else convolution(of, build, call, elem_type)


def _alike(of: Operands, zero: str) -> bool:
    """Whether zero points of channels are the same, without which onnxruntime does not run."""
    held = None if of.is_one(zero) else of.scope.array(zero)
    return of.is_one(zero) or (held is not None and bool((held == held.reshape(-1)[:1]).all()))


def product(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    rank = len(of.scope.shape(call.inputs[1]) or ())
    a, b = of.operand(build, call.inputs[0]), of.operand(build, call.inputs[1], -1 if rank == 2 else None, rank)
    check_kernel(of, elem_type, a[0], b[0])
    return IntegerOperands([*a, *b], {})


def gemm(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    turned, alpha, added = call.value("transB", 0), call.value("alpha", 1.0), call.input(2)
    if added and call.value("beta", 1.0) != 1.0:
        raise Stays("beta is not 1", supported="1")
    a, b = of.operand(build, call.inputs[0]), of.operand(build, call.inputs[1], 0 if turned else 1, 2)
    check_kernel(of, elem_type, a[0], b[0])
    of_bias, remark = int32_bias(of, build, added, Scales(a[1], b[1], call.scale, alpha)) if added else ("", "")
    own = {"alpha": alpha, "transA": call.value("transA", 0), "transB": turned}
    return IntegerOperands([*a, *b, of_bias], own, remark=remark)


def pool(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    if set(call.value("dilations", (1,))) != {1}:
        raise Stays("its windows have dilations", supported="no dilations")
    if call.value("ceil_mode", 0) and call.value("count_include_pad", 0):  # where the kernel counts otherwise
        raise Stays("it has both ceil_mode and count_include_pad", supported="one of them")
    x = of.operand(build, call.inputs[0])
    check_same(of, elem_type, x[0])
    return IntegerOperands(x, {**attributes_of(call, "dilations"), **call.attributes})


def softmax(of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    x = of.operand(build, call.inputs[0])
    opset = min(of.scope.opset, PER_AXIS)
    axis, rule = call.value("axis", -1 if opset == PER_AXIS else 1), call.value("opset", opset)
    check_same(of, elem_type, x[0])
    sizes = _check_finite(of, call, axis, alone=rule >= PER_AXIS)
    known = all(isinstance(size, int) for size in sizes)
    return IntegerOperands(x, {"axis": axis, "opset": rule}, remark="" if known else GRANTED)


def _check_finite(of: Operands, call: FloatCall, axis: int, *, alone: bool) -> list[Dim]:
    """That the kernel makes no infinity, whatever sizes only the run tells; returns all sizes."""
    scale, dims = of.number(call.scale), of.scope.shape(call.inputs[0])
    if scale is None or not dims or not -len(dims) <= axis < len(dims):
        raise Stays("its scale or rank is unknown; onnxruntime may compute infinities")
    if 0 in dims:
        raise Stays("it is empty, which onnxruntime does not run")
    sizes = [dims[axis]] if alone else dims[axis % len(dims) :]
    least = prod(size for size in sizes if isinstance(size, int))
    if softmax_overflows(scale, least):
        told = f"{least} elements" if all(isinstance(size, int) for size in sizes) else f"perhaps {least} elements"
        why = f"a scale of {scale:.2g} for {told}: onnxruntime computes infinities"
        raise Stays(f"{why}", supported=f"{softmax_needs(least):.2g} and more")
    return dims
