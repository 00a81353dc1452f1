"""GatedDeltaNet: LinearAttention over tokens that lie one after the other, with heads of its own for values.

Sequences of several lengths are padded to the longest: a key of 0 that does not decay leaves the state as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.operators.shared.shapes import regroup
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
KEY, VALUE, ENDS, DECAY, BETA, STATE, A_LOG, BIAS = range(1, 9)  # inputs
GATED, CORRECTED = ("gated", "gated_delta"), ("delta", "gated_delta")
TINY = 1e-12  # what the kernel adds to a sum of squares
END = 2**63 - 1


@dataclass(frozen=True)
class _Layout:
    """How many heads there are, how large they are, and where the tokens of each sequence lie."""

    queries: int
    heads: int
    key: int
    value: int
    lead: int  # the axes in front of the heads
    places: str = ""  # (batch, longest): the token at each place, where lengths differ
    valid: str = ""  # whether there is one


@says("Replaced GatedDeltaNet by LinearAttention in float32; padded sequences of different lengths")
def recurrence_over_packed_tokens(node: Node) -> list[str]:
    if node.attributes.get("state_update_capacity", 0):
        raise CannotConvert(node, "state_update_capacity is not 0", supported="0")
    node.close("rounds in another order")
    build, rule = node.build, node.attributes.get("update_rule", "gated_delta")
    layout = _layout(node)
    query, key, value = _apart(node, layout)
    if node.attributes.get("qk_l2_norm", 0):
        query, key = _normalize(node, query), _normalize(node, key)
    query, key = (_share_keys(node, x, layout) for x in (query, key))
    decay = _decay(node, layout) if rule in GATED else ""
    beta = _wide(node, BETA) if rule in CORRECTED else ""
    beta = build.Sigmoid(beta) if beta and node.attributes.get("beta_activation", "none") == "sigmoid" else beta
    lines = [_in_lines(node, x, layout) if x else "" for x in (query, key, value, decay, beta)]
    if layout.valid:
        there = build.Unsqueeze(layout.valid, [2])
        for at in (1, 3):
            lines[at] = build.Where(there, lines[at], build.constant(0.0, T.FLOAT)) if lines[at] else ""
    state = build.Transpose(node.input(STATE), perm=[0, 1, 3, 2]) if node.input(STATE) else ""
    attributes = {
        "q_num_heads": layout.heads,
        "kv_num_heads": layout.heads,
        "update_rule": rule,
        "scale": node.attributes.get("scale", 0.0) or None,
    }
    y, after = build.emit("LinearAttention", [*lines[:3], state, *lines[3:]], attributes, outputs=2)
    results = [_as_given(node, y, layout), build.Transpose(after, perm=[0, 1, 3, 2]), ""]
    return results[: len(node.outputs)]


def _layout(node: Node) -> _Layout:
    query, value, state = (node.scope.shape(node.input(i)) if node.input(i) else None for i in (0, VALUE, STATE))
    if node.input(KEY):
        if query is None or value is None:
            raise CannotConvert(node, "the rank of query or value is unknown")
        sizes = [query[-2], value[-2], query[-1], value[-1]]
        lead = len(query) - 2
    else:
        heads, of_value, of_key = (state or [None] * 4)[1:]
        width = (query or [None])[-1]
        sizes, lead = [None, heads, of_key, of_value], node.rank() - 1
        if isinstance(width, int) and isinstance(heads, int) and isinstance(of_value, int) and isinstance(of_key, int):
            sizes[0] = (width - heads * of_value) // (2 * of_key)
    queries, heads, of_key, of_value = sizes
    if not (isinstance(queries, int) and isinstance(heads, int)):
        raise CannotConvert(node, "the number of heads is unknown")
    if not (isinstance(of_key, int) and isinstance(of_value, int)):
        raise CannotConvert(node, "the size of a head is unknown")
    if not node.input(ENDS):
        return _Layout(queries, heads, of_key, of_value, lead)
    return _Layout(queries, heads, of_key, of_value, lead, *_places(node))


def _places(node: Node) -> tuple[str, str]:
    build = node.build
    ends = build.Cast(node.input(ENDS), to=T.INT64)
    begin, end = (build.Unsqueeze(build.Slice(ends, [a], [b], [0]), [1]) for a, b in ((0, -1), (1, END)))
    lengths = build.Sub(end, begin)
    step = flat_indices.count(build, build.ReduceMax(lengths, keepdims=0))
    valid = build.Less(step, lengths)
    return str(build.Where(valid, build.Add(begin, step), 0)), str(valid)


def _wide(node: Node, index: int) -> str:
    return recast(node.build, node.input(index), node.elem_type(index), T.FLOAT)


def _apart(node: Node, layout: _Layout) -> list[str]:
    """Query, key and value in float32, each with an axis for its heads."""
    if node.input(KEY):
        return [_wide(node, index) for index in (0, KEY, VALUE)]
    build, of_keys = node.build, layout.queries * layout.key
    widths = build.constant([of_keys, of_keys, layout.heads * layout.value], T.INT64)
    parts = build.emit("Split", [_wide(node, 0), widths], {"axis": -1}, outputs=3)
    return [
        regroup(node, part, layout.lead, [heads, None])
        for part, heads in zip(parts, (layout.queries, layout.queries, layout.heads), strict=True)
    ]


def _normalize(node: Node, x: str) -> str:
    """x / sqrt(sum(x * x) + 1e-12)"""
    build = node.build
    squares = build.ReduceSum(build.Mul(x, x), [-1], keepdims=1)
    return str(build.Div(x, build.Sqrt(build.Add(squares, build.constant(TINY, T.FLOAT)))))


def _share_keys(node: Node, x: str, layout: _Layout) -> str:
    """Repeat each key for all heads of the values that share it."""
    build, many = node.build, layout.heads // layout.queries
    if many == 1:
        return x
    repeated = build.Expand(build.Unsqueeze(x, [-2]), [1] * (layout.lead + 1) + [many, 1])
    return regroup(node, repeated, layout.lead, [layout.heads, layout.key])


def _decay(node: Node, layout: _Layout) -> str:
    build, kind, decay = node.build, node.attributes.get("gate_activation", "none"), _wide(node, DECAY)
    if kind == "none":
        return decay
    if kind not in ("softplus", "qwen", "sigmoid", "kda"):
        raise CannotConvert(node, f"gate_activation={kind!r}", supported="none, softplus and sigmoid")
    if not (node.input(A_LOG) and node.input(BIAS)):
        raise CannotConvert(
            node, f"gate_activation={kind!r} needs a_log and dt_bias, and one is missing", supported="both inputs"
        )
    bias, rate = node.input(BIAS), build.Exp(node.input(A_LOG))
    if node.rank(DECAY) == layout.lead + 2:  # one for each element of a key
        bias, rate = build.Reshape(bias, [layout.heads, -1]), build.Unsqueeze(rate, [1])
    moved = build.Add(decay, bias)
    if kind in ("softplus", "qwen"):
        return str(build.Neg(build.Mul(rate, build.Softplus(moved))))
    bound = build.constant(node.attributes.get("gate_lower_bound", -5.0), T.FLOAT)
    return str(build.Mul(bound, build.Sigmoid(build.Mul(rate, moved))))


def _in_lines(node: Node, x: str, layout: _Layout) -> str:
    """(batch, length, all of a token)"""
    build = node.build
    token = x if len(build.scope.shape(x) or [None, None]) == layout.lead + 1 else regroup(node, x, layout.lead, [None])
    if layout.lead == 2:
        return token
    if layout.places:
        return str(build.Gather(token, layout.places, axis=0))
    if not node.input(STATE):
        raise CannotConvert(node, "neither cu_seqlens nor initial_state is given", supported="at least one of them")
    shape = build.Concat(build.Shape(node.input(STATE), end=1), [-1], build.Shape(token, start=1), axis=0)
    return str(build.Reshape(token, shape))


def _as_given(node: Node, y: str, layout: _Layout) -> str:
    build, elem_type = node.build, node.elem_type()
    y = recast(build, y, T.FLOAT, elem_type)
    if layout.lead == 2:
        return regroup(node, y, 2, [layout.heads, layout.value])
    tokens = build.Reshape(y, [-1, layout.heads, layout.value])
    if not layout.valid:
        return str(tokens)
    there = build.Squeeze(build.NonZero(build.Reshape(layout.valid, [-1])), [0])
    return str(build.Gather(tokens, there, axis=0))


defined("GatedDeltaNet", recurrence_over_packed_tokens, opset=27, domain=MICROSOFT)
