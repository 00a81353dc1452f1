"""CausalConvWithState: a convolution behind its state, which ONNX has from opset 27 on without dilation."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.shapes import regrouped
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

END = 2**63 - 1


@says(
    "The state, or zeros, is joined in front of the data; Conv follows, and the end of what is joined is the new state."
)
def convolution_after_state(node: Node) -> list[str]:
    for name, run in (("ndim", 1), ("state_window", 0)):
        if (given := node.attributes.get(name, run)) != run:
            raise CannotConvert(node, f"{name}={given}, which the CPU kernel does not run; {run} could be expressed")
    activation = node.attributes.get("activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise CannotConvert(node, f"activation={activation!r}; none, silu and swish could be expressed")
    dims = node.scope.shape(node.input(1)) or [None] * 3
    channels, taps = dims[0], dims[2]
    if not isinstance(channels, int) or not isinstance(taps, int):
        raise CannotConvert(node, "the shape of weight is unknown; a known one could be expressed")
    node.close("a convolution rounds in its own order")
    build, dilation, last = node.build, node.attributes.get("dilation", 1), node.attributes.get("channels_last", 0)
    before = (taps - 1) * dilation
    x, state = _channels_first(node, node.input(0), last), node.input(3) if before else ""
    if state:
        joined = build.Concat(_channels_first(node, state, last), x, axis=2)
    else:
        joined = build.Pad(x, [0, 0, before, 0, 0, 0]) if before else x
    y = build.Conv(joined, node.input(1), node.input(2), group=channels, dilations=[dilation])
    y = build.Mul(y, build.Sigmoid(y)) if activation != "none" else y
    results = [_as_given(node, y, last)]
    if node.is_used(1):
        results.append(_as_given(node, build.Slice(joined, [-before if before else END], [END], [2]), last))
    return [*results, ""][: len(node.outputs)]


def _channels_first(node: Node, x: str, last: int) -> str:
    """(batch, channels, length), of (batch, length, ...) where the channels come last, on one axis or more."""
    return str(node.build.Transpose(regrouped(node, x, 2, [None]), perm=[0, 2, 1])) if last else x


def _as_given(node: Node, y: str, last: int) -> str:
    build = node.build
    if not last:
        return y
    turned = build.Transpose(y, perm=[0, 2, 1])
    if node.rank() == 3:
        return str(turned)
    shape = build.Concat(build.Shape(turned, end=2), build.Shape(node.input(0), start=2), axis=0)
    return str(build.Reshape(turned, shape, allowzero=1))


defined("CausalConvWithState", convolution_after_state, opset=18, domain=MICROSOFT)
