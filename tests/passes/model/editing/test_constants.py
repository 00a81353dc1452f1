"""Constants as nodes of opsets whose Constant knows floats alone."""

import numpy as np
import pytest
from onnx import helper, numpy_helper
from opshift.passes.model.editing.constants import in_nodes


def nodes(value, opset):
    return in_nodes(numpy_helper.from_array(np.asarray(value), "c"), opset, lambda name: f"{name}_0")


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_floats_are_themselves(dtype):
    (node,) = nodes(np.array([1.5, -2], dtype), 5)
    assert (node.op_type, list(node.output)) == ("Constant", ["c"])
    assert numpy_helper.to_array(node.attribute[0].t).tolist() == [1.5, -2]
    assert node.attribute[0].t.data_type == helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


@pytest.mark.parametrize(("opset", "to"), [(5, b"INT64"), (6, 7)])
@pytest.mark.parametrize("value", [[3, -4], 2**53, 2**62])
def test_integers_are_cast_from_double(opset, to, value):
    made, cast = nodes(np.array(value, np.int64), opset)
    assert (list(made.output), list(cast.input), list(cast.output), cast.op_type) == (["c_0"], ["c_0"], ["c"], "Cast")
    held = numpy_helper.to_array(made.attribute[0].t)
    assert (held.dtype, held.tolist()) == (np.float64, np.array(value).astype(float).tolist())
    assert (cast.attribute[0].name, helper.get_attribute_value(cast.attribute[0])) == ("to", to)


def test_truths_are_cast_too():
    _, cast = nodes(np.array([True, False]), 6)
    assert cast.attribute[0].i == 9


@pytest.mark.parametrize("value", [np.array(["a"]), np.array(2**53 + 1), np.array([1j], np.complex64)])
def test_what_double_does_not_hold_has_no_nodes(value):
    assert nodes(value, 6) == []
