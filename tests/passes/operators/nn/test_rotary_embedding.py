"""Rotary embeddings as rotations of complex numbers."""

import numpy as np
import pytest

from tests.support import check_computes, check_refused

RNG = np.random.default_rng(0)


def rotated(x, angles, size, interleaved):
    """x: [batch, tokens, heads, width]; angles: [batch, tokens, size / 2]"""
    part = x[..., :size].astype(np.float64)
    re, im = (part[..., 0::2], part[..., 1::2]) if interleaved else np.split(part, 2, axis=-1)
    z = (re + 1j * im) * np.exp(1j * angles)[:, :, None, :]
    turned = np.stack([z.real, z.imag], -1).reshape(part.shape) if interleaved else np.concatenate([z.real, z.imag], -1)
    return np.concatenate([turned, x[..., size:]], axis=-1).astype(x.dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("size", [0, 4])
def test_rotations(size, interleaved, rank, cached, dtype):
    used = size or 8
    x = RNG.normal(size=(2, 5, 3, 8)).astype(dtype)
    table = RNG.uniform(-3, 3, size=(20, used // 2))
    places = RNG.integers(0, 20, size=(2, 5))
    expected = rotated(x, table[places], used, interleaved)
    angles = table if cached else table[places]
    if rank == 3:
        x, expected = (v.reshape(2, 5, 24) for v in (x, expected))
    else:
        x, expected = (v.transpose(0, 2, 1, 3) for v in (x, expected))
    kind = "float" if dtype == np.float32 else "float16"
    cache = f"{kind}[{'20' if cached else '2,5'},{used // 2}]"
    dims = "2,5,24" if rank == 3 else "2,3,5,8"
    heads = ", num_heads=3" if rank == 3 else ""
    check_computes(
        f"y = RotaryEmbedding<interleaved={interleaved}, rotary_embedding_dim={size}{heads}>(x, c, s{', p' if cached else ''})", 23, 11,
        expected, feeds={"x": x, "c": np.cos(angles).astype(dtype), "s": np.sin(angles).astype(dtype)} | ({"p": places} if cached else {}),
        grade="close", rtol=1e-5 if dtype == np.float32 else 2e-3, atol=1e-6 if dtype == np.float32 else 2e-3,
        inputs=f"{kind}[{dims}] x, {cache} c, {cache} s" + (", int64[2,5] p" if cached else ""), outputs=f"{kind}[{dims}] y",
    )  # fmt: skip


def test_heads_must_be_known():
    check_refused(
        "y = RotaryEmbedding(x, c, s)", 23, 22, "the data has rank 3, and the attribute num_heads is missing", inputs="float[2,5,24] x, float[2,5,4] c, float[2,5,4] s",
        outputs="float[2,5,24] y",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "dims"),
    [("", "2,3,5,7"), ("<num_heads=3>", "2,5,21"), ("<rotary_embedding_dim=3>", "2,3,5,8"), ("<rotary_embedding_dim=3>", "A,B,C,D")],
)  # fmt: skip
def test_elements_turn_in_pairs(call, dims):
    check_refused(
        f"y = RotaryEmbedding{call}(x, c, c)", 23, 22, "the number of rotated elements of each head is odd",
        inputs=f"float[{dims}] x, float[A,B,C] c", outputs="float[N] y",
    )  # fmt: skip


@pytest.mark.parametrize("dims", ["B,L,16", "B,L,W"])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(("batch", "length"), [(0, 3), (2, 0)])
def test_nothing_to_rotate(dims, interleaved, batch, length):
    x, cache = np.zeros((batch, length, 16), np.float32), np.zeros((batch, length, 4), np.float32)
    check_computes(
        f"y = RotaryEmbedding<num_heads=2, interleaved={interleaved}>(x, c, c)", 23, 13, x, feeds={"x": x, "c": cache},
        grade="close", inputs=f"float[{dims}] x, float[B,L,4] c", outputs=f"float[{dims}] y",
    )  # fmt: skip
