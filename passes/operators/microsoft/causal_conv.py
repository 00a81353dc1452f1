"""CausalConvWithState: a convolution behind its state, which ONNX has from opset 27 on without dilation."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.shapes import share_along
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
END = 2**63 - 1


@says("The state, or zeros, is joined in front of the data; Conv follows, and the end of what is joined is the new state.")
def convolution_after_state(node: Node) -> list[str]:
    if (ndim := node.attributes.get("ndim", 1)) != 1:
        raise CannotConvert(node, f"ndim={ndim}, which the kernel does not run; 1 could be expressed")
    activation = node.attributes.get("activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise CannotConvert(node, f"activation={activation!r}; none, silu and swish could be expressed")
    dims = node.scope.shape(node.input(1)) or [None] * 3
    channels, taps = dims[0], dims[2]
    if not isinstance(channels, int) or not isinstance(taps, int):
        raise CannotConvert(node, "the shape of weight is unknown; a known one could be expressed")
    node.close("a convolution rounds in its own order")
    build, dilation, last = node.build, node.attributes.get("dilation", 1), node.attributes.get("channels_last", 0)
    window, before = node.attributes.get("state_window", 0), (taps - 1) * dilation
    x, state = _channels_first(node, node.input(0), last), node.input(3)
    if state:
        state = build.Gather(state, window - 1, axis=0) if window else state
        joined = build.Concat(_channels_first(node, state, last), x, axis=2)
    else:
        joined = build.Pad(x, [0, 0, before, 0, 0, 0]) if before else x
    y = build.Conv(joined, node.input(1), node.input(2), group=channels, dilations=[dilation])
    y = build.Mul(y, build.Sigmoid(y)) if activation != "none" else y
    results = [_as_given(node, y, last)]
    if node.is_used(1):
        results.append(_states(node, joined, x, before, window, last))
    return [*results, ""][: len(node.outputs)]


def _channels_first(node: Node, x: str, last: int) -> str:
    """(batch, channels, length), of (batch, length, ...) where the channels come last, on one axis or more."""
    return str(node.build.Transpose(node.build.Reshape(x, [0, 0, -1]), perm=[0, 2, 1])) if last else x


def _as_given(node: Node, y: str, last: int) -> str:
    build = node.build
    if not last:
        return y
    turned = build.Transpose(y, perm=[0, 2, 1])
    if node.rank() == 3:
        return str(turned)
    shape = build.Concat(build.Shape(turned, end=2), build.Shape(node.input(0), start=2), axis=0)
    return str(build.Reshape(turned, shape))


def _states(node: Node, joined: str, x: str, before: int, window: int, last: int) -> str:
    """What precedes the next token; with a window, what preceded the last ones as well, or zeros before the first."""
    build = node.build
    if not window:
        return _as_given(node, str(build.Slice(joined, [-before if before else END], [END], [2])), last)
    length, slots = share_along(node, x, 2, 1), []
    for slot in range(window):
        tokens = flat_indices.plus(build, _named(node, length), slot - window + 1)
        start = build.Reshape(build.Max(tokens, 0), [1])
        state = build.Slice(joined, start, build.Add(start, before), [2])
        held = build.Where(build.Greater(tokens, 0), state, build.constant(0.0, node.elem_type()))
        slots.append(build.Unsqueeze(_as_given(node, held, last), [0]))
    return str(build.Concat(*slots, axis=0))


def _named(node: Node, size: flat_indices.Size) -> str:
    return node.build.constant(size, T.INT64) if isinstance(size, int) else size


defined("CausalConvWithState", convolution_after_state, opset=13, domain=MICROSOFT)
