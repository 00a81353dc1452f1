"""CausalConvWithState: a convolution behind its state, which ONNX has from opset 27 on without dilation.

VarlenCausalConvWithState does so with sequences of several lengths that lie one after the other.
"""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.recipes import recast, wider
from opshift.passes.operators.shared.shapes import regroup, share_along
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
END = 2**63 - 1
WEIGHT, ENDS, BIAS, STATE, CAPTURED, DELTA, MASK = range(1, 8)  # inputs of VarlenCausalConvWithState
RUN = {
    "ndim": 1,
    "state_window": 0,
    "state_length": 0,
    "state_channels_last": -1,
    "state_update_capacity": 0,
    "input_channels": 0,
    "input_channel_offset": 0,
}
"""What the CPU kernel takes of attributes that other devices take more of."""


@says("Replaced CausalConvWithState by Concat of state and data, Conv, and Slice for the new state")
def convolution_after_state(node: Node) -> list[str]:
    for name, run in RUN.items():
        if (given := node.attributes.get(name, run)) != run:
            raise CannotConvert(node, f"onnxruntime's CPU kernel does not support {name}={given}", supported=f"{run}")
    activated, (channels, taps) = _is_activated(node), _kernel(node)
    node.close("sums in another order")
    build, dilation, last = node.build, node.attributes.get("dilation", 1), node.attributes.get("channels_last", 0)
    before = (taps - 1) * dilation
    x, state = _channels_first(node, node.input(0), last), node.input(3) if before else ""
    if state:
        joined = build.Concat(_channels_first(node, state, last), x, axis=2)
    else:
        joined = build.Pad(x, [0, 0, before, 0, 0, 0]) if before else x
    y = x  # of no token, of which onnxruntime's Conv takes none
    if (node.scope.shape(node.input(0)) or [None] * 3)[1 if last else 2] != 0:
        y = build.Conv(joined, node.input(1), node.input(2), group=channels, dilations=[dilation])
        y = build.Mul(y, build.Sigmoid(y)) if activated else y
    results = [_as_given(node, y, last)]
    if node.is_used(1):
        results.append(_as_given(node, build.Slice(joined, [-before if before else END], [END], [2]), last))
    return [*results, "", ""][: len(node.outputs)]


def _is_activated(node: Node) -> bool:
    activation = node.attributes.get("activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise CannotConvert(node, f"activation={activation!r}", supported="none, silu and swish")
    return bool(activation != "none")


def _kernel(node: Node) -> tuple[int, int]:
    dims = node.scope.shape(node.input(WEIGHT)) or [None] * 3
    channels, taps = dims[0], dims[2]
    if not isinstance(channels, int) or not isinstance(taps, int):
        raise CannotConvert(node, "the shape of weight is unknown", supported="a static shape")
    return channels, taps


def _channels_first(node: Node, x: str, last: int) -> str:
    """(batch, channels, length), of (batch, length, ...) where the channels come last, on one axis or more."""
    return str(node.build.Transpose(regroup(node, x, 2, [None]), perm=[0, 2, 1])) if last else x


def _as_given(node: Node, y: str, last: int) -> str:
    build = node.build
    if not last:
        return y
    turned = build.Transpose(y, perm=[0, 2, 1])
    if node.rank() == 3:
        return str(turned)
    shape = build.Concat(build.Shape(turned, end=2), build.Shape(node.input(0), start=2), axis=0)
    return str(build.Reshape(turned, shape, allowzero=1))


@says("Replaced VarlenCausalConvWithState by a sum over the kernel of tokens gathered from the sequence or the state")
def convolution_of_packed_tokens(node: Node) -> list[str]:
    if node.input(DELTA) or node.input(MASK):
        raise CannotConvert(
            node,
            "kernel_delta or previous_mask is given, and onnxruntime's CPU kernel does not support them",
            supported="a call without them",
        )
    activated, (channels, taps) = _is_activated(node), _kernel(node)
    node.close("sums in another order")
    build, elem_type, dilation = node.build, node.elem_type(), node.attributes.get("dilation", 1)
    wide, before = wider(elem_type), (taps - 1) * dilation
    tokens = share_along(node, node.input(0), 0, 1)
    ends = build.Cast(node.input(ENDS), to=T.INT64)
    begin, end = build.Slice(ends, [0], [-1], [0]), build.Slice(ends, [1], [END], [0])
    states = build.Transpose(node.input(STATE), perm=[0, 2, 1])
    rows = (
        build.Concat(node.input(0), build.Reshape(states, [-1, channels]) if before else states, axis=0)
        if before
        else node.input(0)
    )

    def places(position: str, of_start: str, sequence: str) -> str:
        """Where the tokens at some positions lie, those before the first one in the state of the sequence."""
        if not before:
            return str(build.Add(of_start, position))
        state = build.Add(build.Mul(sequence, before), build.Add(position, before))
        inside = build.Less(position, 0)
        return str(build.Where(inside, build.Add(state, tokens), build.Add(of_start, position)))

    token = flat_indices.count(build, tokens)
    passed = build.Cast(build.LessOrEqual(build.Unsqueeze(end, [1]), token), to=T.INT64)
    sequence = build.ReduceSum(passed, [0], keepdims=0)
    of_start = build.Gather(begin, sequence)
    back = build.constant([[(taps - 1 - tap) * dilation] for tap in range(taps)], T.INT64)
    seen = build.Gather(rows, places(build.Sub(build.Sub(token, of_start), back), of_start, sequence), axis=0)
    weight = build.Reshape(build.Transpose(node.input(WEIGHT), perm=[2, 1, 0]), [taps, 1, channels])
    y = build.ReduceSum(
        build.Mul(recast(build, seen, elem_type, wide), recast(build, weight, elem_type, wide)), [0], keepdims=0
    )
    y = build.Add(y, recast(build, node.input(BIAS), elem_type, wide)) if node.input(BIAS) else y
    y = build.Mul(y, build.Sigmoid(y)) if activated else y
    results = [recast(build, y, wide, elem_type)]
    number = build.Unsqueeze(flat_indices.count(build, share_along(node, node.input(STATE), 0, 1)), [1])
    begin, end = (build.Unsqueeze(x, [1]) for x in (begin, end))
    if node.is_used(1):
        last = build.Add(build.Sub(end, begin), build.constant([k - before for k in range(before)], T.INT64))
        kept = build.Gather(rows, places(last, begin, number), axis=0)
        results.append(build.Transpose(kept, perm=[0, 2, 1]) if before else node.input(STATE))
    else:
        results.append("")
    if node.is_used(2):
        results.append(_first_tokens(node, begin, end))
    return [*results, ""][: len(node.outputs)]


def _first_tokens(node: Node, begin: str, end: str) -> str:
    """As many tokens of each sequence as are asked for, and zeros."""
    build, many = node.build, node.attributes.get("state_update_capacity", 0)
    if not node.input(CAPTURED):
        raise CannotConvert(node, "the output state_update is used without capture_count", supported="both")
    asked = build.Unsqueeze(build.Cast(node.input(CAPTURED), to=T.INT64), [1])
    place = build.constant([range(many)], T.INT64)
    there = build.Less(place, build.Min(asked, build.Sub(end, begin)))
    found = build.Gather(node.input(0), build.Where(there, build.Add(begin, place), 0), axis=0)
    return str(build.Where(build.Unsqueeze(there, [2]), found, build.constant(0.0, node.elem_type())))


defined("CausalConvWithState", convolution_after_state, opset=18, domain=MICROSOFT)
defined("VarlenCausalConvWithState", convolution_of_packed_tokens, opset=18, domain=MICROSOFT)
