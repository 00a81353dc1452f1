"""Flatten along negative axes, of types that only Reshape takes, and of nothing."""

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_refused, check_unchanged, check_values, evaluate, model


def test_a_negative_axis_is_counted_from_the_front_below_11():
    io = {"inputs": "float[N,3,4] x", "outputs": "float[A,B] y"}
    check_unchanged("y = Flatten<axis=3>(x)", 13, 1, **io)
    check_unchanged("y = Flatten(x)", 1, 25, **io)
    check("y = Flatten<axis=-1>(x)", 13, "y = Flatten<axis=2>(x)", 9, **io)
    check("y = Flatten<axis=-3>(x)", 11, "y = Flatten<axis=0>(x)", 10, **io)
    check_refused("y = Flatten<axis=-4>(x)", 11, 10, "axis -4 is out of range for rank 3", **io)


def test_a_negative_axis_of_unknown_rank_is_counted_at_run_time():
    source = model("y = Flatten<axis=-2>(x)", 11, inputs="float[] x", outputs="float[A,B] y")
    converted = convert.attempt(source, {"": 10}).model
    assert converted is not None
    assert [n.op_type for n in converted.graph.node].count("Flatten") == 0
    for shape in ((2, 3, 4), (2, 3), (1, 2, 3, 4), (0, 3, 4), (2, 3, 0)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        check_values(source, converted, {"x": x}, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["int64", "bool", "string", "uint8"])
@pytest.mark.parametrize(
    ("shape", "axis", "target"),
    [
        ("2,3,4", 1, [-1, 12]),
        ("N,3,4", 1, [-1, 12]),
        ("2,3,N", 2, [6, -1]),
        ("N,M", 0, [1, -1]),
        ("N,M", 2, [-1, 1]),
        (None, 0, [-1, 1]),
    ],
)
def test_other_types_are_reshaped_below_9(kind, shape, axis, target):
    io = {"inputs": f"{kind}[{shape}] x" if shape else f"{kind} x", "outputs": f"{kind}[A,B] y"}
    made = check(f"y = Flatten<axis={axis}>(x)", 9, "y = Reshape(x, const)", 8, **io)
    assert onnx.numpy_helper.to_array(made.graph.initializer[0]).tolist() == target


@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 3, 0), (0, 0, 0)])
def test_unknown_sizes_are_multiplied_at_run_time_below_9(shape):
    source = model("y = Flatten<axis=2>(x)", 9, inputs="int32[N,M,K] x", outputs="int32[A,B] y")
    converted = convert.attempt(source, {"": 8}).model
    assert converted is not None
    feeds = {"x": np.arange(np.prod(shape), dtype=np.int32).reshape(shape)}
    assert evaluate(converted, feeds)[0].shape == (shape[0] * shape[1], shape[2])
    check_values(source, converted, feeds, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["int32", "string", "bool"])
def test_two_empty_sides_are_flattened_below_9(kind):
    made = convert.attempt(model("y = Flatten(x)", 9, inputs=f"{kind}[0,0] x", outputs=f"{kind}[A,B] y"), {"": 8}).model
    assert made is not None
    (y,) = evaluate(made, {"x": np.zeros((0, 0), {"string": object}.get(kind, kind))})
    assert y.shape == (0, 0)


@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (2, 0), (0, 0)])
def test_any_side_of_an_unknown_rank_may_be_empty_below_11(shape):
    made = convert.attempt(
        model("y = Flatten<axis=-1>(x)", 11, inputs="float[] x", outputs="float[A,B] y"), {"": 10}
    ).model
    assert made is not None
    (y,) = evaluate(made, {"x": np.ones(shape, np.float32)})
    assert y.shape == shape


def test_float8_is_reshaped_below_21():
    io = {"inputs": "float8e4m3fn[N,3,4] x", "outputs": "float8e4m3fn[A,12] y"}
    # no engine flattens float8
    check("y = Flatten(x)", 21, "y = Reshape(x, [-1, 12])", 20, run=False, **io)
