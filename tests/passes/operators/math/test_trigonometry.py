"""Trigonometric functions on request."""

import numpy as np

from tests.passes.operators.on_request import INF, NAN, computed


def test_tangents():
    x = np.array([0.0, -0.0, 1.0, -1.5, 1.5707, 100.0, INF, NAN], np.float32)
    with np.errstate(invalid="ignore"):
        expected = np.tan(x.astype(np.float64))
    np.testing.assert_allclose(computed("Tan(x)", x, grade="close"), expected, rtol=3e-6)
