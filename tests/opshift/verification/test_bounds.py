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


# --- held against the words ---------------------------------------------------------------------------------

FACTORS = {"exact": (64, 4, 64), "close": (8192, 16, 8192)}
EXCUSED = {"float16": (0.01, 0.02), "bfloat16": (0.02, 0.02), "float32": (1e-4, 1e-3), "complex64": (1e-4, 1e-3)}


def finite(value):
    return abs(value) if np.isfinite(value) else 0.0


def mean_square(values):
    return np.sqrt(sum(min(finite(v), 1e150) ** 2 for v in values) / len(values))


def widths(x):
    return [max(finite(v), mean_square(x) if len(x) > 1 else 0) for v in x]


def both_bounds(a, b, x, y, grade, unit=0.0, narrow=None, rounded=False, noise=0.0):
    """The bounds of either question as the module's text has them, element by element."""
    roundings, times, units = FACTORS[grade]
    kinds = [kind for kind in (a.dtype, b.dtype, narrow) if kind is not None]
    kind = max(kinds, key=lambda held: float(ml_dtypes.finfo(held).eps))
    u, most = float(ml_dtypes.finfo(kind).eps) / 2, EXCUSED[kind.name][grade == "close"]
    near, far = ([finite(complex(p) - complex(w)) for p, w in zip(*each, strict=True)] for each in ((a, x), (b, y)))
    sizes = sorted(finite(v) for v in x if finite(v))
    few = sizes[len(sizes) // 16] if sizes else 0.0
    same, good = [], []
    for value in x:
        alike = [j for j, other in enumerate(x) if finite(other) <= max(256 * finite(value), 32 * few)]
        like = max(finite(value), mean_square([x[j] for j in alike]))
        moved = max(near[j] for j in alike)
        bound = (roundings * 2.0**-53 + 64 * unit) * (like + moved / u)
        if grade == "close" or rounded:
            stored = moved + (max(far[j] for j in alike) if rounded else 0.0)
            bound = max(bound, 8 * stored + 4 * u * like)
        same.append(max(min(bound, most * like), noise if unit else 0.0))
    for width in widths(x):
        own = min(times * max(near) + units * u * width, most * width)
        good.append(max(2 * max(*near, noise), most * width if rounded else own))
    apart = [finite(complex(p) - complex(q)) for p, q in zip(x, y, strict=True)]
    return (apart, same), (far, good), near


def worst(gap, bound):
    return max(range(len(gap)), key=lambda i: gap[i] / bound[i] if gap[i] else 0.0)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("grade", ["exact", "close"])
def test_bounds_are_what_the_text_says(grade, dtype, seed):
    random = np.random.default_rng(seed)
    size, u = 37 if seed % 8 == 0 else int(random.integers(1, 9)), bounds.half_unit(np.dtype(dtype))
    x = random.standard_normal(size) * 4.0 ** random.integers(-6, 7, size) * random.integers(0, 9, size).clip(0, 1)
    if seed % 5 == 4:
        x[0] = np.inf
    move = random.choice([0, 1e-14, 1e-12, u, 30 * u])
    y = x * (1 + move * random.standard_normal(size))
    a = (x * (1 + random.choice([0, u, 20 * u]) * random.standard_normal(size))).astype(dtype)
    b = (y * (1 + random.choice([0, u, 100 * u]) * random.standard_normal(size))).astype(dtype)
    how = {
        "unit": float(random.choice([0, 2.0**-24])),
        "narrow": [None, np.dtype(np.float32), np.dtype(np.float16)][seed % 3],
        "rounded": bool(seed % 4 == 1),
        "noise": float(random.choice([0, 1e-3])),
    }
    (apart, same), (far, good), near = both_bounds(a, b, x, y, grade, **how)
    found = bounds.judge("y", bounds.Runs(a, b, x, y), grade, **how)
    if max(near) > max(0.05 * max(widths(x)), how["noise"]) and max(far) * 16 < max(near):
        assert found is None, "the source took another way"
        return
    i, j = worst(apart, same), worst(far, good)
    assert (found.output, found.judge) == ("y", TWINS)
    assert (found.function, found.function_bound) == pytest.approx((apart[i], same[i]), rel=1e-9)
    assert (found.accuracy, found.accuracy_bound) == pytest.approx((far[j], good[j]), rel=1e-9)
    assert bool(found.why) == (apart[i] > same[i] or far[j] > good[j])
    assert found.why.endswith("in its own precision and in float64") == (apart[i] <= same[i] and far[j] > good[j])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], []),
        ([-3.0], [3]),
        ([0.0, 2.0], [2**0.5, 2]),
        ([3.0, -4.0, np.nan, np.inf], [3, 4, 2.5, 2.5]),
        ([1e200, 0.0], [1e200, 1e150 / 2**0.5]),
    ],
)
def test_the_scale_of_an_element(values, expected):
    assert bounds.scale(np.array(values)).tolist() == pytest.approx(expected, rel=1e-12)


def test_beside_numbers_beyond_all_squares_small_ones_are_as_inexact_as_large_ones():
    x = np.array([1e-3, 1e200, 1e201])
    assert bounds._mean(x, np.full(3, 1e300))[0] == pytest.approx(1e150 * (2 / 3) ** 0.5)


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("other", [X[:-1], None])
def test_twins_of_other_shapes_do_not_answer(place, other):
    runs = [ROUNDED, ROUNDED, X, X]
    if other is None and place < 2:
        return
    runs[place] = other
    assert bounds.judge("y", bounds.Runs(*runs), "exact") is None


def test_a_twin_that_overflows_does_not_answer():
    x = X.copy()
    x[3] = np.inf
    assert bounds.judge("y", bounds.Runs(ROUNDED, ROUNDED, x, x), "close") is None


def test_nothing_is_within_its_bounds():
    empty = np.zeros((0, 3))
    found = bounds.judge("y", bounds.Runs(empty.astype("f4"), empty.astype("f4"), empty, empty), "exact")
    assert (found.why, found.function, found.function_bound, found.accuracy) == ("", 0, 0, 0)
    assert not bounds.direct("y", empty, empty, "exact").why
    assert bounds.distance(empty, empty) == 0


@pytest.mark.parametrize(
    ("source", "result", "noise", "answers"),
    [
        (1.2, 0.0, 0.0, False),  # it took another way than its twin
        (1.0, 0.0, 0.0, True),
        (1.2, 0.0, 1.4, True),  # what approximations explain
        (1.2, 1.2 / 15, 0.0, True),  # so did the result, a little
        (1.2, 1.2 / 17, 0.0, False),
        (0.6, 0.0, 0.0, True),
    ],
)
def test_a_source_that_took_another_way_is_not_judged_by_its_twin(source, result, noise, answers):
    x = np.full(16, 20.0)
    runs = bounds.Runs((x + source).astype("f8"), (x + result).astype("f8"), x, x)
    found = bounds.judge("y", runs, "close", noise=noise, narrow=np.dtype(np.float16))
    assert (found is not None) is answers


@pytest.mark.parametrize("grade", ["exact", "close"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64])
def test_without_twins_two_runs_are_as_near_as_the_text_says(grade, dtype):
    u, most = (2.0**-11 if dtype is np.float16 else 2.0**-24), EXCUSED[np.dtype(dtype).name][grade == "close"]
    x = np.array([3, -4, 1, 0.5], dtype)
    x = x * 1j if dtype is np.complex64 else x
    width = widths(x.astype(np.complex128 if dtype is np.complex64 else np.float64))
    allowed = min(FACTORS[grade][2] * u, most) * width[3]
    for part, why in ((0.5, False), (1.1, True)):
        other = x.copy()
        other[3] += dtype(part * allowed * (1j if dtype is np.complex64 else 1))
        found = bounds.direct("y", x, other, grade)
        assert bool(found.why) is why
        assert found.accuracy == abs(complex(other[3]) - complex(x[3]))
        assert found.accuracy_bound == pytest.approx(allowed)


def test_how_far_apart_arrays_are():
    assert bounds.distance(np.array([1.0, 5.0, np.nan, 7.0]), np.array([1.5, 3.0, 1.0, np.inf])) == 2
    assert bounds.distance(np.ones(3), np.zeros(1)) == 0


@pytest.mark.parametrize(
    ("gap", "bound", "expected"),
    [
        ([0.0, 2.0, 3.0], [0.0, 4.0, 4.0], (3, 4)),
        ([1.0, 2.0], [1.0, 4.0], (1, 1)),
        ([1e-9, 2.0], [0.0, 4.0], (1e-9, 0)),
        ([1.0, 2.0], 4.0, (2, 4)),
        ([0.0, 0.5], [1.0, 8.0], (0.5, 8)),
        ([], [], (0, 0)),
    ],
)
def test_what_is_the_largest_part_of_its_bound(gap, bound, expected):
    assert bounds.nearest(np.array(gap), np.array(bound)) == expected


def test_what_is_just_at_its_bound_is_within():
    x = np.array([4.0, 4.0])
    at = np.array([4.0, 4.0 + 64 * 2.0**-24 * 4])
    assert not bounds.direct("y", x.astype("f4"), at.astype("f4"), "exact").why
