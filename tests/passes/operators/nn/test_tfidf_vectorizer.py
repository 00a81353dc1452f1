"""TfIdfVectorizer by comparison: counts of n-grams as onnxruntime finds them."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check_computes, check_down, check_refused, check_values, model

TOKENS = np.array([[5, 6, 7, 7, 5, 6, 1, 5, 8, 7], [0, 0, 5, 9, 5, 6, 7, 7, 5, -6]])


def call(mode="TF", low=1, high=3, skip=0, weights="", **changes):
    """Two tokens, three pairs, one triple; their coordinates leave some out."""
    held = {
        "mode": f'"{mode}"', "min_gram_length": low, "max_gram_length": high, "max_skip_count": skip,
        "ngram_counts": "[0, 2, 8]", "ngram_indexes": "[6, 0, 3, 2, 7, 1]", "pool_int64s": "[5, 7, 5, 6, 7, 7, 0, 5, 5, 6, 7]",
        **({"weights": weights} if weights else {}), **changes,
    }  # fmt: skip
    return f"y = TfIdfVectorizer<{', '.join(f'{k}={v}' for k, v in held.items())}>(x)"


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("dims", ["2,10", "N,C", "10", "C"])
@pytest.mark.parametrize("lengths", [(1, 1), (1, 3), (2, 2), (3, 3), (2, 9)])
@pytest.mark.parametrize("skip", [0, 1, 5, 20])
def test_windows_are_compared_below_9(kind, dims, lengths, skip):
    tokens = (TOKENS if "," in dims else TOKENS[0]).astype(kind)
    io = {"inputs": f"{kind}[{dims}] x", "outputs": f"float[{'A,B' if ',' in dims else 'A'}] y"}
    check_down(call("TF", *lengths, skip=skip), 9, 8, 7, feeds={"x": tokens}, **io)


@pytest.mark.newest  # older kernels end the process where there are no weights to multiply with
@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("weights", ["", "[0.5, 1.25, -2.0, 0.0, 3.5, 0.1]"])
def test_counts_are_weighted_below_9(mode, weights):
    io = {"inputs": "int64[N,C] x", "outputs": "float[A,B] y"}
    check_down(call(mode, skip=2, weights=weights), 9, 8, 7, feeds={"x": TOKENS}, **io)
    check_down(call(mode, 2, 2, weights=weights), 9, 8, feeds={"x": TOKENS}, **io)


@pytest.mark.parametrize("shape", [(1, 1), (3, 0), (0, 4), (1, 2), (2, 5)])
def test_few_tokens_and_none(shape):
    io = {"inputs": "int64[N,C] x", "outputs": "float[A,B] y"}
    check_computes(call(skip=3), 9, 7, np.zeros([shape[0], 8], np.float32), feeds={"x": np.full(shape, 2)}, **io)


def test_no_length_is_wanted():
    expected = np.zeros([2, 8], np.float32)
    io = {"inputs": "int64[2,10] x", "outputs": "float[A,B] y"}
    check_computes(call(low=4, high=5), 9, 8, expected, feeds={"x": TOKENS}, **io)


def test_all_coordinates_are_counted_without_a_factor():
    body = call(ngram_indexes="[5, 0, 3, 2, 4, 1]")
    made = convert.attempt(model(body, 9, inputs="int64[2,10] x", outputs="float[A,B] y"), {"": 8}).model
    assert "Mul" not in {node.op_type for node in made.graph.node}
    check_down(body, 9, 8, feeds={"x": TOKENS}, inputs="int64[2,10] x", outputs="float[A,B] y")


TEXTS = call(skip=1).replace("pool_int64s=[5, 7, 5, 6, 7, 7, 0, 5, 5, 6, 7]", "pool_strings=[{}]").format(
    ", ".join(f'"{text}"' for text in ["b", "", "b", "c", "", "", "a", "b", "b", "c", ""])
)  # fmt: skip


@pytest.mark.parametrize("domains", ["", '"ai.onnx.ml" : 2'])
def test_strings_are_numbered(domains):
    io = {"inputs": "string[N,C] x", "outputs": "float[A,B] y", "domains": domains}
    texts = np.array(["a", "b", "c", "", "B"], object)[np.random.default_rng(0).integers(0, 5, (3, 20))]
    check_down(TEXTS, 9, 8, 7, feeds={"x": texts}, **io)


@pytest.mark.parametrize(
    ("body", "dims", "why"),
    [
        (call("TF", ngram_indexes="[6, 0, 3, 2, 3, 1]"), "4", "two n-grams share a coordinate"),
        (call(ngram_indexes="[6, 0, 3, 2, 7]"), "4", "6 n-grams, but another number of ngram_indexes"),
        (call("IDF", weights="[1.0, 2.0]"), "4", "6 n-grams, but another number of weights"),
        (call(ngram_indexes="[6, 0, 3, 2, 7, -1]"), "4", "a coordinate in ngram_indexes is negative"),
        (
            call(ngram_counts="[0, 1, 8]"),
            "4",
            "ngram_counts=[0, 1, 8] cuts an n-gram of the pool, which has 11 elements",
        ),
        (
            call(ngram_counts="[0, 12, 8]"),
            "4",
            "ngram_counts=[0, 12, 8] cuts an n-gram of the pool, which has 11 elements",
        ),
        (
            call(ngram_counts="[-1, 2, 8]"),
            "4",
            "ngram_counts=[-1, 2, 8] cuts an n-gram of the pool, which has 11 elements",
        ),
        (call(skip=-1), "4", "max_skip_count=-1; supported: 0 or more"),
        (call("LOG"), "4", "mode=LOG; supported: TF, IDF, TFIDF"),
        (call(), "1,2,3", "TfIdfVectorizer gets tokens of rank 3"),
    ],
)
def test_other_calls_are_refused_below_9(body, dims, why):
    check_refused(body, 9, 8, why, inputs=f"int64[{dims}] x", outputs="float[A] y")


def test_weights_that_are_not_finite_are_refused_below_9():
    source = model(
        call("TFIDF", weights="[1.0, 1.0, 1.0, 1.0, 1.0, 1.0]"), 9, inputs="int64[4] x", outputs="float[A] y"
    )
    held = next(a for a in source.graph.node[0].attribute if a.name == "weights")
    held.floats[1] = np.inf
    assert "infinite or NaN" in str(convert.attempt(source, {"": 8}).refusals[0])


def test_inside_a_function():
    source = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13, "own" : 1]> g (int64[2,10] x) => (float[A,B] y) { y = own.f(x) }'
        f'<domain: "own", opset_import: ["" : 13]> f (x) => (y) {{ {call(skip=2)} }}'
    )
    made = convert.attempt(source, {"": 8}).model
    check_values(source, made, {"x": TOKENS}, rtol=0, atol=0)
