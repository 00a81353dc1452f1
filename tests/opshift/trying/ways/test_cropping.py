"""Pads below 0, which cut off, as a Slice before what is padded."""

import numpy as np
import onnx
import pytest

from opshift.trying.ways.cropping import crop
from tests.support import evaluate, model

X = np.arange(20, dtype=np.float32).reshape(4, 5)


def of(pads, more="", mode="constant", opset=18):
    dims = ", ".join(map(str, pads))
    body = f'p = Constant<value_ints = [{dims}]>() {more} y = Pad<mode = "{mode}">(x, p{", v, a" if more else ""})'
    return model(body, opset, inputs="float[M,N] x", outputs="float[P,Q] y")


AXES = "v = Constant<value_float = 7.0>() a = Constant<value_ints = [-1]>()"


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("pads", [(0, 1, 0, -1), (-1, 2, 1, 0), (-1, -1, -2, -3), (0, -2, 0, 0)])
@pytest.mark.parametrize("opset", [11, 18])
def test_it_is_the_same(opset, pads, mode):
    source = of(pads, mode=mode, opset=max(opset, 12))
    made, changes = crop(source, "Pad")
    onnx.checker.check_model(made, full_check=True)
    assert [node.op_type for node in made.graph.node][-2:] == ["Slice", "Pad"]
    assert {change.grade for change in changes} == {"exact"}
    np.testing.assert_array_equal(evaluate(made, {"x": X})[0], evaluate(source, {"x": X})[0])


def test_axes_that_are_told():
    source = of((-1, 2), AXES)
    made, _ = crop(source, "Pad")
    (expected,), (found,) = evaluate(source, {"x": X}), evaluate(made, {"x": X})
    np.testing.assert_array_equal(found, expected)
    assert found.shape == (4, 6)


@pytest.mark.parametrize(("shape", "expected"), [((0, 1), (0, 2)), ((1, 1), (1, 2)), ((3, 1), (3, 2))])
def test_where_nothing_is_left_only_the_pads_are(shape, expected):
    """onnxruntime leaves them unwritten where one Pad does both."""
    made, _ = crop(of((0, -1, 0, 2)), "Pad")
    (found,) = evaluate(made, {"x": np.full(shape, 3, np.float32)})
    np.testing.assert_array_equal(found, np.zeros(expected, np.float32))


@pytest.mark.parametrize(
    "source",
    [
        of((0, 1, 2, 0)),
        of((0, 1, 0, -1), mode="wrap", opset=19),
        model("y = Pad(x, p)", 18, inputs="float[M,N] x, int64[4] p", outputs="float[P,Q] y"),
    ],
)
def test_what_cuts_off_nothing_or_nobody_knows_stays(source):
    assert crop(source, "Pad") == (source, [])
