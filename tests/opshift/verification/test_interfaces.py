"""Inputs and outputs of forms in two precisions."""

import numpy as np

from opshift.verification import interfaces
from tests.support import model


def test_what_is_cast():
    one = model(
        "y = Neg(x) z = Neg(h) i = Neg(k)",
        13,
        inputs="float[2] x, float16[2] h, int64[2] k",
        outputs="float[2] y, float16[2] z, int64[2] i",
    )
    other = model("y = Neg(x) j = Neg(k)", 13, inputs="float16[2] x, int32[2] k", outputs="float16[2] y, int32[2] j")
    types = interfaces.casts(one, other)
    assert types == {"x": (1, 10), "y": (1, 10)}
    feeds = {"x": np.float32([1, 2049]), "k": np.array([1, 2])}
    assert [value.dtype for value in interfaces.rounded(feeds, types).values()] == [np.float32, np.int64]
    np.testing.assert_array_equal(interfaces.rounded(feeds, types)["x"], [1, 2048])
    assert [value.dtype for value in interfaces.as_second(feeds, types).values()] == [np.float16, np.int64]
    assert interfaces.casts(one, one) == {}
