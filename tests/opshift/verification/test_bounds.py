"""The numbers that bounds are made of, held against the words at their head, and how a difference is told."""

import ml_dtypes
import numpy as np
import pytest

from opshift.verification import bounds
from opshift.verification.bounds import SAME, Closeness, Runs, compare, identical, judge, judge_by_user, judge_outputs
from opshift.verification.tolerances import Tolerance

A = np.float32([[1, 2, 3], [4, 5, 6]])
GRADES = ["exact", "close"]


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


@pytest.mark.parametrize("grade", GRADES)
def test_what_is_excused_at_most(grade):
    assert bounds.cap(np.dtype(ml_dtypes.float8_e4m3fn), grade) == 2.0**-3
    for dtype in (np.float16, np.float32, ml_dtypes.bfloat16):
        assert bounds.cap(np.dtype(dtype), grade) == bounds.CAPS[np.dtype(dtype).name][grade]
    assert bounds.cap(np.dtype(np.complex64), grade) == bounds.CAPS["float32"][grade]


# --- held against the words ------------------------------------------------------------------------------------

TIMES, UNITS = {"exact": 4, "close": 16}, {"exact": 64, "close": 8192}
EXCUSED = {"float16": (0.01, 0.02), "bfloat16": (0.02, 0.02), "float32": (1e-4, 1e-3), "complex64": (1e-4, 1e-3)}


def widths(values):
    size = [abs(v) if np.isfinite(v) else 0.0 for v in values]
    mean = np.sqrt(sum(min(v, 1e150) ** 2 for v in size) / len(size)) if len(size) > 1 else 0.0
    return [max(v, mean) for v in size]


def apart(a, b):
    return [abs(p - q) if np.isfinite(p) and np.isfinite(q) else 0.0 for p, q in zip(a, b, strict=True)]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("grade", GRADES)
def test_bounds_are_what_the_text_says(grade, dtype, seed):
    random = np.random.default_rng(seed)
    u, size = bounds.half_unit(np.dtype(dtype)), int(random.integers(1, 9))
    x = random.standard_normal(size) * 4.0 ** random.integers(-6, 7, size)
    a, b, moved = (
        (x * (1 + random.choice(factors) * random.standard_normal(size))).astype(dtype)
        for factors in ([0, u], [0, u, 100 * u, 1e4 * u], [0, u, 10 * u])
    )
    noise = max(apart(a.astype(float), moved.astype(float)))
    most = EXCUSED[np.dtype(dtype).name][grade == "close"]
    allowed = [
        max(min(UNITS["exact"] * u * width + TIMES[grade] * noise, most * width), 2 * noise)
        for width in widths(a.astype(float))
    ]
    gaps = apart(a.astype(float), b.astype(float))
    found = judge(Runs(a, b, moved=(moved,)), grade)
    wrong = any(gap > one for gap, one in zip(gaps, allowed, strict=True))
    assert bool(found.why) == wrong or np.array_equal(a.view("u1"), b.view("u1"))
    if not found.why and not identical(a, b):
        parts = [gap / one for gap, one in zip(gaps, allowed, strict=True)]
        assert found.share == pytest.approx(max(parts), rel=1e-9)


@pytest.mark.parametrize("grade", GRADES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64])
def test_two_runs_are_as_near_as_the_text_says(grade, dtype):
    u, most = (2.0**-11 if dtype is np.float16 else 2.0**-24), EXCUSED[np.dtype(dtype).name][grade == "close"]
    x = np.array([3, -4, 1, 0.5], dtype) * (1j if dtype is np.complex64 else 1)
    x = x.astype(dtype)
    allowed = min(UNITS[grade] * u, most) * widths(x.astype(np.complex128))[3]
    for part, why in ((0.5, False), (1.1, True)):
        other = x.copy()
        other[3] += dtype(part * allowed * (1j if dtype is np.complex64 else 1))
        found = judge(Runs(x, other), grade)
        assert bool(found.why) is why
        assert found.difference == pytest.approx(abs(complex(other[3]) - complex(x[3])))
        assert found.allowed == pytest.approx(allowed)


def test_what_moves_with_a_rounding_of_the_inputs_is_excused():
    a, b = np.full(8, 1, np.float32), np.full(8, 1.01, np.float32)
    assert judge(Runs(a, b), "close").why
    assert not judge(Runs(a, b, moved=(a * np.float32(1.006),)), "close").why
    assert judge(Runs(a, b, moved=(a * np.float32(1.004),)), "close").why
    assert judge(Runs(a, b, moved=(a[:2],)), "close").why, "of another shape"


@pytest.mark.parametrize("grade", GRADES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_on_one_side_differs(value, grade):
    b = A.copy()
    b[0, 2] = value
    said = f"{np.float32(value)} instead of 3.0 at [0, 2], 1 of 6 elements differ"
    assert judge(Runs(A, b), grade).why == said
    assert judge(Runs(b, A), grade).why == f"3.0 instead of {np.float32(value)} at [0, 2], 1 of 6 elements differ"
    assert judge(Runs(b, b.copy()), grade) == SAME
    assert compare(A, b, grade).why == said


def test_large_values_are_judged_as_small_ones_are():
    """In one pass where the largest difference is allowed everywhere."""
    a = np.random.default_rng(0).standard_normal(1 << 15).astype(np.float32)
    for factor, why in ((1 + 2.0**-22, False), (1.01, True)):
        found = judge(Runs(a, a * np.float32(factor)), "close")
        assert (bool(found.why), found.is_same) == (why, False)
    hole = a.copy()
    hole[7] = np.nan
    assert judge(Runs(a, hole), "close").why
    assert not judge(Runs(hole, hole * np.float32(1 + 2.0**-22)), "close").why


@pytest.mark.parametrize(
    ("b", "is_other"),
    [
        (A * 2, True),
        (-A, True),
        (A[:1], True),
        (A + np.float32([[0, 0, 0], [0, 0, 3]]), False),
        (A * np.float32(1.01), False),
        (np.where(A > 5, np.float32(-3.4e38), A), True),  # masks
    ],
)
def test_other_values_altogether(b, is_other):
    """Most elements are far apart, as where one name means two values, or some are of another order."""
    found = judge(Runs(A, b), "exact")
    assert (bool(found.why), found.is_other) == (True, is_other)


# --- what is decided --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        (np.array([1, 2]), np.array([1, 3]), "3 instead of 2 at [1], 1 of 2 elements differ"),
        (np.array([True]), np.array([False]), "False instead of True at [0], 1 of 1 elements differ"),
        (np.array([1, 2]), np.array([1]), "shape [1] instead of [2]"),
        (np.float32([1]), np.float64([1]), "type float64 instead of float32"),
        (np.array(["a"], object), np.array(["b"], object), "b instead of a at [0], 1 of 1 elements differ"),
        (None, A, "only one model returns a value"),
        ({"a": 1}, {"a": 2}, "the maps differ"),
    ],
)
def test_what_is_decided_otherwise_differs(a, b, why):
    assert judge(Runs(a, b), "close").why == why
    assert not judge(Runs(a, a), "close").why


def test_what_rounding_decides_is_excused():
    """Sixteen times as many may be other ones as are where the inputs move by a rounding."""
    a = np.arange(200)
    moved = a.copy()
    moved[:1] += 1
    for count, why in ((1, False), (16, False), (17, True)):
        b = a.copy()
        b[:count] += 1
        assert judge(Runs(a, b), "close").why
        assert bool(judge(Runs(a, b, moved=(moved,)), "close").why) is why


@pytest.mark.parametrize(("gap", "count", "why"), [(1, 2, False), (1, 9, True), (2, 1, True)])
def test_quantized_values_are_a_step_apart(gap, count, why):
    a = np.full(100, 100, np.uint8)
    b = a.copy()
    b[:count] += gap
    assert bool(judge(Runs(a, b, step=0.5), "close").why) is why
    floats = [value.astype(np.float32) * np.float32(0.5) for value in (a, b)]
    assert bool(judge(Runs(*floats, step=0.5), "close").why) is (gap == 2)


def test_sequences_are_judged_element_by_element():
    near = [A * np.float32(1.0000001), A]
    assert not judge(Runs([A, A], near), "close").why
    assert judge(Runs([A, A], [A, A * np.float32(1.5)]), "close").why.startswith("1.5 instead of 1.0")
    assert judge(Runs([A, A], [A]), "close").why == "1 elements instead of 2"
    assert not judge(Runs([], []), "close").why


# --- outputs of whole models --------------------------------------------------------------------------------------


def test_outputs_may_move_as_rounding_moves_them():
    a = np.linspace(1, 2, 64).astype(np.float32)
    b = a * np.float32(1.004)
    assert judge_outputs(a, b, "close").why
    assert judge_outputs(a, b, "close", (a * np.float32(1.0001),)).why
    found = judge_outputs(a, b, "close", (a * np.float32(1.001),))
    assert (found.why, 0 < found.share < 1) == ("", True)
    assert judge_outputs(a, a, "exact") == SAME


# --- what a user allows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "tolerance", "agree"),
    [
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], Tolerance(), True),
        ([1.0, np.nan], [1.0, 2.0], Tolerance(9, 9), False),
        ([np.inf], [-np.inf], Tolerance(9, 9), False),
        ([np.inf], [3e4], Tolerance(9, 9), False),
        ([10.0], [11.0], Tolerance(rtol=0.1), True),
        ([10.0], [11.1], Tolerance(rtol=0.1), False),
        ([0.0], [-0.0], Tolerance(), True),
        ([], [], Tolerance(), True),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_within_a_tolerance(a, b, tolerance, agree, dtype):
    assert (not judge_by_user(np.array(a, dtype), np.array(b, dtype), tolerance).why) is agree


@pytest.mark.parametrize(
    ("a", "b", "atol", "agree"),
    [
        (np.array([2**53, 7]), np.array([2**53 + 1, 7]), 0.5, False),
        (np.array([2**53, 7]), np.array([2**53 + 1, 7]), 1, True),
        (np.array([3], np.uint8), np.array([2], np.uint8), 1, True),
        (np.array([-8], ml_dtypes.int4), np.array([7], ml_dtypes.int4), 14, False),
        (np.array([-8], ml_dtypes.int4), np.array([7], ml_dtypes.int4), 15, True),
        (np.array([True]), np.array([False]), 9, False),
        (np.array(["a"], object), np.array(["b"], object), 9, False),
        (np.zeros(2), np.zeros(3), 9, False),
        (np.zeros(2), np.zeros(2, np.int64), 9, False),
        ([np.zeros(2)], [np.ones(2)], 0.5, False),
        ([np.zeros(2)], [np.ones(2)], 1, True),
    ],
)
def test_other_types_within_a_tolerance(a, b, atol, agree):
    found = judge_by_user(a, b, Tolerance(atol=atol))
    assert (not found.why) is agree
    if found.why and not isinstance(a, list) and a.shape == b.shape and a.dtype == b.dtype and a.dtype.kind in "iuV":
        assert f"by more than rtol 0, atol {atol:g}" in found.why


# --- small things -------------------------------------------------------------------------------------------------


def test_the_first_element_that_differs_is_told():
    b = A + np.float32([[0, 0, 0], [0, 9, 9]])
    said = "14.0 instead of 5.0 at [1, 1], 2 of 6 elements differ"
    assert bounds.describe_first_wrong(A, b, b != A) == judge(Runs(A, b), "exact").why == compare(A, b).why == said
    one, other = np.float32(1), np.float32(9)
    said = "9.0 instead of 1.0, 1 of 1 elements differ"
    assert bounds.describe_first_wrong(one, other, one != other) == compare(one, other).why == said


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


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_largest_number_means_infinity_to_another_form(dtype):
    """onnxruntime masks scores with it, and definitions with infinity; it is no scale for the numbers beside it."""
    most = np.finfo(dtype).max
    masked, infinite = np.array([-most, 2, most], dtype), np.array([-np.inf, 2, np.inf], dtype)
    for one, other in ((masked, infinite), (infinite, masked)):
        assert not judge(Runs(one, other), "close").why
        assert not judge_outputs(one, other, "close", (one,)).why
        assert judge(Runs(one, other), "exact").why
        assert judge(Runs(one, -other), "close").why
    other = np.array([-most, 2.5, most], dtype)
    assert "2.5 instead of 2.0 at [1]" in judge(Runs(masked, other), "close").why
    rounded = np.array([np.nextafter(-most, dtype(0)), 2, most], dtype)
    for other in (masked, infinite):
        assert not judge(Runs(rounded, other), "close").why
    smaller = np.array([-most * (1 - 8 * np.finfo(dtype).eps), 2, most], dtype)
    assert judge(Runs(smaller, infinite), "close").why


@pytest.mark.parametrize(
    ("gap", "allowed", "expected"),
    [
        ([0.0, 2.0, 3.0], [0.0, 4.0, 4.0], (3, 4)),
        ([1.0, 2.0], [1.0, 4.0], (1, 1)),
        ([1e-9, 2.0], [0.0, 4.0], (1e-9, 0)),
        ([1.0, 2.0], 4.0, (2, 4)),
        ([], [], (0, 0)),
    ],
)
def test_what_is_the_largest_part_of_what_is_allowed(gap, allowed, expected):
    assert bounds.nearest(np.array(gap), np.array(allowed)) == expected


def test_of_two_the_worse():
    near, far = Closeness("", 1, 10), Closeness("", 3, 4, is_same=False)
    assert near.worse(far) == far.worse(near) == far
    wrong = Closeness("it differs", 1, 100, is_same=False)
    assert far.worse(wrong).why == wrong.worse(far).why == "it differs"
    assert SAME.worse(near).is_same
    assert Closeness("", 1, 0).share == 1
    assert SAME.share == 0


@pytest.mark.parametrize(
    ("value", "floats"),
    [
        (np.float32(1), True),
        (np.float64([1]), True),
        (np.complex64(1), True),
        (np.array([1], ml_dtypes.bfloat16), True),
        (np.array([1], ml_dtypes.float8_e4m3fn), True),
        (np.array([1], ml_dtypes.int4), False),
        (np.array([1]), False),
        (np.array(["a"], object), False),
        ([1.0], False),
        (None, False),
    ],
)
def test_what_is_an_array_of_floats(value, floats):
    assert bounds.is_float(value) is floats


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
def test_moving_by_a_rounding(dtype):
    value = np.linspace(1, 2, 100).astype(dtype)
    moved = bounds.move_by_rounding(value, 0)
    assert moved.dtype == value.dtype
    gap = np.abs(moved.astype(float) - value.astype(float))
    assert 0 < gap.max() <= 4 * 2 * bounds.half_unit(np.dtype(dtype))
    assert (bounds.move_by_rounding(value, 1).astype(float) != moved.astype(float)).any()


def test_a_single_number_that_is_moved_is_an_array():
    """Engines take no other, and without it the bound would be 128 times as wide."""
    moved = bounds.move_by_rounding(np.array(1.5, np.float32), 0)
    assert isinstance(moved, np.ndarray)
    assert (moved.dtype, moved.shape, 0 < abs(moved - 1.5) < 1e-6) == (np.float32, (), True)


@pytest.mark.parametrize("value", [np.array([1]), np.zeros(0, np.float32), None, [A], np.array(["a"], object)])
def test_what_cannot_be_moved_stays(value):
    assert bounds.move_by_rounding(value, 0) is value


# --- comparing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [None, A, np.arange(3), np.array([True]), np.array(["a"], object), [A, A], {"a": 1.0}, A[:0], np.float32(2)],
)
def test_what_is_equal_is_not_apart(value):
    assert (compare(value, value), bounds.measure(value, value)) == (SAME, (0.0, 0.0))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (A, A.copy(), True),
        (A, -A, False),
        (A, A.astype("f8"), False),
        (A, A[0], False),
        (np.float32([0.0]), np.float32([-0.0]), False),
        (np.float32([np.nan]), np.float32([np.nan]), True),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), False),
        ([A, A], [A, A], True),
        ([A, A], [A], False),
        ([A], A, False),
        (None, None, True),
        (None, A, False),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
    ],
)
def test_what_is_the_same_bit_for_bit(one, other, same):
    assert identical(one, other) is same


def test_complex_numbers():
    one = np.complex64([1 + 2j, 3j])
    assert not compare(one, one * np.complex64(1 + 1e-7j)).why
    other = one + np.complex64(3 + 4j)
    assert compare(one, other).why
    assert bounds.measure(one, other)[0] == 5


@pytest.mark.parametrize("kind", ["int4", "uint4", "int2", "uint2"])
def test_narrow_integers_are_apart_by_whole_numbers(kind):
    if not hasattr(ml_dtypes, kind):  # an older one
        return
    dtype = getattr(ml_dtypes, kind)
    one, other = np.array([0, 1, 1]).astype(dtype), np.array([1, 1, 0]).astype(dtype)
    assert compare(one, other).why == "1 instead of 0 at [0], 2 of 3 elements differ"
    assert bounds.measure(one, other) == (1, 1)
    assert not compare(one, one).why


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
