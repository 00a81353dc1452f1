"""DecoderMaskedMultiHeadAttention: caches of fixed length and of another sequence, and what beams need."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import FLOAT, Call, calls, check, check_refused

B, N, D, CACHE = 2, 2, 8, 5


def mask(keys):
    held = np.random.default_rng(1).integers(0, 2, (B, keys)).astype(np.int32)
    held[:, 0] = 1
    return held


@pytest.mark.long
@pytest.mark.parametrize("filled", [0, 4])
def test_a_cache_of_fixed_length(filled):
    made = calls(
        "DecoderMaskedMultiHeadAttention",
        {
            **dict.fromkeys(("query", "key", "value"), (B, 1, D)),
            "bias": (3 * D,),
            "mask_index": mask(filled + 1),
            "attention_bias": (B, N, 1, filled + 1),
            **dict.fromkeys(("past_key", "past_value"), (B, N, CACHE, D // N)),
            "past_sequence_length": np.array([filled], np.int32),
        },
        {"num_heads": [N], "scale": [None, 0.3], "output_qk": [1], "past_present_share_buffer": [1]},
        outputs=["present_key", "present_value", "qk"],
    )
    needed = (1, 2, 5, 6, 7)
    made = [call for call in made if all(call.inputs[i] is not None for i in needed) and all(call.outputs)]
    assert check(made[::5], grade="close") == 7


def test_keys_of_another_sequence():
    cached = dict.fromkeys(("key", "value"), (B, N, 4, D // N))
    made = calls(
        "DecoderMaskedMultiHeadAttention",
        {"query": (B, 1, D), **cached, "mask_index": mask(4)},
        {"num_heads": [N], "output_qk": [1]},
        outputs=["qk"],
    )
    made = [call for call in made if call.inputs[1] is not None and call.inputs[2] is not None and call.outputs[3]]
    assert check(made, grade="close") == 4


def test_beams_are_refused():
    x, cache = np.ones((B, 1, D), FLOAT), np.ones((B, N, CACHE, D // N), FLOAT)
    one = np.array([1], np.int32)
    inputs = (x, x, x, None, None, cache, cache, one, one, np.zeros((B, 1, CACHE), np.int32))
    shared = {"num_heads": N, "past_present_share_buffer": 1}
    check_refused([Call("DecoderMaskedMultiHeadAttention", inputs, (True,), shared)], "cache_indirection")
    check_refused([Call("DecoderMaskedMultiHeadAttention", inputs[:8], (True,), {"num_heads": N})], "past_present_share_buffer")  # fmt: skip
    check_refused([Call("DecoderMaskedMultiHeadAttention", inputs[:3], (True, True), {"num_heads": N})], "present is used without past")  # fmt: skip
