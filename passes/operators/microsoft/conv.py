"""Convolutions with an addend and an activation, or with pads that are an input."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
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


@says("ConvTranspose-22 with the pads that are constant.")
def transposed_with_constant_pads(node: Node) -> str:
    pads = node.scope.ints(node.input(2)) if node.input(2) else None
    if node.input(2) and pads is None:
        raise CannotConvert(node, f'Pads "{node.input(2)}" is computed; a constant could be expressed')
    own = {name: node.attributes.get(name) for name in (*_SHARED, "output_padding")}
    return str(
        node.build.emit("ConvTranspose", [node.input(0), node.input(1), node.input(3) or None], {**own, "pads": pads})
    )


defined("FusedConv", activated_convolution, opset=22, domain=MICROSOFT)
defined("ConvTransposeWithDynamicPads", transposed_with_constant_pads, opset=22, domain=MICROSOFT)
refused(
    "MaxpoolWithMask",
    'its text is "For internal use.", and the kernel starts at element (c * size) mod (N * C) of the mask and ends '
    "a row at its first 0: that is no masked maximum",
    domain=MICROSOFT,
)
