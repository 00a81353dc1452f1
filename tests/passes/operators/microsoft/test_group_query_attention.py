"""GroupQueryAttention: prompts, tokens and what continues a cache, of uniform and of ragged lengths."""

import numpy as np
import pytest

from opshift.verification.engines import OnnxRuntime
from tests.passes.operators.microsoft.harness import (
    FLOAT,
    Call,
    calls,
    check,
    check_refused,
    computed,
    feeds,
    inlined,
    model,
)
from tests.support import evaluate

N, K, H = 4, 2, 16  # heads of the query, heads of the key, size of a head
FORMS = {  # batch, new tokens, length of the cache, total, seqlens_k
    "prompt": (2, 3, None, 3, [2, 2]),
    "prompt in a buffer": (2, 3, 8, 3, [2, 2]),
    "padded prompt": (2, 3, None, 3, [1, 2]),
    "padded prompt in a buffer": (2, 3, 8, 3, [1, 2]),
    "token": (2, 1, 4, 5, [4, 4]),
    "ragged tokens in a buffer": (2, 1, 8, 5, [4, 2]),
    "ragged tokens": (2, 1, 4, 5, [4, 2]),
    "continued": (1, 3, 4, 7, [6]),
}


def given(form, *, packed=False, turned=0, **others):
    batch, new, held, total, ends = FORMS[form]
    angles = np.random.default_rng(5).normal(size=(12, turned // 2))
    shapes = {
        "query": (batch, new, (N + 2 * K) * H) if packed else (batch, new, N * H),
        "key": None if packed else (batch, new, K * H),
        "value": None if packed else (batch, new, K * H),
        **dict.fromkeys(("past_key", "past_value"), (batch, K, held, H) if held is not None else None),
        "seqlens_k": np.array(ends, np.int32),
        "total_sequence_length": np.array([total], np.int32),
        "cos_cache": np.cos(angles) if turned else None,
        "sin_cache": np.sin(angles) if turned else None,
    }
    return {**shapes, **others}


def made(form, attributes, outputs=(), every=1, **options):
    inputs = given(form, **options)
    if options.get("turned"):
        attributes = {**attributes, "do_rotary": [1]}
    attributes = {"num_heads": [N], "kv_num_heads": [K], **attributes}
    found = calls(
        "GroupQueryAttention", inputs, attributes, outputs=["present_key", "present_value", *outputs], seed=len(form)
    )
    needed = [i for i, (name, held) in enumerate(inputs.items()) if held is not None and i < 9]
    found = [call for call in found if all(call.inputs[i] is not None for i in needed)]
    return [call for call in found if call.outputs[1] and call.outputs[2] and call.outputs[3] == bool(outputs)][::every]


@pytest.mark.parametrize("form", [form for form in FORMS if "padded" not in form])
def test_every_form(form):
    batch, new, _, total, _ = FORMS[form]
    bias = (batch, N, new, total)
    found = made(form, {"softcap": [None, 0.5], "local_window_size": [None, 2]}, every=4, attention_bias=bias)
    found += made(form, {"smooth_softmax": [None, 1]}, every=3, packed=True, turned=16, head_sink=(N,))
    assert check(found, grade="close", opsets=(24, 13)) == 4 + 3


@pytest.mark.long
@pytest.mark.parametrize("form", ["prompt", "continued"])
def test_scores(form):
    attributes = {"qk_output": [1, 2], "softcap": [None, 0.5], "local_window_size": [None, 2]}
    found = made(
        form, attributes, ["output_qk"], every=5, head_sink=(N,)
    )  # onnxruntime mixes up the buffers of several
    assert sum(check([call], grade="close", opsets=(24, 13)) for call in found) == 7


@pytest.mark.long
def test_part_of_a_head_is_turned_and_positions_are_given():
    for form, positions in (("token", np.array([[3], [1]])), ("prompt", np.array([[4, 0, 2], [1, 1, 0]]))):
        for turned, interleaved in ((16, 1), (8, None)):
            wide = {"turned": turned, "position_ids": positions}
            found = made(form, {"rotary_interleaved": [interleaved]}, **wide)
            if turned == 16:
                assert check(found, grade="close", opsets=(21, 13)) == 4


def test_all_keys_are_attended_where_it_is_not_causal():
    assert check(made("ragged tokens", {"causal": [0], "scale": [None, -0.3]}), grade="close", opsets=(24, 13)) == 4


def test_what_cannot_be_said_is_refused():
    window = {"sliding_window_cache": [1], "local_window_size": [3]}
    check_refused(made("token", window)[:1], "sliding_window_cache=1")
    check_refused(made("token", {"k_quant_type": ["PER_TENSOR"]})[:1], "k_quant_type='PER_TENSOR'")
    padded = made("prompt", {}, query_seqlens=np.array([1, 2], np.int32))
    check_refused([call for call in padded if call.inputs[16] is not None][:1], "query_seqlens is given without past")
    check_refused(made("prompt", {"do_rotary": [1]})[:1], "do_rotary=1 needs cos_cache")


def test_scores_that_are_not_asked_for_are_refused():
    """The kernel leaves what lies in memory."""
    check_refused(
        made("prompt", {}, ["output_qk"])[:1], "is used, but the operator's documentation does not say what it means"
    )


@pytest.mark.parametrize("own", [{}, {"q_norm_epsilon": 0.1, "k_norm_epsilon": 0.5}])
def test_heads_are_normalized_as_the_text_says(own):
    """No CPU kernel does it."""
    (plain,) = made("prompt", {})[:1]
    scale = np.linspace(0.5, 1.5, H).astype(FLOAT)

    def normalized(x, heads, epsilon):
        apart = x.reshape(*x.shape[:2], heads, H)
        return (apart / np.sqrt((apart**2).mean(-1, keepdims=True) + epsilon) * scale).reshape(x.shape)

    query, key, value, *rest = plain.inputs
    query = normalized(query, N, own.get("q_norm_epsilon", 1e-6))
    key = normalized(key, K, own.get("k_norm_epsilon", 1e-6))
    by_hand = Call(plain.op, (query, key, value, *rest), plain.outputs, plain.attributes)
    inside = Call(plain.op, (*plain.inputs[:14], scale, scale), plain.outputs, {**plain.attributes, **own})
    want, got = (evaluate(inlined(model([call]), 24), feeds([call])) for call in (by_hand, inside))
    for a, b in zip(want, got, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("held", [None, 8])
def test_a_padded_prompt(held):
    """What the kernel makes of padding, the last token of the first sequence, is what lies in memory."""
    (call, *_) = made("padded prompt in a buffer" if held else "padded prompt", {}, turned=16)
    source = model([call])
    want = OnnxRuntime(source).run(feeds([call]))
    for opset in (24, 13):
        got = evaluate(inlined(source, opset), feeds([call]))
        for one, other in zip(got[1:], want[1:], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        for sequence, tokens in enumerate((2, 3)):
            np.testing.assert_allclose(got[0][sequence, :tokens], want[0][sequence, :tokens], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("attributes", [{}, {"local_window_size": 2}, {"do_rotary": 1}])
def test_a_padded_chunk_is_what_each_sequence_is_alone(attributes):
    """The text says so, and of rows behind the last token of a sequence nothing."""
    tokens, ends, new, held = [3, 2, 0], [7, 4, 5], 3, 10
    rng = np.random.default_rng(3)
    query, key, value = (rng.normal(size=(3, new, heads * H)).astype(FLOAT) for heads in (N, K, K))
    past = [rng.normal(size=(3, K, held, H)).astype(FLOAT) for _ in range(2)]
    angles = rng.normal(size=(12, H // 2)).astype(FLOAT)
    caches = (np.cos(angles), np.sin(angles)) if attributes.get("do_rotary") else (None, None)
    rows = {"num_heads": N, "kv_num_heads": K, **attributes}
    of_chunk = np.array(ends, np.int32) - 1, np.array(held, np.int32)
    inputs = (query, key, value, *past, *of_chunk, *caches, *[None] * 7, np.array(tokens, np.int32))
    chunk = Call("GroupQueryAttention", inputs, (True, True, True, False), rows)
    for opset in (24, 13):
        results = computed(chunk, opset)
        for b, (count, end) in enumerate(zip(tokens, ends, strict=True)):
            for kept, before in zip(results[1:], past, strict=True):
                np.testing.assert_array_equal(kept[b, :, : end - count], before[b, :, : end - count])
                assert not kept[b, :, end:].any()
            if not count:
                continue
            own = [x[b : b + 1, :count] for x in (query, key, value)] + [x[b : b + 1] for x in past]
            lengths = np.array([end - 1], np.int32), np.array(end, np.int32)
            alone = Call("GroupQueryAttention", (*own, *lengths, *caches), (True, True, True, False), rows)
            want = OnnxRuntime(model([alone])).run(feeds([alone]))
            np.testing.assert_allclose(results[0][b, :count], want[0][0], rtol=1e-4, atol=1e-5)
            for got, kept in zip(results[1:], want[1:], strict=True):
                np.testing.assert_allclose(got[b, :, :end], kept[0, :, :end], rtol=1e-5, atol=1e-6)
