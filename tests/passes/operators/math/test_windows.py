"""Windows and Mel filters, from their formulas in float64."""

import numpy as np
import pytest

from tests.support import check_computes

COSINES = {"HannWindow": (0.5, 0.5, 0), "HammingWindow": (25 / 46, 21 / 46, 0), "BlackmanWindow": (0.42, 0.5, 0.08)}


@pytest.mark.parametrize(("size_type", "kind"), [("int64", 1), ("int32", 11), ("int64", 10)])
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("op", COSINES)
def test_windows(op, periodic, size_type, kind):
    dtype, name = {1: (np.float32, "float"), 11: (np.float64, "double"), 10: (np.float16, "float16")}[kind]
    a0, a1, a2 = COSINES[op]
    angle = 2 * np.pi * np.arange(10) / (10 if periodic else 9)
    expected = (a0 - a1 * np.cos(angle) + a2 * np.cos(2 * angle)).astype(dtype)
    check_computes(
        f"y = {op}<periodic={periodic}, output_datatype={kind}>(n)", 17, 11, expected, feeds={"n": np.array(10, size_type)},
        grade="close", rtol=1e-3 if kind == 10 else 1e-5, atol=1e-6, inputs=f"{size_type} n", outputs=f"{name}[K] y",
    )  # fmt: skip


@pytest.mark.parametrize(("size", "nodes"), [("int64 n", 7), ("int64[1] n", 8), ("int64[K] n", 8)])
def test_a_size_that_is_no_scalar_is_made_one(size, nodes):
    expected = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(10) / 10)).astype(np.float32)
    feeds = {"n": np.array(10) if nodes == 7 else np.array([10])}
    after = check_computes(
        "y = HannWindow(n)", 17, 16, expected, feeds=feeds, grade="close", rtol=1e-5, atol=1e-6, inputs=size,
        outputs="float[N] y",
    )  # fmt: skip
    assert len(after.graph.node) == nodes


def filters(count, length, rate, low, high):
    """The triangles between bins that are evenly spaced on the Mel scale."""
    low, high = (2595 * np.log10(1 + f / 700) for f in (low, high))
    mel = low + np.arange(count + 2) * (high - low) / (count + 2)
    bins = np.floor((length + 1) * 700 * (10 ** (mel / 2595) - 1) / rate)
    weights = np.zeros((length // 2 + 1, count))
    for i, (a, b, c) in enumerate(zip(bins, bins[1:], bins[2:], strict=False)):
        for row in range(len(weights)):
            if b <= row < c:
                weights[row, i] = (c - row) / (c - b)
            elif a <= row <= b:
                weights[row, i] = 1 if a == b else (row - a) / (b - a)
    return weights


@pytest.mark.parametrize(
    ("count", "length", "rate", "low", "high"),
    [(8, 64, 8192, 0, 4096), (20, 128, 16000, 100, 7000), (1, 4, 8000, 0, 4000)],
)
def test_mel_filters(count, length, rate, low, high):
    check_computes(
        "y = MelWeightMatrix(n, l, r, a, b)", 17, 13, filters(count, length, rate, low, high).astype(np.float32),
        feeds={"n": np.array(count), "l": np.array(length), "r": np.array(rate), "a": np.array(low, np.float32), "b": np.array(high, np.float32)},
        grade="close", rtol=1e-6, inputs="int64 n, int64 l, int64 r, float a, float b", outputs="float[R,C] y",
    )  # fmt: skip


@pytest.mark.parametrize("kind", [("int32", 6), ("uint8", 2), ("int64", 7)])
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("op", COSINES)
@pytest.mark.parametrize("size", [0, 1, 2, 4, 5, 8, 9, 100, 101])
def test_the_middle_of_a_window_of_integers_is_1(op, periodic, kind, size):
    expected = np.zeros(size, kind[0])
    length = size if periodic else size - 1
    if length > 0 and length % 2 == 0:
        expected[length // 2] = 1
    if length == 0:
        return  # 0 / 0
    check_computes(
        f"y = {op}<periodic={periodic}, output_datatype={kind[1]}>(n)", 17, 16, expected, feeds={"n": np.array(size)},
        grade="close", inputs="int64 n", outputs=f"{kind[0]}[K] y",
    )  # fmt: skip
