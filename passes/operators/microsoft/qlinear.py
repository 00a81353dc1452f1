"""Elementwise operators, pools, Softmax, Concat and Where of quantized numbers: the operators on floats between
DequantizeLinear and QuantizeLinear.

`exact` are those that the kernel looks up in a table made of floats, or copies: a million elements with random scales
came out the same bit for bit. The others round otherwise where a result is close to the middle between two integers;
QLinearSoftmax multiplies by the whole part of 1 / y_scale, which makes a step at most.
"""

from __future__ import annotations

from math import prod
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.dequantized import (
    PER_AXIS,
    ROUNDS,
    dequantize,
    quantize,
    softmax_needs,
    softmax_overflows,
)
from opshift.passes.operators.shared.recipes import channels_first, channels_last
from opshift.passes.operators.shared.shapes import in_shape_of_data
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

_POOLING = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


@says("Replaced the QLinear operator by DequantizeLinear of both inputs, the float operator and QuantizeLinear")
def of_both(node: Node) -> str:
    node.close(ROUNDS)
    y = node.build.emit(node.op_type.removeprefix("QLinear"), [dequantize(node, 0), dequantize(node, 3)])
    return quantize(node, y, 6, node.elem_type(0))


@says("Replaced the QLinear operator by DequantizeLinear, the float operator and QuantizeLinear")
def of_each(node: Node) -> str:
    own = {name: node.attributes.get(name) for name in ("alpha",)}
    y = node.build.emit(node.op_type.removeprefix("QLinear"), [dequantize(node, 0)], own)
    return quantize(node, y, 3, node.elem_type(0))


@says("Replaced QLinearSoftmax by DequantizeLinear, Softmax and QuantizeLinear")
def of_softmax(node: Node) -> str:
    node.close(ROUNDS)
    build, axis = node.build, node.attributes.get("axis", -1)
    _refuse_infinity(node, axis, alone=node.attributes["opset"] >= PER_AXIS)
    x = dequantize(node, 0)
    if node.attributes["opset"] >= PER_AXIS:
        y = build.Softmax(x, axis=axis)
    else:
        y = in_shape_of_data(node, build.Softmax(build.Flatten(x, axis=axis), axis=-1))
    return quantize(node, y, 3, node.elem_type(0))


def _refuse_infinity(node: Node, axis: int, *, alone: bool) -> None:
    """Of which onnxruntime below 1.32 yields any number."""
    dims, scale = node.scope.shape(node.input(0)), node.scope.array(node.input(3))
    if not dims or not -len(dims) <= axis < len(dims):
        return
    sizes = [size for size in ([dims[axis]] if alone else dims[axis % len(dims) :]) if isinstance(size, int)]
    if len(sizes) < (1 if alone else len(dims) - axis % len(dims)):
        return
    count = prod(sizes)
    if count == 1 and scale is None:
        why = "y_scale is dynamic, and the kernel may compute infinities for one element"
        raise CannotConvert(node, f"{why}", supported=f"a constant of {softmax_needs(1):.2g} and more")
    if scale is not None and scale.size == 1 and softmax_overflows(float(scale.reshape(())), count):
        why = f"y_scale={float(scale.reshape(())):g} for {count} elements: the kernel computes infinities"
        raise CannotConvert(node, f"{why}", supported=f"{softmax_needs(count):.2g} and more")


@says("Replaced QLinearConcat by DequantizeLinear, Concat and QuantizeLinear")
def concatenation(node: Node) -> str:
    if len(node.inputs) < 5 or len(node.inputs) % 3 != 2:
        raise CannotConvert(node, f"{len(node.inputs)} inputs", supported="two, and three more for each tensor")
    parts = [dequantize(node, at) for at in range(2, len(node.inputs), 3)]
    return quantize(node, node.build.Concat(*parts, axis=node.attributes["axis"]), 0, node.elem_type(1))


@says("Replaced QLinearWhere by DequantizeLinear, Where and QuantizeLinear")
def choice(node: Node) -> str:
    y = node.build.Where(node.input(0), dequantize(node, 1), dequantize(node, 4))
    return quantize(node, y, 7, node.elem_type(1))


@says(
    "Replaced the QLinear pooling by DequantizeLinear, pooling and QuantizeLinear, with "
    "Transposes if channels come last"
)
def pooling(node: Node) -> str:
    node.close(ROUNDS)
    last = bool(node.attributes.get("channels_last", 0))
    x = dequantize(node, 0)
    x = channels_first(node.build, x, node.rank()) if last else x
    own = {name: node.attributes.get(name) for name in _POOLING}
    if own["ceil_mode"] and own["count_include_pad"] and node.attributes.get("auto_pad", "NOTSET") == "NOTSET":
        x = _pad_to_windows(node, x, own, 1 if last else 2)
    y = node.build.emit(node.op_type.removeprefix("QLinear"), [x], own)
    y = channels_last(node.build, y, node.rank()) if last else y
    return quantize(node, y, 3, node.elem_type(0))


def _pad_to_windows(node: Node, x: str, own: dict[str, Any], first: int) -> str:
    """The kernel divides by the size of a window, also of one that ends behind the padding: zeros up to there."""
    rank, kernel = node.rank() - 2, own["kernel_shape"]
    sizes = (node.scope.shape(node.input(0)) or [])[first : first + rank]
    strides, pads = own["strides"] or [1] * rank, own["pads"] or [0] * 2 * rank
    if not all(isinstance(size, int) for size in sizes):
        why = "ceil_mode and count_include_pad, and the size of the image is unknown; try --fix-shape"
        raise CannotConvert(node, why)
    ends = []
    for size, window, stride, before, behind in zip(sizes, kernel, strides, pads[:rank], pads[rank:], strict=True):
        assert isinstance(size, int), "all are known"
        last = -(-(size + before + behind - window) // stride) * stride  # where the last window starts
        last -= stride if last >= size + before else 0
        ends.append(last + window - size - before)
    own.update(ceil_mode=None, pads=None)
    return str(node.build.Pad(x, [0, 0, *pads[:rank], 0, 0, *(max(end, 0) for end in ends)]))


@says("Replaced QLinearReduceMean by DequantizeLinear, ReduceMean and QuantizeLinear")
def mean(node: Node) -> str:
    node.close(ROUNDS)
    axes, keep = node.attributes.get("axes"), node.attributes.get("keepdims", 1)
    y = node.build.ReduceMean(dequantize(node, 0), axes=axes or None, keepdims=keep)
    return quantize(node, y, 3, node.elem_type(0))


defined(["QLinearAdd", "QLinearMul"], of_both, opset=13, domain=MICROSOFT)
defined(["QLinearLeakyRelu", "QLinearSigmoid"], of_each, opset=13, domain=MICROSOFT)
defined("QLinearSoftmax", of_softmax, opset=14, domain=MICROSOFT)
defined("QLinearConcat", concatenation, opset=13, domain=MICROSOFT)
defined("QLinearWhere", choice, opset=13, domain=MICROSOFT)
defined(["QLinearAveragePool", "QLinearGlobalAveragePool"], pooling, opset=13, domain=MICROSOFT)
defined("QLinearReduceMean", mean, opset=13, domain=MICROSOFT)
