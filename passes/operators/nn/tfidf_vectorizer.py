"""TfIdfVectorizer before it existed: every window of tokens is compared with every n-gram of the pool."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import categories
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto
END = 2**31 - 1
MODES = ("TF", "IDF", "TFIDF")


@says("Replaced TfIdfVectorizer by counting the windows of tokens that equal an n-gram")
def count_by_comparison(node: Node) -> str:
    build, rank, mode = node.build, node.rank(), node.attributes["mode"]
    if mode not in MODES:
        raise CannotConvert(node, f"mode={mode}", supported=f"{', '.join(MODES)}")
    if rank not in (1, 2):
        raise CannotConvert(node, f"TfIdfVectorizer gets tokens of rank {rank}", supported="rank 1 or 2")
    tokens, pool = _number(node)
    coordinates = np.array(node.attributes["ngram_indexes"])
    if len(set(coordinates)) < len(coordinates):
        raise CannotConvert(
            node, "two n-grams share a coordinate in ngram_indexes", supported="one coordinate for each n-gram"
        )
    counts, chosen, number = list[str](), list[int](), 0
    starts = [*node.attributes["ngram_counts"], len(pool)]
    _check_tables(node, starts)
    for length, (start, end) in enumerate(pairwise(starts), 1):
        grams = np.array(pool[start:end], np.int64).reshape(-1, length)
        if len(grams) and node.attributes["min_gram_length"] <= length <= node.attributes["max_gram_length"]:
            counts.append(_counts(node, tokens, grams))
            chosen += range(number, number + len(grams))
        number += len(grams)
    weights = np.ones(number) if mode == "TF" else np.array(node.attributes.get("weights", np.ones(number)))
    places, weights = np.full(coordinates.max() + 1, len(chosen)), weights[chosen]
    places[coordinates[chosen]] = np.arange(len(chosen))
    if len(chosen) < len(places):  # coordinates for which nothing is counted
        counts, weights = [*counts, _counts(node, tokens, np.zeros([1, 1], np.int64))], np.append(weights, 0)
    if not np.isfinite(weights).all():
        raise CannotConvert(node, "a weight of the attribute weights is infinite or NaN", supported="finite weights")
    result = build.Concat(*counts, axis=rank - 1) if len(counts) > 1 else counts[0]
    if mode == "IDF":
        result = build.Cast(build.Cast(result, to=T.BOOL), to=T.FLOAT)
    if (weights != 1).any():
        result = build.Mul(result, build.constant(weights, T.FLOAT))
    return str(build.Gather(result, build.constant(places, T.INT64), axis=rank - 1))


def _check_tables(node: Node, starts: list[int]) -> None:
    """Runtimes read what lies behind tables that are too short, and refuse others."""
    spans = list(pairwise(starts))
    if starts[0] < 0 or any(end < start or (end - start) % length for length, (start, end) in enumerate(spans, 1)):
        raise CannotConvert(
            node,
            f"ngram_counts={starts[:-1]} cuts an n-gram of the pool, which has {starts[-1]} elements",
            supported="counts of whole n-grams",
        )
    number = sum((end - start) // length for length, (start, end) in enumerate(spans, 1))
    for name in ("ngram_indexes", "weights")[: 1 if node.attributes["mode"] == "TF" else 2]:
        if not number or len(node.attributes.get(name, range(number))) != number:
            raise CannotConvert(
                node, f"there are {number} n-grams, but another number of {name}", supported="one for each n-gram"
            )
    if (skipped := node.attributes["max_skip_count"]) < 0:
        raise CannotConvert(node, f"max_skip_count={skipped}", supported="0 or more")
    if min(node.attributes["ngram_indexes"]) < 0:
        raise CannotConvert(node, "a coordinate in ngram_indexes is negative", supported="0 or more")


def _number(node: Node) -> tuple[str, list[int]]:
    """The tokens and the pool as int64; strings become their first places in the pool, others -1."""
    build, x = node.build, node.input(0)
    if "pool_strings" not in node.attributes:
        return x if node.elem_type() == T.INT64 else build.Cast(x, to=T.INT64), node.attributes["pool_int64s"]
    texts = node.attributes["pool_strings"]
    known = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return categories(node, x, list(known), known.values(), -1), [known[text] for text in texts]


def _counts(node: Node, tokens: str, grams: np.ndarray[Any, Any]) -> str:
    """How often each of some n-grams of one length occurs, with every distance that its tokens may have."""
    build, rank, length = node.build, node.rank(), grams.shape[1]
    farthest = node.attributes["max_skip_count"] + 1 if length > 1 else 1
    total = ""
    for distance in range(1, farthest + 1):
        span, equal = (length - 1) * distance, ""
        for k, token in enumerate(grams.T):
            shift = k * distance
            window = build.Slice(tokens, axes=[rank - 1], starts=[shift], ends=[shift - span or END])
            here = build.Equal(build.Unsqueeze(window, axes=[rank]), build.constant(token, T.INT64))
            equal = build.And(equal, here) if equal else here
        found = build.ReduceSum(build.Cast(equal, to=T.FLOAT), axes=[rank - 1], keepdims=0)
        total = build.Add(total, found) if total else found
    return total


changed("TfIdfVectorizer", 9, Pair(down=count_by_comparison))
