"""DecoderMaskedMultiHeadAttention: one query for each sequence, and a cache that is as long as it will ever be."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.attention import (
    addend,
    allowed_keys,
    attend,
    elem_type_of_scores,
    scores_as_declared,
    with_bias,
)
from opshift.passes.operators.shared.shapes import regroup, share_along
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
MASK, ADDED, PAST_KEY, PAST_VALUE, FILLED, BEAMS, BIAS = 3, 4, 5, 6, 7, 9, 10  # inputs


@says("Replaced DecoderMaskedMultiHeadAttention by TensorScatter into the cache and Attention")
def attention_of_one_query(node: Node) -> list[str]:
    if node.input(BEAMS):
        raise CannotConvert(
            node,
            "cache_indirection is given, so that the beams read each other's caches",
            supported="a call without it",
        )
    node.close("sums in another order")
    build, (query, key, value) = node.build, node.inputs[:3]
    heads, scores = node.attributes["num_heads"], bool(node.attributes.get("output_qk", 0)) and node.is_used(3)
    apart = bool(node.input(PAST_KEY)) or (bool(key) and node.rank(1) == 4)
    if not key:
        query, key, value = build.emit("Split", [query], {"axis": 2, "num_outputs": 3}, outputs=3)
    query, key, value = with_bias(node, [query, key, value], node.input(BIAS))
    present: list[str] = []
    if node.input(PAST_KEY):
        if not node.attributes.get("past_present_share_buffer", 0):
            raise CannotConvert(
                node, "past_key is given without past_present_share_buffer, and onnxruntime rejects that"
            )
        filled = build.Reshape(build.Cast(node.input(FILLED), to=T.INT64), [1])
        keys = build.Add(filled, 1)
        at = build.Expand(filled, build.Shape(query, end=1))
        for past, new in ((PAST_KEY, key), (PAST_VALUE, value)):
            row = regroup(node, new, 1, [heads, 1, None])
            present.append(build.TensorScatter(node.input(past), row, at, axis=2))
        key, value = (build.Slice(cache, [0], keys, [2]) for cache in present)
        number = build.Squeeze(keys)
    elif node.is_used(1) or node.is_used(2):
        raise CannotConvert(node, "present is used without past, and onnxruntime does not compute it then")
    else:
        number = share_along(node, key, 2, 1)
    mask = allowed_keys(node, MASK, share_along(node, query, 0, 1), number) if node.input(MASK) else ""
    elem_type = elem_type_of_scores(node, node.elem_type(), bool(mask))
    total = addend(node, mask, "", node.input(ADDED), elem_type, 1)
    made = attend(node, [query, key, value], total, [], elem_type, apart=apart, outputs=4 if scores else 1)
    results = [made[0], *(present or ["", ""]), scores_as_declared(node, made[3]) if scores else ""]
    return results[: len(node.outputs)]


defined("DecoderMaskedMultiHeadAttention", attention_of_one_query, opset=24, domain=MICROSOFT)
