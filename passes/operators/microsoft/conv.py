"""Convolutions with an addend and an activation, or with pads that are an input."""

from __future__ import annotations

from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.fused import activated_convolution_of
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined, refused
from opshift.passes.rewrite.says import says

_SHARED = ("auto_pad", "dilations", "group", "kernel_shape", "strides")


@says("Conv-22, plus Z, and the activation of it.")
def activated_convolution(node: Node) -> str:
    node.close("the kernel adds in another order")
    build, attributes = node.build, node.attributes
    own = {name: attributes.get(name) for name in (*_SHARED, "pads")}
    made = build.emit("Conv", [node.input(0), node.input(1), node.input(2) or None], own)
    made = build.Add(made, node.input(3)) if node.input(3) else made
    return activated_convolution_of(node, made)


@says("ConvTranspose-22 with the pads that are constant; those that are computed are cut off its result.")
def transposed_with_pads(node: Node) -> str:
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


defined("FusedConv", activated_convolution, opset=22, domain=MICROSOFT)
defined("ConvTransposeWithDynamicPads", transposed_with_pads, opset=22, domain=MICROSOFT)
refused(
    "MaxpoolWithMask",
    'its text is "For internal use.", and the kernel starts at element (c * size) mod (N * C) of the mask and ends '
    "a row at its first 0: that is no masked maximum",
    domain=MICROSOFT,
)
