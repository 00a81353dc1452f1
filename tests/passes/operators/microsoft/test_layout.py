"""Values that are moved, padded and listed: special values, sizes of 0 and 1, constants and their run-time twins."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import DOUBLE, FLOAT, NEWEST, Call, calls, check, check_refused, computed

RNG = np.random.default_rng(0)
F = [FLOAT]


def i32(given):
    return np.array(given, np.int32)


def i64(given):
    return np.array(given, np.int64)


@pytest.mark.parametrize("held", [[], [1]])
def test_expand_dims(held):
    axes = [i32(axis) for axis in (0, 1, -1, 2, -3)]
    made = calls("ExpandDims", {"X": [(2, 3), (), i32([1, 2]), (0, 1)], "axis": axes}, types=F)
    assert check(made, held=held, opsets=(NEWEST, 13, 11) if held else (NEWEST, 13)) == 15


def test_gather_nd():
    indices = [i64([[0, 1], [1, 2]]), i32([[0], [1]]), i64([[[1, 2, 3]], [[0, -1, -1]]])]
    assert (
        check(calls("GatherND", {"data": [(2, 3, 4), i32(np.arange(24).reshape(2, 3, 4))], "indices": indices})) == 12
    )


@pytest.mark.parametrize("held", [[], [1]])
def test_pad(held):
    pads = [i64([0, 1, 2, 0]), i64([[1, 1, 0, 2]]), i64([-1, 0, 0, 1])]
    inputs = {"data": [(2, 3)], "pads": pads, "value": [np.array(0.5), np.array([1.5])]}
    assert check(calls("Pad", inputs, {"mode": [None, "constant", "reflect", "edge"]}, types=F), held=held) == 33


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32, np.int64, np.int16])
def test_range(kind):
    def number(*values):
        return [np.array(value, kind) for value in values]

    made = calls("Range", {"start": number(1, [1]), "limit": number(7, -3, 1), "delta": number(2, [-1])}, types=[kind])
    assert check(made) == 18


def test_trilu():
    ks = [i64(k) for k in (1, -1, 9, -9)]
    made = calls("Trilu", {"X": [(3, 4), (2, 3, 3), i64([[1, 2], [3, 4]]), (0, 3)], "k": ks}, {"upper": [None, 0, 1]}, types=[FLOAT, DOUBLE])  # fmt: skip
    assert check(made) == 120


def test_unique():
    xs = [np.array(x, float) for x in ([2, 1, 1, 3, 4, 3], [-0.0, 0.0, np.inf, np.inf], [], [5])]
    xs += [np.array([np.nan, 1, np.nan, 0, 1, np.inf]), np.array([0, np.nan])]
    assert check(calls("Unique", {"x": xs}, types=F)) == 6


def test_grid_sample():
    attributes = {"mode": [None, "bilinear", "nearest", "bicubic"], "padding_mode": [None, "zeros", "border", "reflection"], "align_corners": [None, 0, 1]}  # fmt: skip
    assert check(calls("GridSample", {"X": (2, 2, 4, 5), "Grid": (2, 3, 3, 2)}, attributes, types=F), opsets=(NEWEST, 16)) == 48  # fmt: skip


def test_unfold():
    made = calls("UnfoldTensor", {"input": [(2, 7, 3), i32(np.arange(42).reshape(2, 7, 3))]}, {"dim": [None, 0, 1, 2, -2], "size": [1, 2, 3], "step": [None, 1, 2]}, types=F)  # fmt: skip
    assert check(made) == 84


def test_a_repeated_token_without_a_score():
    made = calls("NGramRepeatBlock", {"input_ids": i64([[1, 2, 1]]), "scores": np.full((1, 4), np.nan)}, {"ngram_size": [2]}, types=F)  # fmt: skip
    assert check(made) == 1


def test_repeated_n_grams():
    ids = [RNG.integers(0, 4, (3, 9)), i64([[1, 2, 1, 2, 1]]), i64([[1]]), i64([[0, 0, 0, 0]])]
    made = calls("NGramRepeatBlock", {"input_ids": ids, "scores": [(3, 6), (1, 6)]}, {"ngram_size": [1, 2, 3, 4]}, types=F)  # fmt: skip
    assert check(made, opsets=(NEWEST, 18)) == 16


def test_an_echo():
    assert check(calls("SampleOp", {"X": [np.array([0.0, -0.0, np.nan, np.inf]), ()]}, types=F)) == 2


FLAWED = [np.array(x, np.float32) for x in ([1, 2], [1, np.nan], [[np.inf], [1]], [-np.inf, 0], [], 3)]


@pytest.mark.parametrize("first", FLAWED)
@pytest.mark.parametrize(("attributes", "flawed"), [({}, lambda x: ~np.isfinite(x)), ({"isnan_only": 1}, np.isnan), ({"isinf_only": 1}, np.isinf)])  # fmt: skip
def test_all_finite_by_the_text(first, attributes, flawed):
    for others in ((), (np.ones(3, np.float32),), (np.array(np.nan, np.float32),)):
        inputs = (first, *others)
        made = computed(Call("IsAllFinite", inputs, (True,), attributes), 13)[0]
        assert made.shape == ()
        assert made == (not any(flawed(x).any() for x in inputs))


def test_texts_and_hashes_are_refused():
    x = np.array(["a b"], object)
    check_refused([Call("Tokenizer", (x,), (True,), {"mark": 0, "mincharnum": 1, "pad_value": "", "separators": [" "]})], "regular expressions")  # fmt: skip
    check_refused([Call("MurmurHash3", (i32([1]),), (True,))], "MurmurHash3")
