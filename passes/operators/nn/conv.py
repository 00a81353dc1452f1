"""Convolutions, those of quantized images included: before these existed, those of floats in pieces small enough
to be exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.carriers import bfloat16_in_float
from opshift.passes.operators.shared.dequantized import ROUNDS, convolution, dequantize, quantize
from opshift.passes.operators.shared.recipes import saturate_to_bytes
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined, same
from opshift.passes.rewrite.says import says

T = TensorProto
WHOLE, NIBBLE = 255, 16
"""The largest size of an 8-bit number minus its zero point, and of its upper and lower half."""
EXACT = 2**24
"""Up to it, float32 holds every integer."""


@says("Replaced ConvInteger by Conv of floats, whose sums stay below 2**24 and so are exact")
def convolution_of_integers(node: Node) -> str:
    _check_vectors(node, (2, 3))
    return _convolve(node, 0, 1, 2, 3)


@says("Replaced QLinearConv by an integer convolution that is scaled, rounded and clipped")
def convolution_of_quantized(node: Node) -> str:
    node.close("brought to the scale of y in float32")
    _check_vectors(node)
    build = node.build
    total = _convolve(node, 0, 3, 2, 5)
    if node.input(8):
        total = build.Add(total, _channel_by_channel(node, 8, 1))
    scales = build.Mul(node.input(1), _channel_by_channel(node, 4, 1))
    ratio = build.Mul(build.Cast(total, to=T.FLOAT), build.Div(scales, node.input(6)))
    return saturate_to_bytes(build, ratio, build.Cast(node.input(7), to=T.FLOAT), node.elem_type(7))


@says("Replaced QLinearConv by DequantizeLinear, Conv and QuantizeLinear")
def convolution_of_dequantized(node: Node) -> str:
    node.close(ROUNDS)
    _check_vectors(node)
    return quantize(node, convolution(node, dequantize(node, 0)), 6, node.elem_type(7))


def _check_vectors(node: Node, indices: Sequence[int] = (1, 2, 4, 5, 6, 7)) -> None:
    """Refuse scales and zero points that are no vectors: nothing says which of their axes is that of the channels."""
    for index in indices:
        if (node.scope.rank(node.input(index)) or 0) > 1:
            why = f'"{node.input(index)}" has rank {node.rank(index)}; supported: a scalar or a vector'
            raise CannotConvert(node, why)


def _convolve(node: Node, x: int, w: int, x_zero_point: int, w_zero_point: int) -> str:
    """int32: x and w minus their zero points, convolved; halves of 4 bits apart where the sums are too large."""
    build = node.build
    image = _floats(node, x, node.input(x_zero_point))
    kernel = _floats(node, w, node.input(w_zero_point) and _channel_by_channel(node, w_zero_point, 0))
    shape = node.scope.shape(node.input(w))
    if shape is None or not all(isinstance(dim, int) for dim in shape[1:]):
        raise CannotConvert(node, "the kernel size is unknown", supported="weights of a static shape, or kernel_shape")
    products = prod(dim for dim in shape[1:] if isinstance(dim, int))
    images, kernels = [(image, 1)], [(kernel, 1)]
    if products * WHOLE * WHOLE > EXACT:
        kernels = _halves(node, kernel)
    if products * WHOLE * NIBBLE > EXACT:
        images = _halves(node, image)
    if products * NIBBLE * NIBBLE > EXACT:
        raise CannotConvert(
            node,
            f"each sum of the convolution has {products} products, too many to be exact in float",
            supported=f"at most {EXACT // NIBBLE**2}",
        )
    attributes = {name: node.attributes[name] for name in node.attributes}
    total = ""
    for part, x_worth in images:
        for weights, w_worth in kernels:
            term = build.Cast(build.Conv(part, weights, **attributes), to=T.INT32)
            if x_worth * w_worth > 1:
                term = build.Mul(term, build.constant(x_worth * w_worth, T.INT32))
            total = build.Add(total, term) if total else term
    return total


def _floats(node: Node, index: int, zero_point: str) -> str:
    value = node.build.Cast(node.input(index), to=T.FLOAT)
    return str(node.build.Sub(value, node.build.Cast(zero_point, to=T.FLOAT)) if zero_point else value)


def _halves(node: Node, value: str) -> list[tuple[str, int]]:
    """16 * upper + lower = value, each with what it is worth."""
    build, nibble = node.build, node.build.constant(float(NIBBLE), T.FLOAT)
    upper = build.Floor(build.Div(value, nibble))
    return [(upper, NIBBLE), (build.Sub(value, build.Mul(upper, nibble)), 1)]


def _channel_by_channel(node: Node, index: int, axis: int) -> str:
    """A vector with one number for each output channel, which is an axis of the kernel or of the result."""
    if node.rank(index) == 0 or node.scope.shape(node.input(index)) == [1]:
        return node.input(index)
    rank = node.rank(0)
    return str(node.build.Unsqueeze(node.input(index), axes=[k for k in range(rank) if k != axis]))


@says("Checked that auto_pad and pads are not both given")
def one_way_to_pad(node: Node) -> None:
    auto, pads = node.attributes.get("auto_pad", "NOTSET"), node.attributes.get("pads")
    if auto == "NOTSET" or pads is None:
        return
    if auto != "VALID" or any(pads):
        raise CannotConvert(node, f"pads and auto_pad={auto!r} are both given", supported="one of them")
    del node.attributes["pads"]


same("Conv", 11, "only the text changed: it states defaults and SAME padding")
changed("ConvTranspose", 11, Pair(up=one_way_to_pad))
changed(["Conv", "ConvTranspose"], 22, Pair(down=bfloat16_in_float))
changed("ConvInteger", 10, Pair(down=convolution_of_integers))
changed("QLinearConv", 10, Pair(down=convolution_of_quantized))
defined("QLinearConv", convolution_of_dequantized, opset=13)
