"""The numbers that bounds are made of, and how a difference is told."""

import ml_dtypes
import numpy as np
import pytest

from opshift.verification import bounds
from opshift.verification.compare import Difference, compare, identical
from opshift.verification.judge import Pair
from opshift.verification.judgement import DIRECT, TWINS
from opshift.verification.side import Side
from tests.support import model

A = np.float32([[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize(
    ("dtype", "unit"),
    [
        (np.float64, 2.0**-53),
        (np.float32, 2.0**-24),
        (np.float16, 2.0**-11),
        (ml_dtypes.bfloat16, 2.0**-8),
        (ml_dtypes.float8_e4m3fn, 2.0**-4),
    ],
)
def test_half_a_unit(dtype, unit):
    assert bounds.half_unit(np.dtype(dtype)) == unit


@pytest.mark.parametrize("grade", ["exact", "close"])
def test_what_is_excused_at_most(grade):
    assert bounds.cap(np.dtype(ml_dtypes.float8_e4m3fn), grade) == 2.0**-3
    for dtype in (np.float16, np.float32, ml_dtypes.bfloat16):
        assert bounds.cap(np.dtype(dtype), grade) == bounds.CAPS[np.dtype(dtype).name][grade]
    assert bounds.cap(np.dtype(np.complex64), grade) == bounds.CAPS["float32"][grade]


def test_the_first_element_that_differs_is_told():
    b = A + np.float32([[0, 0, 0], [0, 9, 9]])
    said = "14.0 instead of 5.0 at [1, 1], 2 of 6 elements differ"
    assert bounds.told(A, b, b != A) == said
    assert bounds.direct("y", A, b, "exact").why == said
    assert compare(A, b).why == said
    one, other = np.float32(1), np.float32(9)
    said = "9.0 instead of 1.0, 1 of 1 elements differ"
    assert bounds.told(one, other, one != other) == said
    assert compare(one, other).why == said


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_on_one_side_is_told(value):
    b = A.copy()
    b[0, 2] = value
    said = f"{np.float32(value)} instead of 3.0 at [0, 2], 1 of 6 elements differ"
    assert bounds.direct("y", A, b, "close").why == said
    assert compare(A, b, "close").why == said
    assert not bounds.direct("y", b, b, "exact").why


X = np.linspace(-2, 2, 64)
ROUNDED = X.astype(np.float16)


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ((ROUNDED, ROUNDED, X, X), ""),
        ((ROUNDED, 1.25 * ROUNDED, X, X), "of the second model in its own precision and in float64"),
        ((ROUNDED, ROUNDED, X, 1.25 * X), ", in float64"),
    ],
)
@pytest.mark.parametrize("grade", ["exact", "close"])
def test_each_form_is_judged_by_its_twin(runs, told, grade):
    found = bounds.judge("y", bounds.Runs(*runs), grade)
    assert (found.judge, bool(found.why)) == (TWINS, bool(told))
    assert found.why.endswith(told)


def test_what_is_compared_directly_says_nothing_of_float64():
    found = bounds.direct("y", A, A * np.float32(1.000001), "close")
    assert (found.judge, found.why, found.function, found.function_bound) == (DIRECT, "", 0.0, 0.0)
    assert 0 < found.accuracy < found.accuracy_bound


@pytest.mark.parametrize(
    "value",
    [None, A, np.arange(3), np.array([True]), np.array(["a"], object), [A, A], {"a": 1.0}, A[:0], np.float32(2)],
)
def test_what_is_equal_is_not_apart(value):
    assert compare(value, value) == Difference("", 0.0, 0.0)


@pytest.mark.parametrize(
    ("one", "other", "absolute", "relative"),
    [
        (A, A + 1, 1, 1),
        (2 * A, 2 * A + 1, 1, 0.5),
        (np.array([0, 10]), np.array([4, 15]), 5, 4),
        ([A, A], [A, A + 2], 2, 2),
    ],
)
def test_how_far_apart_values_are(one, other, absolute, relative):
    found = compare(one, other)
    assert (found.absolute, found.relative, found.equal) == (absolute, relative, False)


@pytest.mark.parametrize(("grade", "off"), [("exact", 5e-5), ("close", 8e-4)])
def test_a_result_is_as_accurate_as_its_source(grade, off):
    """Below what is excused at most, but far above what rounding of an exact source explains."""
    x = np.linspace(1, 2, 64)
    a, b = x.astype(np.float32), (x * (1 + off)).astype(np.float32)
    runs = bounds.Runs(a, b, a.astype(np.float64), a.astype(np.float64))
    assert off < bounds.CAPS["float32"][grade]
    assert bounds.judge("y", runs, grade).why.endswith("of the second model in its own precision and in float64")
    assert not bounds.judge("y", runs, grade, rounded=True).why
    assert not bounds.judge("y", runs, grade, noise=off * 2).why


@pytest.mark.parametrize("words", [["a", "b"], ["a", ""]])
def test_texts_are_the_same_or_not(words):
    one, other = np.array(["a", "b"], object), np.array(words, object)
    assert identical(one, other) is (words == ["a", "b"])
    assert identical([one, A], [other, A]) is (words == ["a", "b"])


def test_maps_are_equal_or_not():
    one = {"cat": 0.5, "dog": 0.25}
    assert compare(one, dict(one)).equal
    assert compare(one, {"cat": 0.5}).why == compare(one, A).why == compare(A, one).why == "the maps differ"


SMALL = np.array([0.3, -0.7, 1.1, 0.9, -1.3, 0.5, 2.1, -0.1])


@pytest.mark.parametrize("grade", ["exact", "close"])
@pytest.mark.parametrize(
    ("dtype", "huge"),
    [
        (np.float32, 3e3), (np.float32, 1e30), (np.float16, 3e3), (np.float16, 6e4),
        (ml_dtypes.bfloat16, 6e4), (ml_dtypes.bfloat16, 1e30),
    ],
)  # fmt: skip
@pytest.mark.parametrize("count", [1, 8, 64])
def test_small_elements_are_not_excused_by_huge_ones(dtype, huge, count, grade):
    """A difference of 5 % of their mean is one, whatever stands beside them; rounding is none."""
    x = np.append(SMALL, [huge] * count).astype(dtype).astype(np.float64)
    scaled = np.append(x[:8] * 1.05, x[8:])
    found = bounds.judge("y", bounds.Runs(x.astype(dtype), scaled.astype(dtype), x, scaled), grade)
    assert found.why.endswith("in float64")
    rounded = x * (1 + 2 * bounds.half_unit(np.dtype(dtype)) * np.where(np.arange(x.size) % 2, 1, -1))
    found = bounds.judge("y", bounds.Runs(x.astype(dtype), rounded.astype(dtype), x, rounded), "close")
    assert not found.why


@pytest.mark.parametrize("kinds", [(np.float16, np.float32), (np.float32, np.float16)])
def test_of_two_types_the_narrower_sets_the_bound(kinds):
    one, other = (np.float32([1, 2, 3]).astype(kind) for kind in kinds)
    found = bounds.direct("y", one, other * other.dtype.type(1.0625), "close")
    assert found.why
    found = bounds.direct("y", one, (other.astype("f4") * np.float32(1.002)).astype(other.dtype), "close")
    assert not found.why
    assert found.accuracy_bound == pytest.approx(0.02 * np.sqrt(14 / 3), rel=0.5)


@pytest.mark.parametrize("sign", [1, -1])
def test_one_side_is_not_a_number(sign):
    """On either side, of either pair: of the runs, and of their twins."""
    hole, whole = X.copy(), X.copy()
    hole[3] = np.nan * sign
    narrow = {True: hole.astype(np.float16), False: whole.astype(np.float16)}
    wide = {True: hole, False: whole}
    for a, b, x, y in np.ndindex(2, 2, 2, 2):
        found = bounds.judge("y", bounds.Runs(narrow[a == 1], narrow[b == 1], wide[x == 1], wide[y == 1]), "close")
        if a != b or x != y:
            assert "nan" in found.why
        elif found is not None:
            assert not found.why
    inf = np.where(np.arange(64) == 3, np.inf, X)
    for other in (-inf, hole, whole):
        found = bounds.judge("y", bounds.Runs(inf, other, X, X), "close")
        assert "instead of inf" in found.why


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ([A, A], [A, A * np.float32(1.000001)], ""),
        ([A, A], [A, A * np.float32(1.5)], "1.5 instead of 1.0 at [0, 0], 6 of 6 elements differ"),
        ([A * np.float32(1.5), A], [A, A], "1.0 instead of 1.5 at [0, 0], 6 of 6 elements differ"),
        ([A, A], [A], "1 elements instead of 2"),
        ([A], A, "only one of the runs yields a sequence"),
        (None, A, "only one of the runs yields a value"),
        (None, None, ""),
        ([], [], ""),
        (A, A[:1], "shape [1, 3] instead of [2, 3]"),
    ],
)
def test_sequences_are_compared_element_by_element(one, other, why):
    source = model("y = Identity(x)", 17, inputs="float[2,3] x", outputs="float[2,3] y")
    pair = Pair(Side(source), Side(source), "close")
    assert pair.parted(one, other) == why
