"""Small constants, judged by onnx's own helpers."""

from __future__ import annotations

import math

import numpy as np
import onnx.helper
import onnx.numpy_helper
import pytest
from onnx import TensorProto
from opshift.passes.model import tensors

T = TensorProto


@pytest.mark.parametrize("kind", [T.FLOAT, T.DOUBLE, T.INT64, T.INT32, T.BOOL, T.FLOAT16, T.INT8])
@pytest.mark.parametrize("value", [0, 1, -7, 0.5, -0.0, 1e-5, 0.1, 1e-46, 3.4028235e38, 1e39, math.inf, math.nan, True])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_number_is_what_numpy_makes_of_it(kind: int, value: float) -> None:
    expected = np.asarray(value).astype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    assert tensors.tensor(value, kind) == onnx.numpy_helper.from_array(expected)
