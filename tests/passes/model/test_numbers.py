"""Elements of small constants are those that numpy reads."""

import ml_dtypes
import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from onnx import TensorProto as T
from opshift.passes.model import numbers

VALUES = {
    T.FLOAT: [0.0, -0.0, 1.5, np.inf, -1e-40],
    T.DOUBLE: [1e300, -2.5],
    T.FLOAT16: [0.5, -0.0, np.inf],
    T.BFLOAT16: [0.5, -3.0, np.inf],
    T.INT64: [2**62, -1],
    T.INT32: [-(2**31), 5],
    T.INT8: [-128, 127],
    T.UINT8: [0, 255],
    T.UINT32: [2**32 - 1],
    T.UINT64: [2**64 - 1],
    T.BOOL: [True, False],
}


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("kind", VALUES)
def test_elements_are_read_as_they_are(kind, raw):
    given = VALUES[kind]
    dtype = ml_dtypes.bfloat16 if kind == T.BFLOAT16 else onnx.helper.tensor_dtype_to_np_dtype(kind)
    if raw:
        held = onnx.numpy_helper.from_array(np.array(given, dtype))
    else:
        held = onnx.helper.make_tensor("t", kind, [len(given)], given)
    assert held.HasField("raw_data") == raw
    found = numbers.read(held)
    assert list(found) == np.array(given, dtype).astype(float if np.isinf(given).any() else dtype).tolist()
    assert np.signbit(np.array(found, np.float64)).tolist() == np.signbit(np.array(given, np.float64)).tolist()


def test_a_scalar_and_nothing_are_read():
    assert list(numbers.read(onnx.helper.make_tensor("t", T.FLOAT, [], [2.0]))) == [2.0]
    assert list(numbers.read(onnx.helper.make_tensor("t", T.INT64, [0], []))) == []


@pytest.mark.parametrize(
    "held",
    [
        T(data_type=T.FLOAT, dims=[2], raw_data=b"\0" * 4),
        T(data_type=T.FLOAT, dims=[2], float_data=[1.0]),
        T(data_type=T.STRING, dims=[1], string_data=[b"x"]),
        T(data_type=T.INT4, dims=[2], raw_data=b"\0"),
        T(data_type=T.FLOAT, dims=[1], data_location=T.EXTERNAL),
    ],
)
def test_what_does_not_fit_or_is_no_parameter_is_not_read(held):
    assert numbers.read(held) is None


def test_the_number_that_was_written_is_found_of_its_float32():
    for written in (0.1, 1e-5, 0.044715, 0.2, 1e-12, 3.0):
        assert numbers.as_written(float(np.float32(written))) == written
    third = float(np.float32(1 / 3))
    assert abs(numbers.as_written(third) / third - 1) < 2e-7
