"""CausalConvWithState before it existed: a convolution behind its state."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto
END = 2**63 - 1
SHORT = (T.FLOAT16, T.BFLOAT16)


@says("Replaced CausalConvWithState by Concat of state and data, Conv, and Slice for the new state")
def convolution_after_state(node: Node) -> list[str]:
    build, elem_type = node.build, node.elem_type()
    activation = node.attributes.get("activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise CannotConvert(node, f"activation={activation!r}", supported="none, silu and swish")
    dims = node.scope.shape(node.input(1)) or [None, None, None]
    channels, taps = dims[0], dims[2]
    if not isinstance(channels, int) or not isinstance(taps, int):
        raise CannotConvert(node, "the shape of weight is unknown", supported="a static shape")
    if node.input(3):
        joined = build.Concat(node.input(3), node.input(0), axis=2)
    else:
        joined = build.Pad(node.input(0), [0, 0, taps - 1, 0, 0, 0]) if taps > 1 else node.input(0)
    operands = [joined, *node.inputs[1:3]]
    if elem_type in SHORT:
        node.close("computed in float32")
        operands = [name and build.Cast(name, to=T.FLOAT) for name in operands]
    y = build.Conv(*operands, group=channels)
    if activation != "none":
        node.close("the activation is computed from its definition")
        y = build.Mul(y, build.Sigmoid(y))
    state = build.Slice(joined, [1 - taps if taps > 1 else END], [END], [2])
    return [recast(build, y, T.FLOAT if elem_type in SHORT else elem_type, elem_type), state][: len(node.outputs)]


changed("CausalConvWithState", 27, Pair(down=convolution_after_state))
