"""Reshape: a shape in an attribute, and what a 0 in it means."""

import numpy as np
import onnx.checker
import onnx.helper
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators.legacy import check_legacy
from tests.support import check, check_refused, check_unchanged, check_values, model


def test_zeros_that_copy_stay():
    io = {"inputs": "float[N,3] x", "outputs": "float[N,3] y", "constants": "int64[2] s = {0, -1}"}
    check_unchanged("y = Reshape(x, s)", 28, 7, **io)
    check("y = Reshape<allowzero=0>(x, s)", 14, "y = Reshape(x, [0, -1])", 13, **io)


def test_a_shape_without_zeros_loses_allowzero():
    check(
        "y = Reshape<allowzero=1>(x, s)",
        14,
        "y = Reshape(x, [3, -1])",
        13,
        inputs="float[N,3] x",
        outputs="float[3,N] y",
        constants="int64[2] s = {3, -1}",
    )


@pytest.mark.parametrize(
    ("elem_type", "made"),
    [
        ("float", "y = ConstantOfShape<value=[0.0]>([0, 5])"),
        ("int8", "y = ConstantOfShape<value=int8:[0]>([0, 5])"),
        ("string", "t1 = ConstantOfShape<value=bool:[False]>([0, 5])\n y = Cast<to=8>(t1)"),
    ],
)
def test_an_empty_result_is_made_from_the_shape(elem_type, made):
    check(
        "y = Reshape<allowzero=1>(x, s)",
        14,
        made,
        13,
        inputs=f"{elem_type}[3,0] x",
        outputs=f"{elem_type}[0,5] y",
        constants="int64[2] s = {0, 5}",
    )


@pytest.mark.parametrize(
    ("x", "shape"),
    [
        (np.ones((2, 3)), [3, -1]),
        (np.ones((2, 3)), [6, 1]),
        (np.ones((0, 3)), [5, 0]),
        (np.ones((3, 0)), [0, 7]),
    ],
)
def test_a_shape_known_at_run_time_is_tested_for_zeros(x, shape):
    after = """t1 = Equal(s, 0)
        t2 = Cast<to=7>(t1)
        t3 = ReduceSum<keepdims=0>(t2)
        t4 = Cast<to=9>(t3)
        y = If<else_branch={ t5 = Reshape(x, s); t5 }, then_branch={ t5 = {empty}; t5 }>(t4)""".replace(
        "{empty}", "ConstantOfShape<value=[0.0]>(s)"
    )
    check(
        "y = Reshape<allowzero=1>(x, s)",
        14,
        after,
        13,
        inputs="float[A,B] x, int64[2] s",
        outputs="float[D,E] y",
        feeds={"x": x.astype(np.float32), "s": np.array(shape)},
    )


def test_data_that_cannot_be_empty_need_no_condition():
    check(
        "y = Reshape<allowzero=1>(x, s)",
        14,
        "y = Reshape(x, s)",
        13,
        inputs="float[2,3] x, int64[2] s",
        outputs="float[D,E] y",
        feeds={"s": np.array([3, -1])},
    )


@pytest.mark.parametrize("shape", [[7, 0], [0, 0], [1, -1], [-1, 4]])
def test_data_that_are_empty_need_one(shape):
    io = {"inputs": "float[0,3] x, int64[2] s", "outputs": "float[D,E] y"}
    source = model("y = Reshape<allowzero=1>(x, s)", 14, **io)
    after = convert.attempt(source, {"": 13}).model
    check_values(source, after, {"s": np.array(shape)}, rtol=0, atol=0)


def test_a_condition_takes_bfloat16_as_float():
    after = """t1 = Cast<to=1>(x)
        t2 = Equal(s, 0)
        t3 = Cast<to=7>(t2)
        t4 = ReduceSum<keepdims=0>(t3)
        t5 = Cast<to=9>(t4)
        t6 = If<else_branch={ t7 = Reshape(t1, s); t7 }, then_branch={ t7 = {empty}; t7 }>(t5)
        y = Cast<to=16>(t6)""".replace("{empty}", "ConstantOfShape<value=[0.0]>(s)")
    io = {"inputs": "bfloat16[N,4] x, int64[2] s", "outputs": "bfloat16[A,B] y"}
    x = np.arange(12).reshape(3, 4).astype(onnx.helper.tensor_dtype_to_np_dtype(16))  # numpy knows no NaN of it
    check("y = Reshape<allowzero=1>(x, s)", 14, after, 13, feeds={"x": x, "s": np.array([4, -1])}, **io)


def test_empty_complex_data_are_refused():
    io = {"inputs": "complex64[N] x, int64[K] s", "outputs": "complex64[A,B] y"}
    check_refused("y = Reshape<allowzero=1>(x, s)", 14, 13, "complex", **io)
    check_refused("y = Unsqueeze(x, s)", 13, 12, "complex", **io)


def test_zero_beside_minus_one_is_refused():
    check_refused(
        "y = Reshape<allowzero=1>(x, s)",
        14,
        13,
        "0 or -1 in the shape, not both",
        inputs="float[N,3] x",
        outputs="float[0,N] y",
        constants="int64[2] s = {0, -1}",
    )


FLOATS = np.array([[0.0, -0.0, np.inf], [np.nan, -1.5, 2.0]], np.float32)
RESHAPE = {"inputs": "float[2,3] x", "outputs": "float[3,2] y"}


def test_the_shape_moves_between_attribute_and_input_at_5():
    expected = [FLOATS.reshape(3, 2)]
    before = "y = Reshape<shape=[3,-1], consumed_inputs=[0]>(x)"
    check_legacy(before, 1, "y = Reshape(x, [3, -1])", 5, {"x": FLOATS}, expected, **RESHAPE)
    held = "int64[2] s = {3, -1}"
    after = "y = Reshape<shape=[3, -1]>(x)"
    check_legacy("y = Reshape(x, s)", 5, after, 4, {"x": FLOATS}, expected, constants=held, **RESHAPE)
    check_refused("y = Reshape(x)", 1, 5, "attribute shape is missing", **RESHAPE)


def test_a_shape_known_at_run_time_is_read_from_the_result():
    for size, shape in (("N", [3, -1]), ("2", [3, 2])):
        io = {"inputs": "float[N,3] x, int64[2] s", "outputs": f"float[3,{size}] y"}
        after = f"y = Reshape<shape={shape}>(x)"
        check_legacy("y = Reshape(x, s)", 5, after, 4, {"x": FLOATS}, [FLOATS.reshape(3, 2)], **io)
    for outputs in ("float[M,N] y", "float[0,N] y"):
        check_refused("y = Reshape(x, s)", 5, 4, "dynamic here", **{**io, "outputs": outputs})
