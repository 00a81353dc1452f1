"""RotaryEmbedding and its kin: ranks, partial rotation, interleaved pairs, positions of one and of three coordinates."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

from tests.passes.operators.microsoft.harness import (
    FLOAT,
    HALF,
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


def turned(x, cosine, sine, positions):
    """x is (batch, length, heads, size)."""
    half = cosine.shape[1]
    c, s = (cache[positions][:, :, None] for cache in (cosine, sine))
    a, b = x[..., :half], x[..., half : 2 * half]
    return np.concatenate([a * c - b * s, b * c + a * s, x[..., 2 * half :]], -1)


@pytest.mark.parametrize("positions", [np.array([2]), np.array([[3]]), np.array([[0, 4, 1], [2, 2, 5]])])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (HALF, {"output_fp16": 1}),
        (HALF, {"output_fp16": 1, "input_start": 2, "input_width": 8, "flatten_batch": 1}),
        (bfloat16, {"epsilon": 0.1}),
    ],
)
def test_what_is_normalized_before_by_the_text(kind, options, positions):
    heads, size, angles = 2, 12, np.random.default_rng(2).normal(size=(12, 2))
    x = np.random.default_rng(1).normal(size=(2, 3, heads, size)).astype(kind)
    start, width = options.get("input_start", 0), options.get("input_width", size)
    scale = np.linspace(0.5, 1.5, width).astype(FLOAT)
    caches = [np.cos(angles).astype(FLOAT), np.sin(angles).astype(FLOAT)]
    inputs = x, scale, positions, *caches
    call = Call("RMSNormRotary", inputs, (True, True), {"rotary_embedding_dim": 4, **options})
    part = x.astype(np.float64)[..., start : start + width]
    normal = part / np.sqrt((part**2).mean(-1, keepdims=True) + options.get("epsilon", 1e-6)) * scale
    flat = normal.reshape(1, 6, heads, width) if options.get("flatten_batch") else normal
    one = positions.size == 1
    where = np.tile(positions.item() + np.arange(flat.shape[1]), (len(flat), 1)) if one else positions
    where = where.reshape(flat.shape[:2])
    want = turned(flat, *caches, where).reshape(*flat.shape[:2], -1)
    for opset in (23, 13):
        y, before = computed(call, opset)
        assert (y.dtype, before.dtype) == (kind, FLOAT)
        np.testing.assert_allclose(y.astype(FLOAT), want, rtol=2e-2, atol=2e-2)
        np.testing.assert_allclose(before, normal, rtol=1e-5, atol=1e-6)
