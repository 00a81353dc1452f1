"""Gelu and FastGelu, with and without a bias."""

import numpy as np

from tests.passes.operators.microsoft.harness import FLOAT, calls, check

X = np.array([[0.0, -0.0, 1.5, -2.25], [np.inf, -np.inf, np.nan, 1e30], [-1e30, 1e-30, -12.0, 0.25]])
SHAPES = [X, (2, 3, 4), (0, 4), (1, 4)]


def test_gelu():
    assert check(calls("Gelu", {"X": [*SHAPES, ()]}, types=[FLOAT])) == 5


def test_the_approximation_by_tanh():
    assert check(calls("FastGelu", {"X": SHAPES, "bias": (4,)}, types=[FLOAT])) == 8
