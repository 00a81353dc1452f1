"""RotaryEmbedding and its kin: ranks, partial rotation, interleaved pairs, positions of one and of three coordinates."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import (
    FLOAT,
    HALF,
    Call,
    calls,
    check,
    check_refused,
    feeds,
    inlined,
    model,
)
from tests.support import evaluate

ANGLES = np.random.default_rng(3).normal(size=(9, 4))
CACHES = {"cos_cache": np.cos(ANGLES), "sin_cache": np.sin(ANGLES)}
SHAPES = [
    ((2, 3, 16), {"num_heads": [2]}),
    ((2, 2, 3, 8), {}),
    ((2, 3, 24), {"num_heads": [2], "rotary_embedding_dim": [8]}),
    ((2, 2, 3, 12), {"num_heads": [2], "rotary_embedding_dim": [8]}),
]


@pytest.mark.parametrize(("shape", "attributes"), SHAPES)
def test_rotary_embedding(shape, attributes):
    positions = [np.array([[0, 3, 1], [2, 8, 2]]), np.array([2])]
    found = calls(
        "RotaryEmbedding",
        {"input": shape, "position_ids": positions, **CACHES},
        {"interleaved": [None, 1], **attributes},
    )
    assert check(found, grade="close") == 8


@pytest.mark.parametrize(("shape", "attributes"), SHAPES)
def test_three_positions(shape, attributes):
    positions = np.random.default_rng(1).integers(0, 9, (3, 2, 3))
    layouts = {"mrope_layout": [None, 0, 1], "mrope_section": [[2, 1, 1], [4, 0, 0], [1, 2, 1]]}
    found = calls(
        "MRotaryEmbedding",
        {"input": shape, "position_ids": positions, **CACHES},
        {"interleaved": [None, 1], **layouts, **attributes},
    )
    assert check(found[::4], grade="close", opsets=(21, 13)) == 9


def test_computed_angles_as_the_text_says():
    rng = np.random.default_rng(0)
    emb = rng.normal(size=(2, 3, 4)).astype(FLOAT)
    states = [rng.normal(size=(2, 5, 3, 4)).astype(HALF) for _ in range(4)]
    call = Call("GemmaRotaryEmbedding", (emb, *states), (True, True))
    sine, cosine = (wave(emb).astype(HALF)[:, None] for wave in (np.sin, np.cos))
    for opset in (21, 13):
        for got, (x, turned) in zip(evaluate(inlined(model([call]), opset), feeds([call])), (states[:2], states[2:]), strict=True):  # fmt: skip
            np.testing.assert_allclose(got, x * cosine + turned * sine, atol=4e-3)


def test_what_cannot_be_said_is_refused():
    given = {"input": (2, 3, 16), "position_ids": np.zeros((2, 3), np.int64), **CACHES}
    check_refused(calls("RotaryEmbedding", given, {"scale": [2.0]})[:1], "scale=2")
    check_refused(calls("RotaryEmbedding", given, {"is_packed_batching": [1]})[:1], "is_packed_batching=1")
    given["position_ids"] = np.zeros((3, 2, 3), np.int64)
    check_refused(calls("MRotaryEmbedding", given, {"mrope_section": [[2, 2]]})[:1], "mrope_section=[2, 2]")
