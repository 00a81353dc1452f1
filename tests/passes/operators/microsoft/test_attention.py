"""Attention and MultiHeadAttention over the masks, caches and outputs that the kernels run: a sample of each kind."""

import numpy as np
import onnx
import pytest
from opshift.passes.conversion import convert

from opshift.verification.engines import OnnxRuntime
from tests.passes.operators.microsoft.harness import (
    FLOAT,
    Call,
    calls,
    check,
    check_refused,
    feeds,
    inlined,
    model,
)
from tests.support import evaluate, show

B, S, N, P = 2, 3, 2, 2  # batch, queries, heads, tokens in the past


def masks(keys, starts=True, queries=S):
    """One of each kind that a kernel reads; a query without keys is tested apart, for -10000 has steps of 0.001."""
    rng = np.random.default_rng(1)
    rows, square = rng.integers(0, 2, (B, keys)), rng.integers(0, 2, (B, queries, keys))
    rows[:, 0] = square[:, :, 0] = 1
    held = [np.array([2, keys]), np.arange(3 * B + 2) + 1, rows, square]
    held += [np.array([keys, 2, 1, 0])] if starts else []
    return [mask.astype(np.int32) for mask in held]


@pytest.mark.long
@pytest.mark.parametrize(("sizes", "past", "ran"), [(None, False, 12), ([4, 4, 4], True, 9), ([8, 8, 12], False, 5)])
def test_attention(sizes, past, ran):
    total, keys = sum(sizes or [24]), S + P if past else S
    made = calls(
        "Attention",
        {
            "input": (B, S, 8),
            "weights": (8, total),
            "bias": (total,),
            "mask_index": masks(keys),
            "past": (2, B, N, P, sizes[0] // N) if past else None,
            "attention_bias": None if past else [(1, 1, S, keys), (B, N, S, keys)],
        },
        {
            "num_heads": [N],
            "unidirectional": [None, 1],
            "qkv_hidden_sizes": [sizes],
            "scale": [None, 0.3, -0.2],
            "mask_filter_value": [None, -5.0],
        },
        outputs=["present"],
    )
    biased = [call for call in made if call.inputs[2] is not None]  # without, the kernel crashes
    if past:
        biased = [call for call in biased if call.inputs[4] is not None and call.outputs[1]]
    if sizes == [8, 8, 12]:
        biased = [call for call in biased if not call.outputs[1]]
    assert check(biased[:: 1 + len(biased) // (ran + 1)][:ran], grade="close") == ran


@pytest.mark.long
@pytest.mark.parametrize(
    ("new", "past", "cached", "width", "queries", "ran"),
    [(3, 2, 0, 8, 3, 11), (5, 0, 0, 12, 3, 9), (2, 0, 1, 8, 3, 7), (1, 3, 0, 8, 1, 5)],
)
def test_multi_head_attention(new, past, cached, width, queries, ran):
    """With unequal lengths, unidirectional excludes no key from the last query."""
    keys = new + past
    made = calls(
        "MultiHeadAttention",
        {
            "query": (B, queries, 8),
            "key": (B, N, new, 4) if cached else (B, new, 8),
            "value": (B, N, new, width // N) if cached else (B, new, width),
            "bias": None if cached else (16 + width,),
            "key_padding_mask": masks(keys, False, queries),
            "attention_bias": [(1, 1, queries, keys), (B, N, queries, keys)],
            "past_key": (B, N, past, 4) if past else None,
            "past_value": (B, N, past, width // N) if past else None,
        },
        {"num_heads": [N], "unidirectional": [None, 1], "scale": [None, 0.3], "mask_filter_value": [None, -5.0]},
        outputs=["present_key", "present_value", "qk"],
        fits=lambda given, asked: given[1] and given[2] and given[6] == given[7] and asked[1] == asked[2],
    )
    if past:  # which the kernel ignores where nobody asks for present
        made = [call for call in made if call.inputs[6] is not None and call.outputs[1]]
    assert check(made[:: 1 + len(made) // (ran + 1)][:ran], grade="close") == ran


@pytest.mark.parametrize("asked", [(False, False), (True, False), (False, True)])
def test_a_past_of_which_no_present_is_made_is_refused(asked):
    """The kernel forgets it, and yields other numbers at every run where one half of it is asked for."""
    x, past = np.ones((B, S, 8), FLOAT), np.ones((B, N, P, 4), FLOAT)
    call = Call("MultiHeadAttention", (x, x, x, None, None, None, past, past), (True, *asked), {"num_heads": N})
    check_refused([call], "past is given without present")


def test_only_1_is_unidirectional():
    given = {"input": (B, S, 8), "weights": (8, 24), "bias": (24,)}
    made = calls("Attention", given, {"num_heads": [N], "unidirectional": [0, 1, 2, -1]}, types=[FLOAT])
    assert check([call for call in made if call.inputs[2] is not None], grade="close", opsets=(13,)) == 4


def test_a_query_without_keys_attends_to_all():
    nothing = np.zeros((B, S), np.int32)
    made = calls(
        "MultiHeadAttention",
        {"query": (B, S, 8), "key": (B, S, 8), "value": (B, S, 8), "key_padding_mask": nothing},
        {"num_heads": [N], "mask_filter_value": [-5.0, -1e5, -3e38]},
    )
    made = [call for call in made if all(x is not None for x in call.inputs[:3])]
    assert check(made, grade="close") == 12


@pytest.mark.parametrize("op", ["Attention", "MultiHeadAttention"])
def test_at_the_opset_of_attention(op):
    """Above opset 22 Attention stays what it is, at 24 and later with another text of its masks."""
    given = {"Attention": {"input": (B, S, 8), "weights": (8, 24), "bias": (24,), "mask_index": masks(S)}}
    given["MultiHeadAttention"] = {**dict.fromkeys(("query", "key", "value"), (B, S, 8)), "bias": (24,)}
    made = calls(op, given[op], {"num_heads": [N], "unidirectional": [None, 1]}, types=[FLOAT])
    made = [call for call in made if call.inputs[2] is not None and call.inputs[1] is not None]
    assert check(made, grade="close", opsets=(23, 24, 26)) == (12 if op == "Attention" else 4)


@pytest.mark.parametrize("opset", [23, 26])
@pytest.mark.parametrize("attributes", [{}, {"unidirectional": 1}])
@pytest.mark.parametrize("mask", [[[1, 1, 0], [0, 0, 0]], [3, 0]])
def test_the_kernel_of_attention_itself(mask, attributes, opset):
    """It asks for a row of the mask for each query, and takes the least number of all for -inf."""
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(B, S, 8)).astype(FLOAT) for _ in range(3)]
    for least in (-10000.0, -3.4028234663852886e38):
        inputs = (*x, None, np.array(mask, np.int32))
        call = Call("MultiHeadAttention", inputs, (True,), {"num_heads": N, "mask_filter_value": least, **attributes})
        (want,), (got,) = (OnnxRuntime(m).run(feeds([call])) for m in (model([call]), inlined(model([call]), opset)))
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=1e-5)


def test_without_bias_and_packed():
    """Forms that only GPUs run compute what the one written apart computes."""
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(B, S, N, 4)).astype(FLOAT) for _ in range(3)]
    flat = tuple(v.reshape(B, S, 8) for v in x)
    (want,) = results(Call("MultiHeadAttention", flat, (True,), {"num_heads": N}))
    for packed in ((np.stack(x, 3),), (flat[0], np.stack(x[1:], 3))):
        (got,) = results(Call("MultiHeadAttention", packed, (True,), {"num_heads": N}))
        np.testing.assert_allclose(got, want, rtol=1e-6)


def results(call):
    return evaluate(inlined(model([call]), 21), feeds([call]))


def test_what_cannot_be_said_is_refused():
    attention = {"input": (B, S, 8), "weights": (8, 24), "bias": (24,)}
    for name in ("do_rotary", "past_present_share_buffer"):
        check_refused(calls("Attention", attention, {"num_heads": [N], name: [1]})[:1], f"{name}=1")
    square = np.ones((B, 1, 8, 8), np.int32)
    check_refused(
        calls("Attention", {**attention, "mask_index": square}, {"num_heads": [N]})[:1], "gets a mask of rank 4"
    )
    sizes = {"num_heads": [N], "qkv_hidden_sizes": [[8, 8, 12]]}
    wide = {"input": (B, S, 8), "weights": (8, 28), "bias": (28,)}
    check_refused(calls("Attention", wide, sizes, outputs=["present"])[:1], "keys and values have different sizes")
    beams = np.zeros((B, 1, 8), np.int32)
    x = np.ones((B, S, 8), FLOAT)
    shared = Call("MultiHeadAttention", (x, x, x, *[None] * 6, beams), (True,), {"num_heads": N})
    check_refused([shared], "past and present share a buffer")
    check_refused([Call("MultiHeadAttention", (x,), (True,), {"num_heads": N})], "there is no key")
    check_refused([Call("MultiHeadAttention", (x, x), (True,), {"num_heads": N})], "without value")


@pytest.mark.parametrize("past", [False, pytest.param(True, marks=pytest.mark.long)])
def test_attention_of_integers(past):
    rng, keys = np.random.default_rng(2), S + P if past else S
    made = []
    for kind, scales in ((np.uint8, ()), (np.int8, (24,))):
        given = {
            "input": rng.integers(0, 256, (B, S, 8)).astype(np.uint8),
            "weight": rng.integers(0, 100, (8, 24)).astype(kind),
            "bias": (24,),
            "input_scale": np.array(0.02),
            "weight_scale": np.full(scales, 0.03),
            "mask_index": masks(keys),
            "input_zero_point": np.array(120, np.uint8),
            "weight_zero_point": np.full(scales, 50, kind),
            "past": (2, B, N, P, 4) if past else None,
        }
        flags = {"num_heads": [N], "unidirectional": [None, 1], "mask_filter_value": [None, -5.0]}
        made += calls("QAttention", given, flags, outputs=["present"], types=[FLOAT])
    made = [call for call in made if call.inputs[6] is not None]
    if past:
        made = [call for call in made if call.inputs[8] is not None and call.outputs[1]]
    assert check(made[:: 1 + len(made) // 7][:6], grade="close", opsets=(21, 13)) == 6


def test_in_a_branch_and_in_a_function():
    text = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "own" : 1]>
    g (bool c, float[b,s,8] x) => (float[b,s,8] y) {
        a = own.attend(x)
        y = If(c) <then_branch = t () => (float[b,s,8] u) { u = com.microsoft.MultiHeadAttention<num_heads = 2, unidirectional = 1>(a, x, a) },
                   else_branch = e () => (float[b,s,8] v) { v = com.microsoft.MultiHeadAttention<num_heads = 4>(x, a, a) }>
    }
    <domain: "own", opset_import: ["" : 17, "com.microsoft" : 1]> attend (x) => (z) {
        z, k, v = com.microsoft.MultiHeadAttention<num_heads = 2, scale = 0.4>(x, x, x)
    }"""
    source, x = onnx.parser.parse_model(text), np.random.default_rng(0).normal(size=(B, S, 8)).astype(FLOAT)
    for target in (13, 21, 24):
        made = convert.attempt(source, {"": target}, ops=[("com.microsoft", "MultiHeadAttention")])
        assert made.model is not None, "\n".join(map(str, made.refusals))
        onnx.checker.check_model(made.model)
        assert "com.microsoft" not in show(made.model)
        for c in (True, False):
            given = {"x": x, "c": np.array(c)}
            np.testing.assert_allclose(evaluate(made.model, given)[0], evaluate(source, given)[0], rtol=1e-4, atol=1e-5)
