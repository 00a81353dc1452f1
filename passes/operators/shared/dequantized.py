"""Operators on quantized numbers as operators on floats, between DequantizeLinear and QuantizeLinear of opset 13.

The names of inputs follow each other as everywhere: values, their scale, their zero point.
"""

from __future__ import annotations

from math import exp

from opshift.passes.model import tensors
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import Dim
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node

T = TensorProto
ROUNDS = "computed in float32, which rounds otherwise than integers do"
PER_AXIS = 13
"""The opset from which on Softmax is along one axis."""
ROOM = exp(5)
"""What onnxruntime below 1.32 leaves free of the largest float for the exponentials of QLinearSoftmax."""


def softmax_overflows(scale: float, count: int) -> bool:
    """Whether QLinearSoftmax of onnxruntime below 1.32 makes an infinity of so many elements, and then any number.

    Its exponentials add up to the largest float over e**5, and are multiplied by 1 / y_scale.
    """
    return 0 < scale * count * ROOM < 1


def softmax_needs(count: int) -> float:
    """The least scale of which it makes none."""
    return 1 / (ROOM * count)


def scalar(node: Node, index: int) -> str:
    """The only element of a scale or zero point; the empty string where it is left out."""
    name = node.input(index)
    return name if not name or node.scope.shape(name) == [] else str(node.build.Reshape(name, []))


def dequantize(node: Node, at: int, *, scale: int = 0, zero: int = 0) -> str:
    """Dequantize an input with one scale; the scale and the zero point are the next two inputs, unless given."""
    values, *of = (node.input(at), scalar(node, scale or at + 1), scalar(node, zero or at + 2))
    return str(node.build.DequantizeLinear(values, *of))


def quantize(node: Node, y: str, scale: int, elem_type: int) -> str:
    """A result with the scale and the zero point behind it; one that is left out is 0."""
    zero = scalar(node, scale + 1) or node.build.constant(0, elem_type)
    return str(node.build.QuantizeLinear(y, scalar(node, scale), zero))


def dequantize_along(node: Node, at: int, scale: int, zero: int, axis: int) -> str:
    """Dequantize an input with one scale, with one for each element of an axis, or with scales to be broadcast.

    `axis` is -1 for the columns of a matrix and -2 for its rows.
    """
    build, scope = node.build, node.scope
    shapes = [scope.shape(node.input(index)) for index in (scale, zero) if node.input(index)]
    if all(map(is_one, shapes)):
        return dequantize(node, at, scale=scale, zero=zero)
    first = shapes[0]
    if first is not None and len(first) == 1 and all(shape == first for shape in shapes) and _is_known(first[0]):
        return str(build.DequantizeLinear(*(node.input(index) for index in (at, scale, zero)), axis=axis))
    elem_type = node.elem_type(scale)
    x = build.Cast(node.input(at), to=elem_type)
    if node.input(zero):
        x = build.Sub(x, build.Cast(_spread(node, zero, at, axis), to=elem_type))
    return str(build.Mul(x, _spread(node, scale, at, axis)))


def _spread(node: Node, index: int, at: int, axis: int) -> str:
    """Numbers of rows as a column; those of columns, of a single row, and whole tensors are broadcast as they are."""
    name = node.input(index)
    if axis == -1 or is_one(node.scope.shape(name)) or node.rank(index) != 1 or node.rank(at) == 1:
        return name
    return str(node.build.Unsqueeze(name, [1]))


def is_one(dims: list[Dim] | None) -> bool:
    """Whether a scale holds for the whole tensor."""
    return dims in ([], [1])


def _is_known(dim: Dim) -> bool:
    return isinstance(dim, int)


def product_of_scales(node: Node, *names: str, factor: float = 1.0) -> str:
    """The scale of products; written out where the scales are constants."""
    build, held = node.build, [node.scope.array(name) for name in names]
    known = [scale for scale in held if scale is not None and scale.size <= tensors.SMALL]
    if len(known) == len(names):
        total = np.multiply(known[0], known[1], dtype=np.float32)
        return build.constant(total if factor == 1.0 else np.multiply(total, np.float32(factor)), T.FLOAT)
    total_name = build.Mul(*names)
    return str(total_name if factor == 1.0 else build.Mul(total_name, build.constant(factor, T.FLOAT)))


def convolution(node: Node, x: str) -> str:
    """The convolution of what `x` was dequantized to; the inputs are those of QLinearConv."""
    build, bias = node.build, node.input(8)
    shapes = [node.scope.shape(node.input(index)) for index in (4, 5) if node.input(index)]
    one = all(map(is_one, shapes)) or (None not in shapes and node.scope.shape(node.input(3)) == [])
    scale, zero = ((scalar if one else _for_each)(node, index) for index in (4, 5))
    w = build.DequantizeLinear(node.input(3), scale, zero, axis=None if one else 0)
    operands = [x, w]
    if bias:
        of = product_of_scales(node, scalar(node, 1), scale)
        operands.append(build.DequantizeLinear(bias, of, axis=None if one else 0))
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    return str(build.emit("Conv", operands, {name: node.attributes.get(name) for name in names}))


def _for_each(node: Node, index: int) -> str:
    """A number for each output channel, of one for all where it may be no more; "" where it is left out."""
    name, weights = node.input(index), node.input(3)
    dims, channels = node.scope.shape(name), (node.scope.shape(weights) or [None])[0]
    if not name or (dims is not None and not is_one(dims) and all(map(_is_known, dims))):
        return name
    held = node.scope.array(name)
    if held is not None and isinstance(channels, int):
        return node.build.constant(np.full(channels, held.reshape(-1)[0]), node.elem_type(index))
    return str(node.build.Expand(name, node.build.Slice(node.build.Shape(weights), [0], [1], [0])))


def in_int32(node: Node, index: int) -> str:
    """An input in a type that holds its products and their sums."""
    return recast(node.build, node.input(index), node.elem_type(index), T.INT32)
