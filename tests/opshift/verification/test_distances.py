"""How far runs are apart, as a part of their scale, and how near they are that show nothing new."""

import math

import numpy as np
import pytest

from opshift.verification import bounds


def test_how_far_apart_two_runs_are_as_a_part_of_their_scale():
    a = np.float32([1, -1, 1, -1])
    assert bounds.apart(a, a) == 0
    assert bounds.apart(a, a * np.float32(1.5)) == pytest.approx(0.5)
    assert bounds.apart(a.astype(np.float64), a.astype(np.float64) * 1.25) == pytest.approx(0.25)
    assert bounds.apart(np.zeros(0, np.float32), np.zeros(0, np.float32)) == 0
    assert bounds.apart(np.float32([np.nan, 1]), np.float32([np.nan, 1])) == 0
    for one, other in (
        (a, a.astype(np.float64)),
        (a, a[:2]),
        (a.astype(np.float16), a.astype(np.float16)),
        (a.astype(np.complex64), a.astype(np.complex64)),
        (a, np.float32([1, -1, 1, np.nan])),
        (a, np.float32([1, -1, 1, np.inf])),
    ):
        assert bounds.apart(one, other) == math.inf


def test_how_near_runs_are_that_show_nothing_new():
    u = 2.0**-24
    assert bounds.near(np.dtype(np.float32), 0) == bounds.UNITS["exact"] * u
    assert bounds.near(np.dtype(np.float32), 1) == bounds.CAPS["float32"]["exact"]
    seen = bounds.UNITS["exact"] * u
    assert bounds.near(np.dtype(np.float32), seen) == bounds.TIMES["exact"] * seen


def test_what_is_not_said_changes_no_bound():
    x = np.float64([1, 2, 3])
    a, b = x.astype("f4"), (x * (1 + 2.0**-22)).astype("f4")
    runs = bounds.Runs(a, b, x, x * (1 + 1e-12))
    assert bounds.judge("y", runs, "close") == bounds.judge(
        "y", runs, "close", unit=0.0, narrow=None, rounded=False, noise=0.0
    )
