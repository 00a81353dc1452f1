"""Rows that are looked up, added and normalized."""

import numpy as np

from tests.passes.operators.microsoft.harness import FLOAT, NEWEST, Call, calls, check, computed

RNG = np.random.default_rng(0)
IDS = RNG.integers(0, 5, (2, 3)).astype(np.int32)


def test_every_combination():
    inputs = {
        "input_ids": [IDS],
        "segment_ids": [RNG.integers(0, 2, (2, 3)).astype(np.int32)],
        "word_embedding": (5, 4),
        "position_embedding": (7, 4),
        "segment_embedding": (2, 4),
        "gamma": (4,),
        "beta": (4,),
        "mask": [np.array([[1, 1, 0], [1, 1, 1]], np.int32)],
        "position_ids": [np.array([[0, 2, 1], [3, 1, 1]], np.int32), np.array([[0, 2, 1]], np.int32)],
    }
    made = calls("EmbedLayerNormalization", inputs, {"epsilon": [0.1]}, outputs=["mask_index", "embedding_sum"], types=[FLOAT])  # fmt: skip
    assert check(made, opsets=(NEWEST, 13)) == 54


def test_a_row_for_each_index():
    weight = RNG.normal(size=(5, 4)).astype(FLOAT)
    for rest in ((), (np.array(1),), (np.array(1), np.array(True))):
        call = Call("TorchEmbedding", (weight, IDS.astype(np.int64), *rest), (True,))
        np.testing.assert_array_equal(computed(call, 13)[0], weight[IDS])
