"""Strings, which older operators move, look up among known ones and, from opset 19 on, compare, but never change."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import categories
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, cannot, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced StringNormalizer by comparing with the stop words and Gather")
def stop_words_looked_up(node: Node) -> str:
    build, x, action = node.build, node.input(0), node.attributes.get("case_change_action", "NONE")
    if action != "NONE":
        raise CannotConvert(
            node, f"case_change_action={action} changes the case of letters, which no operator of opset 9 does"
        )
    words = list(dict.fromkeys(node.attributes.get("stopwords", [])))
    if not words:
        return str(build.Identity(x))
    if not node.attributes.get("is_case_sensitive", 0):
        raise CannotConvert(node, "is_case_sensitive=0 compares without case, which no operator of opset 9 does")
    rank = node.rank()
    flat = build.Reshape(x, [-1]) if rank > 1 else x
    kept = build.Equal(categories(node, flat, words, range(1, len(words) + 1), 0), 0)
    number = build.ReduceSum(build.Cast(kept, to=T.INT64), axes=[0], keepdims=1)
    candidates = build.Concat(flat, build.constant([""], T.STRING), axis=0)
    result = build.Compress(candidates, build.Concat(kept, build.Equal(number, 0), axis=0), axis=0)
    return str(build.Reshape(result, [1, -1]) if rank > 1 else result)


changed("StringNormalizer", 10, Pair(down=stop_words_looked_up))
cannot("StringConcat", 20, "no operator below opset 20 joins strings")
cannot("StringSplit", 20, "no operator below opset 20 splits strings")
cannot("RegexFullMatch", 20, "no operator below opset 20 matches a regular expression")
