"""Two outputs compared: held against the words, element by element."""

import ml_dtypes
import numpy as np
import pytest

from opshift.verification.compare import compare

UNITS = {"exact": 32, "close": 4096}
EPSILON = {np.float64: 2.0**-52, np.float32: 2.0**-23, np.float16: 2.0**-10, ml_dtypes.bfloat16: 2.0**-7}


def finite(a, b):
    return np.isfinite(a) and np.isfinite(b)


def expected(one, other, dtype, grade):
    """Whether they agree, and the largest difference, absolute and as a part of the value."""
    pairs = [(float(a), float(b)) for a, b in zip(one.ravel(), other.ravel(), strict=True)]
    magnitudes = [abs(a) if finite(a, b) else 0.0 for a, b in pairs]
    mean = np.sqrt(sum(min(m, 1e150) ** 2 for m in magnitudes) / len(magnitudes)) if len(pairs) > 1 else max(magnitudes)
    wrong, gaps, parts = 0, [0.0], [0.0]
    for (a, b), magnitude in zip(pairs, magnitudes, strict=True):
        if not finite(a, b):
            wrong += not (a == b or (np.isnan(a) and np.isnan(b)))
            continue
        gaps.append(abs(a - b))
        parts.append(gaps[-1] / magnitude if magnitude else 0.0)
        wrong += gaps[-1] > UNITS[grade] * EPSILON[dtype] * max(magnitude, mean)
    return int(wrong), max(gaps), max(parts)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("grade", UNITS)
@pytest.mark.parametrize("dtype", EPSILON)
def test_floats_are_as_far_apart_as_they_are(dtype, grade, seed):
    random = np.random.default_rng(seed)
    shape = [(), (1,), (2, 3), (7,)][seed % 4]
    one = (random.standard_normal(shape) * 4.0 ** random.integers(-4, 5, shape)).astype(dtype)
    off = 1 + random.choice([0, 0.5, 2, 200]) * UNITS["exact"] * EPSILON[dtype] * random.standard_normal(shape)
    other = (one.astype("f8") * off).astype(dtype)
    if seed % 3 == 2:
        for array, value in ((one, [np.inf, np.nan][seed % 2]), (other, [np.inf, np.nan, 1][seed % 3])):
            array.reshape(-1)[-1:] = value
        one.reshape(-1)[:1] = 0
    wrong, absolute, relative = expected(one, other, dtype, grade)
    found = compare(one, other, grade)
    assert (found.absolute, found.relative) == pytest.approx((absolute, relative), rel=1e-12)
    assert found.equal is (wrong == 0)
    assert not wrong or found.why.endswith(f"{wrong} of {one.size} elements differ")


def test_what_is_infinite_tells_nothing_of_the_scale():
    one = np.float32([np.inf, 1e-6, 1e-6])
    assert compare(one, one + np.float32(1e-10)).why.endswith("2 of 3 elements differ")


def test_numbers_beyond_all_squares_have_a_scale():
    one = np.float64([1e200, 1.0])
    assert compare(one, one + np.float64([0, 1e130])).equal
    assert not compare(one, one + np.float64([0, 1e140])).equal


def test_complex_numbers():
    one = np.complex64([1 + 2j, 3j])
    assert compare(one, one * np.complex64(1 + 1e-7j)).equal
    found = compare(one, one + np.complex64(3 + 4j))
    assert (found.equal, found.absolute) == (False, 5)


@pytest.mark.parametrize("kind", ["int4", "uint4", "int2", "uint2"])
def test_narrow_integers_are_apart_by_whole_numbers(kind):
    if not hasattr(ml_dtypes, kind):  # an older one
        return
    dtype = getattr(ml_dtypes, kind)
    one, other = np.array([0, 1, 1]).astype(dtype), np.array([1, 1, 0]).astype(dtype)
    found = compare(one, other)
    assert (found.why, found.absolute, found.relative) == ("1 instead of 0 at [0], 2 of 3 elements differ", 1, 1)
    assert compare(one, one).equal


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (np.float32([1]), np.float64([1]), "type float64 instead of float32"),
        (np.array(["a"]), np.array(["a"], object), ""),
        (np.array(["a", "b"]), np.array(["a", "c"], object), "c instead of b at [1], 1 of 2 elements differ"),
        (np.array([True, False]), np.array([True, True]), "True instead of False at [1], 1 of 2 elements differ"),
        (np.zeros((0, 2)), np.zeros((0, 3)), "shape [0, 3] instead of [0, 2]"),
        ((np.ones(1),), [np.ones(1)], ""),
        ([np.ones(1), np.ones(2)], [np.ones(1), 3 * np.ones(2)], "3.0 instead of 1.0 at [0], 2 of 2 elements differ"),
        (
            [np.array([9]), np.array(["a"])],
            [np.array([1]), np.array(["b"])],
            "1 instead of 9 at [0], 1 of 1 elements differ",
        ),
    ],
)
def test_other_values(one, other, why):
    assert compare(one, other).why == why


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("0.040822871", "0.040822875", True),
        ("0.040822871", "0.041", False),
        ("1", "0.99999994", True),
        ("NaN", "0.5", False),
        ("16777216", "16777217", False),  # names may be digits
        ("+3", "-3", False),
        ("a", "0.5", False),
        ("", "0.5", False),
    ],
)
def test_numbers_in_strings(one, other, near):
    """As far apart as numbers may be that are no strings."""
    for wrap in (np.array, lambda texts: np.array(texts, object)):
        assert compare(wrap(["x", "2.5", one]), wrap(["x", "2.5", other]), "close").equal == near
        assert not compare(wrap(["x", "2.5", one]), wrap(["x", "2.5", other])).equal
