"""ConstantOfShape before it existed, and of types that could not be filled in."""

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check_down, check_unchanged, evaluate, model, show


@pytest.mark.parametrize("shape", [[2, 0, 3], [2, 4, 3], [1, 1, 1]])
@pytest.mark.parametrize(("value", "elem_type"), [("", "float"), ("<value = int64[1] {7}>", "int64")])
def test_constant_of_shape_below_9(shape, value, elem_type):
    io = {"inputs": "int64[3] s", "outputs": f"{elem_type}[A,B,C] y"}
    check_down(f"y = ConstantOfShape{value}(s)", 9, 8, 7, feeds={"s": np.array(shape)}, **io)
    io = {"inputs": "float x", "outputs": f"{elem_type}[A,B,C] y"}
    io["constants"] = f"int64[3] s = {{{','.join(map(str, shape))}}}"
    check_down(f"y = ConstantOfShape{value}(s)", 9, 8, 7, **io)


def test_constant_of_shape_that_is_a_scalar_below_9():
    io = {"inputs": "float x", "outputs": "bool y"}
    check_down("s = Shape(x) y = ConstantOfShape<value = bool[1] {1}>(s)", 9, 8, 7, **io)


@pytest.mark.parametrize(("kind", "saturate"), [("bfloat16", ""), ("float8e5m2", "saturate=0, ")])
def test_values_that_cannot_be_filled_in_are_cast_below_20(kind, saturate):
    to = onnx.TensorProto.DataType.Value(kind.upper())
    held = onnx.helper.make_tensor("v", to, [1], [1.5])
    source = model("y = Identity(s)", 20, inputs="int64[2] s", outputs=f"{kind}[2,3] y")
    source.graph.node[0].CopyFrom(onnx.helper.make_node("ConstantOfShape", ["s"], ["y"], value=held))
    made = convert.attempt(source, {"": 19}).model
    assert show(made) == f"t1 = ConstantOfShape<value=[1.5]>(s)\ny = Cast<{saturate}to={to}>(t1)"
    onnx.checker.check_model(made, full_check=True)
    (found,) = evaluate(made, {"s": np.array([2, 3])}) if kind != "bfloat16" else (np.full((2, 3), 1.5),)
    np.testing.assert_array_equal(found.astype(np.float32), np.full((2, 3), 1.5))


def test_values_that_can_be_filled_in_stay():
    io = {"inputs": "int64[2] s", "outputs": "int32[A,B] y"}
    check_unchanged("y = ConstantOfShape<value = int32[1] {7}>(s)", 25, 9, **io)
    check_unchanged("y = ConstantOfShape(s)", 9, 25, inputs="int64[2] s", outputs="float[A,B] y")
