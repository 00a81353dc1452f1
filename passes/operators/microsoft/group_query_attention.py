"""GroupQueryAttention: Attention over a cache, into which new keys and values go where each sequence ends.

A sequence b has begin[b] tokens before the new ones: none in a first prompt, which is as long as the total, else
seqlens_k[b] + 1 minus the new ones, of which query_seqlens tells how many there are where rows behind them are padding.
Behind its end a cache holds zeros, which no query sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.operators.shared.shapes import regroup, share_along
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
PAST, ENDS, TOTAL, COSINE, SINE, POSITIONS, ADDED, SINK = 3, 5, 6, 7, 8, 9, 10, 11  # inputs
QUERY_NORM, KEY_NORM, VALID = 14, 15, 16
EPSILON = {QUERY_NORM: "q_norm_epsilon", KEY_NORM: "k_norm_epsilon"}
END = 2**63 - 1
MODES = {1: 2, 2: 3}  # qk_output, before and after Softmax, and what Attention calls it


@dataclass(frozen=True)
class _Lengths:
    new: Size
    total: Size
    begin: str  # what precedes the new tokens of each sequence, as a vector; "" where nothing does
    end: str
    first: str  # whether this is the first prompt; "" where it is known to be


@says("Replaced GroupQueryAttention by RotaryEmbedding, TensorScatter into the cache, and Attention with a mask")
def attention_over_a_cache(node: Node) -> list[str]:
    _refuse_windows_and_integers(node)
    _refuse_padding(node)
    node.close("sums in another order")
    build, shared = node.build, node.attributes["kv_num_heads"]
    query, key, value = _apart(node, node.attributes["num_heads"], shared)
    lengths = _lengths(node)
    query, key = _normalize(node, query, QUERY_NORM), _normalize(node, key, KEY_NORM)
    if node.attributes.get("do_rotary", 0):
        positions = _positions(node, lengths)
        query, key = _rotate(node, query, positions), _rotate(node, key, positions)
    present = [key, value]
    if node.input(PAST):
        present = [_append_to_cache(node, node.input(PAST + k), new, lengths) for k, new in enumerate((key, value))]
        key, value = (build.Slice(cache, [0], flat_indices.vector(build, [lengths.total]), [2]) for cache in present)
    y, scores = _attend(node, [query, key, value], lengths)
    return [y, *present, scores][: len(node.outputs)]


def _refuse_windows_and_integers(node: Node) -> None:
    if node.attributes.get("sliding_window_cache", 0):
        raise CannotConvert(node, "sliding_window_cache=1 makes the cache drop old entries", supported="0")
    for name in ("k_quant_type", "v_quant_type"):
        if (kind := node.attributes.get(name, "NONE")) != "NONE":
            raise CannotConvert(node, f"{name}={kind!r} means that the cache is quantized", supported="NONE")


def _refuse_padding(node: Node) -> None:
    if node.input(VALID) and not (node.input(PAST) and node.attributes.get("causal", 1)):
        raise CannotConvert(
            node,
            "query_seqlens is given without past, or with causal=0",
            supported="query_seqlens with past and causal=1",
        )


def _apart(node: Node, heads: int, shared: int) -> list[str]:
    """Query, key and value as (batch, heads, length, size), from one input where they are packed."""
    build, values, counts = node.build, list(node.inputs[:3]), (heads, shared, shared)
    if not values[1]:
        size = share_along(node, values[0], 2, sum(counts))
        widths = flat_indices.vector(build, [flat_indices.times(build, size, n) for n in counts])
        values = build.emit("Split", [values[0], widths], {"axis": 2}, outputs=3)
    pairs = zip(values, counts, strict=True)
    return [str(build.Transpose(regroup(node, x, 2, [n, None]), perm=[0, 2, 1, 3])) for x, n in pairs]


def _lengths(node: Node) -> _Lengths:
    build, new = node.build, share_along(node, node.input(0), 1, 1)
    end = build.Add(build.Cast(build.Reshape(node.input(ENDS), [-1]), to=T.INT64), 1)
    if not node.input(PAST):
        return _Lengths(new, new, "", end, "")
    total = build.Squeeze(build.Reshape(build.Cast(node.input(TOTAL), to=T.INT64), [1]))
    if node.input(VALID):
        return _Lengths(new, total, build.Sub(end, build.Cast(node.input(VALID), to=T.INT64)), end, "")
    first = build.Equal(total, new)
    return _Lengths(new, total, build.Where(first, 0, build.Sub(end, new)), end, first)


def _positions(node: Node, lengths: _Lengths) -> str:
    """The position of each new token; in a first prompt the kernel counts on from the very first."""
    build, given = node.build, node.input(POSITIONS)
    token = build.Unsqueeze(flat_indices.count(build, lengths.new), [0])
    everywhere = build.Concat(build.Shape(node.input(0), end=1), [1], axis=0)
    if given and node.input(VALID):
        return given
    if given:
        at_first = build.Add(build.Slice(given, [0, 0], [1, 1], [0, 1]), token)
        return str(build.Where(lengths.first, at_first, given) if lengths.first else build.Expand(at_first, everywhere))
    if lengths.begin:
        return str(build.Add(build.Unsqueeze(lengths.begin, [1]), token))
    return str(build.Expand(token, everywhere))


def _normalize(node: Node, x: str, index: int) -> str:
    epsilon = node.attributes.get(EPSILON[index], node.attributes.get("qk_norm_epsilon", 1e-6))
    return str(node.build.RMSNormalization(x, node.input(index), epsilon=epsilon)) if node.input(index) else x


def _rotate(node: Node, x: str, positions: str) -> str:
    cosine, sine = node.input(COSINE), node.input(SINE)
    if not cosine or not sine:
        raise CannotConvert(
            node, "do_rotary=1 needs cos_cache and sin_cache, and one is missing", supported="both inputs"
        )
    build, turning = node.build, {"interleaved": 1 if node.attributes.get("rotary_interleaved", 0) == 1 else None}
    width, size = (node.scope.shape(cosine) or [None])[-1], (build.scope.shape(x) or [None])[-1]
    if isinstance(width, int) and isinstance(size, int):
        turning["rotary_embedding_dim"] = None if size == 2 * width else 2 * width
        return str(build.emit("RotaryEmbedding", [x, cosine, sine, positions], turning))
    end = build.Mul(build.Shape(cosine, start=-1), 2)
    turned = build.emit("RotaryEmbedding", [build.Slice(x, [0], end, [3]), cosine, sine, positions], turning)
    return str(build.Concat(turned, build.Slice(x, end, [END], [3]), axis=3))


def _append_to_cache(node: Node, past: str, new: str, lengths: _Lengths) -> str:
    """The new rows behind those of the past; a past that is longer than the total is the buffer to put them in."""
    build, held = node.build, share_along(node, past, 2, 1)
    row = flat_indices.count(build, held)
    before = build.Less(build.Unsqueeze(row, [0]), build.Unsqueeze(lengths.begin, [1]))
    nothing = build.constant(0.0, node.elem_type())
    kept = build.Where(build.Unsqueeze(before, [1, 3]), past, nothing)
    missing = build.Max(build.Sub(lengths.total, held), 0)
    longer = build.Pad(kept, build.Concat([0], build.Reshape(missing, [1]), axis=0), None, [2])
    cache = str(build.TensorScatter(longer, new, lengths.begin, axis=2))
    if not node.input(VALID):
        return cache
    row = flat_indices.count(build, build.Max(lengths.total, held))
    within = build.Less(build.Unsqueeze(row, [0]), build.Unsqueeze(lengths.end, [1]))
    return str(build.Where(build.Unsqueeze(within, [1, 3]), cache, nothing))  # without the padding


def _attend(node: Node, values: list[str], lengths: _Lengths) -> tuple[str, str]:
    """What the queries attend to, with heads side by side, and the scores where they are asked for."""
    build, elem_type, saved = node.build, node.elem_type(), node.attributes.get("qk_output", 0)
    saved = saved if node.is_used(3) else 0
    sink = _sink(node, elem_type)
    query, key, value = values
    causal = not lengths.begin and node.attributes.get("causal", 1) and not saved and not sink
    causal = causal and node.attributes.get("local_window_size", -1) < 0 and not node.input(ADDED)
    mask = allowed = "" if causal else _keys_to_attend(node, lengths)
    if mask and (sink or node.input(ADDED)):
        nothing = build.constant(0.0, elem_type)
        mask = build.Where(allowed, node.input(ADDED) or nothing, build.constant(-inf, elem_type))
    if sink:  # one more key, whose score is the sink and whose value is 0
        key, value = (build.Pad(of, [0, 1], None, [2]) for of in (key, value))
        column = _column(node, lengths)
        mask = build.Concat(build.Expand(mask, column), build.Expand(sink, column), axis=3)
    scale = node.attributes.get("scale", 0.0)
    attributes = {
        "is_causal": 1 if causal else None,
        "scale": abs(scale) or None,
        "softcap": node.attributes.get("softcap", 0.0) or None,
        "qk_matmul_output_mode": MODES.get(saved),
    }
    if scale < 0:  # of which Attention takes the root
        query = build.Neg(query)
    made = build.emit("Attention", [query, key, value, mask], attributes, outputs=4 if saved else 1)
    y, *rest = [made] if isinstance(made, str) else made
    y = regroup(node, build.Transpose(y, perm=[0, 2, 1, 3]), 2, [None])
    return y, build.Where(allowed, _without_sink(node, rest[-1], sink), build.constant(0.0, elem_type)) if rest else ""


def _keys_to_attend(node: Node, lengths: _Lengths) -> str:
    """Which keys each query attends to, as (batch, 1, queries, keys)."""
    build, window = node.build, node.attributes.get("local_window_size", -1)
    key = flat_indices.count(build, lengths.total)
    if not node.attributes.get("causal", 1):
        rows = flat_indices.vector(build, [lengths.new, 1])
        return str(build.Less(key, build.Expand(build.Unsqueeze(lengths.end, [1, 2, 3]), rows)))
    query = build.Unsqueeze(flat_indices.count(build, lengths.new), [1])
    if lengths.begin:
        query = build.Add(build.Unsqueeze(lengths.begin, [1, 2, 3]), query)
    else:
        query = build.Unsqueeze(query, [0, 1])
    allowed = build.LessOrEqual(key, query)
    return str(build.And(allowed, build.Greater(key, build.Sub(query, window))) if window >= 0 else allowed)


def _sink(node: Node, elem_type: int) -> str:
    """What each head adds to the sum of Softmax, as a score."""
    if node.input(SINK):
        return str(node.build.Reshape(node.input(SINK), [1, -1, 1, 1]))
    smooth = node.attributes.get("smooth_softmax", -1) == 1
    return node.build.constant([[[[0.0]]]], elem_type) if smooth else ""


def _column(node: Node, lengths: _Lengths) -> str:
    build, heads = node.build, node.attributes["num_heads"]
    batch = share_along(node, node.input(0), 0, 1)
    return flat_indices.vector(build, [batch, heads, lengths.new, 1])


def _without_sink(node: Node, scores: str, sink: str) -> str:
    return str(node.build.Slice(scores, [0], [-1], [3])) if sink else scores


defined("GroupQueryAttention", attention_over_a_cache, opset=24, domain=MICROSOFT)
