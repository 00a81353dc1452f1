"""Constant nodes become initializers; what was said of them goes along only if it is true."""

import onnx.checker
import pytest
from onnx import TensorProto, helper

from tests.passes.simplification.rules.support import optimized
from tests.support import model


@pytest.mark.parametrize(
    ("elem_type", "shape", "stays"),
    [
        (TensorProto.INT64, [1], True),
        (TensorProto.INT64, None, False),  # as torch's exporter says of value_ints
        (TensorProto.INT64, [], False),
        (TensorProto.INT64, [2], False),
        (TensorProto.INT32, [1], False),
    ],
)
def test_what_is_said_of_a_constant_stays_if_it_is_true(elem_type, shape, stays):
    body = "axis = Constant<value_ints=[1]>() s = Constant<value_ints=[0]>() e = Constant<value_ints=[2]>() y = Slice(x, s, e, axis)"
    source = model(body, 18, inputs="float[N,3] x", outputs="float[N,2] y")
    source.graph.value_info.append(helper.make_tensor_value_info("axis", elem_type, shape))
    made = optimized(source)
    onnx.checker.check_model(made, full_check=True)
    assert [tensor.name for tensor in made.graph.initializer] == ["axis", "s", "e"]
    assert [value.name for value in made.graph.value_info] == (["axis"] if stays else [])
