"""Constant: what it may hold, where it lives."""

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_unchanged, evaluate, model

ONE = {"inputs": "float[3] x", "outputs": "float[3] y"}


@pytest.mark.parametrize(
    ("short", "shape", "tensor"),
    [
        ("value_int=7", "int64", "7"),
        ("value_ints=[7, -8]", "int64[2]", "[7, -8]"),
        ("value_ints: ints=[]", "int64[0]", "[]"),
        ("value_float=0.5", "float", "0.5"),
        ("value_floats=[0.5, -1.0]", "float[2]", "[0.5, -1.0]"),
        ('value_string="a"', "string", "object:a"),
        ('value_strings=["a", ""]', "string[2]", "object:['a', '']"),
    ],
)
def test_short_forms_become_a_tensor_below_12(short, shape, tensor):
    body = f"c = Constant<{short}>() y = Identity(c)"
    made = check(body, 13, f"y = Identity({tensor})", 11, inputs="float[1] x", outputs=f"{shape} y")
    assert [a.name for a in made.graph.node[0].attribute] == ["value"]


def test_constants_that_may_stay():
    check_unchanged(
        "c = Constant<value = float[2] {1, 2}>() y = Identity(c)",
        13,
        1,
        inputs="float x",
        outputs="float[2] y",
    )
    body = "c = Constant<value = int64[2] {1, 2}>() y = Identity(c)"
    check_unchanged(body, 12, 9, inputs="float x", outputs="int64[2] y")


def test_constants_other_than_floats_become_initializers_below_9():
    body = "c = Constant<value = int64[2] {3, 1}>() y = Reshape(x, c)"
    made = check(body, 12, "y = Reshape(x, c)", 8, inputs="float[3] x", outputs="float[3,1] y")
    assert [t.name for t in made.graph.initializer] == ["c"]
    body, io = "y = Constant<value = int64[1] {3}>()", {"inputs": "float x", "outputs": "int64[1] y"}
    made = check(body, 12, "y = Identity(y_1)", 8, **io)
    assert [t.name for t in made.graph.initializer] == ["y_1"]


def test_constants_inside_a_branch_become_initializers_below_9():
    body = """
    y = If (c) <
        then_branch = t () => (float[3,1] a) { s = Constant<value = int64[2] {3, 1}>() a = Reshape(x, s) },
        else_branch = e () => (float[3,1] b) { s = Constant<value = int64[2] {-1, 1}>() b = Reshape(x, s) }
    >
    """
    made = model(body, 11, inputs="float[3] x, bool c", outputs="float[3,1] y")
    result = convert.attempt(made, {"": 8}).model
    assert [n.op_type for a in result.graph.node[0].attribute for n in a.g.node] == [
        *("Identity", "Reshape", "Identity", "Reshape")
    ]
    for chosen in (True, False):
        feeds = {"x": np.arange(3, dtype=np.float32), "c": np.array(chosen)}
        np.testing.assert_array_equal(evaluate(result, feeds)[0], evaluate(made, feeds)[0])


def sparse(values, indices, dims, kind):
    value = onnx.helper.make_tensor("v", kind, [len(values)], values)
    positions = onnx.helper.make_tensor("i", onnx.TensorProto.INT64, np.shape(indices), np.ravel(indices))
    made = model("y = Identity(x)", 11, inputs="float[2,3] x", outputs="float[2,3] y")
    held = onnx.helper.make_sparse_tensor(value, positions, dims)
    made.graph.node[0].CopyFrom(onnx.helper.make_node("Constant", [], ["y"], sparse_value=held))
    del made.graph.output[:]
    made.graph.output.append(onnx.helper.make_tensor_value_info("y", kind, dims))
    return made


@pytest.mark.parametrize(
    ("values", "indices", "dims", "kind", "dense"),
    [
        ([1.5, -2.0], [1, 5], [2, 3], onnx.TensorProto.FLOAT, [[0, 1.5, 0], [0, 0, -2.0]]),
        ([1.5, -2.0], [[0, 1], [1, 2]], [2, 3], onnx.TensorProto.FLOAT, [[0, 1.5, 0], [0, 0, -2.0]]),
        ([7], [2], [3], onnx.TensorProto.INT64, [0, 0, 7]),
    ],
)
def test_sparse_constants_are_written_out_below_11(values, indices, dims, kind, dense):
    result = convert.attempt(sparse(values, indices, dims, kind), {"": 10}).model
    assert [a.name for a in result.graph.node[0].attribute] == ["value"]
    np.testing.assert_array_equal(evaluate(result, {})[0], dense)


def test_sparse_constants_too_large_to_write_out_are_refused():
    refusals = convert.attempt(sparse([1.0], [5], [2**20, 2**20], onnx.TensorProto.FLOAT), {"": 10}).refusals
    assert "too large" in str(refusals[0])
