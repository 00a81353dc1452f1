"""Axes of size 0 in front of those that a definition splits and joins, with known shapes and with symbols."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import calls, check

RNG = np.random.default_rng(0)
EMPTY = [(0, 3, 6), (2, 0, 6), (0, 6)]
ANGLES = {"cos_cache": (4, 2), "sin_cache": (4, 2)}
PACKED = RNG.integers(0, 256, (3, 8)).astype(np.uint8)
CASES = [
    ("BranchwiseRMSNorm", {"X": EMPTY}, {"num_branches": [3]}, 6),
    ("GatedRMSNorm", {"X": (2, 0, 6), "scale": [(3,), (6,)], "gate": (2, 0, 6)}, {}, 4),
    ("GatedRMSNorm", {"X": (0, 2, 1, 6), "scale": (3,), "gate": (0, 2, 1, 6)}, {}, 2),
    ("HyperConnectionPostMix", {"streams": (2, 0, 6), "block_output": (2, 0, 2), "post_mix": (2, 0, 3), "stream_mix": (2, 0, 3, 3)}, {"num_branches": [3]}, 4),
    ("RotaryEmbedding", {"input": (2, 0, 8), "position_ids": np.zeros((2, 0), np.int64), **ANGLES}, {}, 2),
    ("LinearAttention", {"query": (2, 0, 4), "key": (2, 0, 8), "value": (2, 0, 8), "decay": (2, 0, 2), "beta": (2, 0, 2)}, {"q_num_heads": [1], "kv_num_heads": [2]}, 2),
    ("GatherBlockQuantized", {"data": PACKED, "indices": np.zeros((2, 0), np.int64), "scales": (3, 1)}, {"block_size": [16]}, 2),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "attributes", "ran"), CASES)
def test_without_elements(op, inputs, attributes, ran):
    assert check(calls(op, inputs, attributes), grade="close") == ran


def test_a_batch_of_nothing():
    inputs = {"input": (0, 3, 2), "weight": (2, 1, 2), "bias": (2,)}
    assert check(calls("CausalConvWithState", inputs, {"channels_last": [1]}), held=[1], grade="close") == 4
