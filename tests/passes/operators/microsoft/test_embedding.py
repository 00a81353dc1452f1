"""Rows that are looked up, added and normalized."""

from itertools import product

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import FLOAT, NEWEST, Call, calls, check, computed
from tests.passes.operators.microsoft.test_qlinear import eight_bits, scale

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


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_rows_of_integers(kind):
    found = []
    names = [(5, 4), (7, 4), (2, 4), (4,), (4,)]
    for segments, mask, counted in product((True, False), (True, False), (True, True)):
        held = [eight_bits(kind, *of) for of in names]
        scales, zeros = [scale() for _ in names], [eight_bits(kind) for _ in names]
        if not segments:
            held[2] = scales[2] = zeros[2] = None
        of = RNG.integers(0, 2, (2, 3)).astype(np.int32) if segments else None
        given = (IDS, of, *held, np.array([[1, 1, 0], [1, 1, 1]], np.int32) if mask else None, *scales, *zeros)
        found.append(Call("QEmbedLayerNormalization", given, (True, counted), {"epsilon": 0.1}))
    assert check(found, grade="close", opsets=(NEWEST, 13)) == 8


def test_a_row_for_each_index():
    weight = RNG.normal(size=(5, 4)).astype(FLOAT)
    for rest in ((), (np.array(1),), (np.array(1), np.array(True))):
        call = Call("TorchEmbedding", (weight, IDS.astype(np.int64), *rest), (True,))
        np.testing.assert_array_equal(computed(call, 13)[0], weight[IDS])
