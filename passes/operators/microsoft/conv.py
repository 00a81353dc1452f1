"""Convolutions with an addend and an activation, pads that are an input, quantized numbers, or channels last."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.dequantized import ROUNDS, convolution, dequantize, quantize
from opshift.passes.operators.shared.fused import activated_convolution_of
from opshift.passes.operators.shared.recipes import channels_first, channels_last
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined, refused
from opshift.passes.rewrite.says import says

_SHARED = ("auto_pad", "dilations", "group", "kernel_shape", "strides")


@says("Replaced FusedConv by Conv, Add of Z and the activation")
def activated_convolution(node: Node) -> str:
    node.close("the kernel sums in another order")
    build, attributes = node.build, node.attributes
    own = {name: attributes.get(name) for name in (*_SHARED, "pads")}
    made = build.emit("Conv", [node.input(0), node.input(1), node.input(2) or None], own)
    made = build.Add(made, node.input(3)) if node.input(3) else made
    return activated_convolution_of(node, made)


@says("Replaced ConvTransposeWithDynamicPads by ConvTranspose without pads, and Slice of the result by the pads")
def transpose_with_pads(node: Node) -> str:
    build, pads = node.build, node.input(2)
    own = {name: node.attributes.get(name) for name in (*_SHARED, "output_padding")}
    operands = [node.input(0), node.input(1), node.input(3) or None]
    if str(own["auto_pad"] or "").startswith("SAME") or not pads:  # which the kernel asks first
        return str(build.emit("ConvTranspose", operands, own))
    held = node.scope.ints(pads)
    made = build.emit("ConvTranspose", operands, {**own, "auto_pad": None, "pads": held})
    if held is not None:
        return str(made)
    spatial = node.rank() - 2
    begin, end = (build.Slice(pads, [k * spatial], [(k + 1) * spatial], [0]) for k in range(2))
    return str(build.Slice(made, begin, build.Sub(build.Shape(made, start=2), end), list(range(2, 2 + spatial))))


@says("Replaced QLinearConv by DequantizeLinear, Conv and QuantizeLinear, with Transposes if channels come last")
def convolution_of_dequantized(node: Node) -> str:
    node.close(ROUNDS)
    build, last = node.build, bool(node.attributes.get("channels_last", 0))
    if (node.scope.shape(node.input(3)) or [1, 1])[1] == 0:
        why = "there are no input channels, and the kernel returns uninitialized memory"
        raise CannotConvert(node, f"{why}", fix="QLinearConv of the default domain")
    x = dequantize(node, 0)
    y = convolution(node, channels_first(build, x, node.rank()) if last else x)
    return quantize(node, channels_last(build, y, node.rank()) if last else y, 6, node.elem_type(7))


@says("Replaced NhwcMaxPool by MaxPool between Transposes, as its channels come last")
def pool_with_channels_last(node: Node) -> str:
    build, names = node.build, ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
    x = channels_first(build, node.input(0), node.rank())
    y = build.emit("MaxPool", [x], {name: node.attributes.get(name) for name in names})
    return channels_last(build, y, node.rank())


@says("Replaced NhwcFusedConv by Conv between Transposes, Add of Z and the activation")
def activated_convolution_with_channels_last(node: Node) -> str:
    node.close("sums in another order")
    build, rank = node.build, node.rank()
    own = {name: node.attributes.get(name) for name in (*_SHARED, "pads")}
    x = channels_first(build, node.input(0), rank)
    y = channels_last(build, build.emit("Conv", [x, node.input(1), node.input(2) or None], own), rank)
    return activated_convolution_of(node, build.Add(y, node.input(3)) if node.input(3) else y)


defined("QLinearConv", convolution_of_dequantized, opset=13, domain=MICROSOFT)
defined("NhwcMaxPool", pool_with_channels_last, opset=12, domain=MICROSOFT)
defined("NhwcFusedConv", activated_convolution_with_channels_last, opset=22, domain=MICROSOFT)
refused(
    "NhwcConv",
    'its documentation gives X as "(N x C x H x W)", its name says that channels come last; supported: NhwcFusedConv',
    domain=MICROSOFT,
)
defined("FusedConv", activated_convolution, opset=22, domain=MICROSOFT)
defined("ConvTransposeWithDynamicPads", transpose_with_pads, opset=22, domain=MICROSOFT)
refused(
    "MaxpoolWithMask",
    'its documentation is "For internal use.", and the kernel does not compute a masked maximum',
    domain=MICROSOFT,
)
