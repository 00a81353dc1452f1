"""Rounding to narrow types, compared with onnxruntime's Cast."""

import numpy as np
import pytest
from onnx import TensorProto, parser
from opshift.passes.types.constants import overflow
from opshift.passes.types.formats import FORMATS, as_floats, round_array

from opshift.verification.engines import OnnxRuntime

NUMBERS = np.array(
    [0, -0.0, 1, 1 / 3, 65504, 65519, 65520, 1e-8, 2.9e-8, 3e-8, 6e-8, 3.4e38, -3.4e38, np.inf, np.nan, 2049, 257],
    np.float32,
)


@pytest.mark.parametrize("target", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_numbers_are_rounded_as_onnxruntime_rounds_them(target):
    text = f"<ir_version: 8, opset_import: ['': 17]> g (float[N] x) => (float[N] y) {{ h = Cast<to={target}>(x) y = Cast<to=1>(h) }}"
    expected = OnnxRuntime(parser.parse_model(text.replace("'", '"'))).run({"x": NUMBERS})[0]
    np.testing.assert_array_equal(as_floats(round_array(NUMBERS, target), target), expected.astype(np.float64))


@pytest.mark.parametrize("target", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_the_least_number_that_becomes_infinite(target):
    edge = np.float32(overflow(FORMATS[target]))
    assert np.isinf(as_floats(round_array(np.array([edge]), target), target)).all()
    assert np.isfinite(as_floats(round_array(np.nextafter(np.array([edge]), np.float32(0)), target), target)).all()


@pytest.mark.parametrize("target", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_the_largest_number_that_becomes_0(target):
    edge = np.array([FORMATS[target].vanishes_below], np.float64)
    if target == TensorProto.FLOAT16:
        assert as_floats(round_array(edge, target), target) == 0
        assert as_floats(round_array(edge * 1.01, target), target) > 0
