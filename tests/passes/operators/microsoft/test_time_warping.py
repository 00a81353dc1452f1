"""DynamicTimeWarping: matrices of several shapes, with costs that are equal, and such that lead along an edge."""

import numpy as np

from tests.passes.operators.microsoft.harness import FLOAT, calls, check

SHAPES = [(1, 1), (1, 4), (3, 1), (1, 5, 4), (0, 4), (3, 0), (0, 0)]


def test_ways():
    rng = np.random.default_rng(0)
    costs = [rng.normal(size=shape) for shape in SHAPES]
    costs += [np.zeros((3, 4)), rng.integers(0, 3, (6, 5)).astype(FLOAT)]
    assert check(calls("DynamicTimeWarping", {"input": costs}, types=[FLOAT]), opsets=(21, 13)) == len(costs)
