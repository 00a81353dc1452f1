"""What half precision does to a model by itself is no fault of a backend that computes so; all else is."""

import numpy as np
import pytest
from opshift.passes.model.messages import TensorProto

from opshift.trying.halves import round_to_half, run_in_halves
from opshift.trying.trial import Expected, _beyond
from opshift.verification.side import Side
from tests.support import model

FEEDS = {"x": np.linspace(-0.1, 0.1, 12, dtype=np.float32).reshape(3, 4)}
BODY = "a = Add(x, big) y = Sub(a, big) z = ArgMax<axis = 1, keepdims = 0>(y)"
"""Half precision holds numbers about 10 to 0.008, which is 4 % of the largest element here."""


@pytest.fixture
def held():
    made = model(BODY, 17, inputs="float[3,4] x", outputs="float[3,4] y, int64[3] z", constants="float big = {10.0}")
    side = Side(made)
    return Expected(side, (FEEDS,), (side.open().run(FEEDS),))


def why(held, outputs, *, half=True):
    return _beyond(held, [outputs], 0.01, half=half)[2]


def test_values_are_rounded_like_numpy_does(held):
    y = run_in_halves(held.side, held.feeds)[0][0]
    rounded = (FEEDS["x"].astype(np.float16) + np.float16(10)) - np.float16(10)
    np.testing.assert_array_equal(y, rounded.astype(np.float32))
    elem_types = {v.name: v.type.tensor_type.elem_type for v in round_to_half(held.side.model).graph.output}
    assert elem_types == {"y": TensorProto.FLOAT, "z": TensorProto.INT64}


def test_what_half_precision_does_is_no_difference(held):
    halved = run_in_halves(held.side, held.feeds)[0]
    assert why(held, halved) == ""
    assert "off by" in why(held, halved, half=False)
    other = [held.outputs[0][0], halved[1]]
    assert why(held, other) == ""  # where rounding made a tie


def test_what_it_does_not_do_is_one(held):
    y, z = held.outputs[0]
    assert "in half precision onnxruntime is off by 0.0038" in why(held, [y * 1.2, z])
    assert why(held, [np.roll(y, 1), z])
    assert "shape" in why(held, [y[:2], z])
    assert why(held, [y, z * 0 + 1]) == "other values"
