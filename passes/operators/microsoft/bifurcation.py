"""BifurcationDetector: how far predicted tokens are those of a source, and where the source holds what came last."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

END = 2**63 - 1


@says("Replaced BifurcationDetector by comparing predicted tokens and n-grams with the source")
def predicted_and_found(node: Node) -> list[str]:
    build, (source, tokens) = node.build, node.inputs[:2]
    previous = build.Reshape(node.input(2), [-1])
    if predicted := node.input(3):
        rest = build.Slice(source, previous, [END], [0])
        other = build.Not(build.Equal(build.Slice(predicted, [0], [-1], [0]), rest))
        first = build.ArgMax(build.Concat(build.Cast(other, to=TensorProto.INT64), [1], axis=0), axis=0, keepdims=1)
        tokens = build.Concat(tokens, build.Slice(predicted, [0], build.Add(first, 1), [0]), axis=0)
    least, most = node.attributes["min_ngram_size"], node.attributes["max_ngram_size"]
    return [tokens, build.Reshape(_find(node, source, tokens, least, most), build.Shape(node.input(2)))]


def _find(node: Node, source: str, tokens: str, least: int, most: int) -> str:
    """Behind which place of the source the longest n-gram ends that it holds; -1 where it holds that again, or none."""
    build = node.build
    padded, length = build.Concat([0] * most, tokens, axis=0), build.Shape(tokens)
    ends = build.Range(1, build.Add(build.Squeeze(build.Shape(source)), 1), 1)
    found, alike = build.constant([-1], TensorProto.INT64), ""
    for n in range(1, most + 1):
        token = build.Slice(padded, [-n], [1 - n if n > 1 else END], [0])
        same = build.Equal(build.Slice(source, [0], [1 - n], [0]) if n > 1 else source, token)
        if alike:
            ends, alike = (build.Slice(of, [1], [END], [0]) for of in (ends, alike))
        alike = build.And(alike, same) if alike else same
        if n < least:
            continue
        held = build.Cast(alike, to=TensorProto.INT64)
        count, end = (build.ReduceSum(of, [0], keepdims=1) for of in (held, build.Mul(held, ends)))
        known = build.And(build.Greater(count, 0), build.LessOrEqual(build.constant([n], TensorProto.INT64), length))
        found = build.Where(known, build.Where(build.Equal(count, 1), end, -1), found)
    return str(found)


defined("BifurcationDetector", predicted_and_found, opset=13, domain=MICROSOFT)
