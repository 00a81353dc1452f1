"""Attention and MultiHeadAttention over all masks, caches and outputs that the kernels run."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import FLOAT, HALF, calls, check, check_refused

B, S, N, P = 2, 3, 2, 2


def masks(keys, starts=True):
    rng = np.random.default_rng(1)
    held = [
        np.array([2, keys]),
        np.arange(3 * B + 2),
        np.array([[0] * keys, rng.integers(0, 2, keys)]),
        rng.integers(0, 2, (B, S, keys)),
    ]
    held += [np.array([keys, 2, 1, 0])] if starts else []
    return [mask.astype(np.int32) for mask in held]

@pytest.mark.parametrize("sizes", [None, [4, 4, 4], [8, 8, 12]])
@pytest.mark.parametrize("past", [False, True])
def test_attention(sizes, past):
    total = sum(sizes) if sizes else 24
    keys = S + P if past else S
    made = calls(
        "Attention",
        {
            "input": (B, S, 8),
            "weights": (8, total),
            "bias": (total,),
            "mask_index": masks(keys),
            "past": [(2, B, N, P, sizes[0] // 2 if sizes else 4)] if past else None,
            "attention_bias": None if past else [(1, 1, S, keys), (B, N, S, keys)],
        },
        {"num_heads": [N], "unidirectional": [None, 1], "qkv_hidden_sizes": [sizes], "scale": [None, 0.3], "mask_filter_value": [None, -5.0]},
        outputs=["present"],
    )
    made = [call for call in made if call.inputs[2] is not None and not(past and (call.inputs[4] is None or not call.outputs[1]))]
    print(len(made))
    print(check(made, grade="close"))
    print(check(made, grade="close",opsets=[23,24]))
