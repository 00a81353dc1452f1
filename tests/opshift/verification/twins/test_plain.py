"""What numpy computes in the place of an engine is what the engine yields, to the bit; the rest is left to it."""

import numpy as np
import onnx.helper
import pytest
from opshift.passes.model import tensors
from opshift.passes.model.attributes import attribute_value

from opshift.verification.engines import OnnxRuntime
from opshift.verification.places.lines import constants
from opshift.verification.twins import calls, plain
from tests.support import model

X = np.array([[1.5, -0.0, np.inf], [-2.25, np.nan, 1e-310]])
CUBE = np.arange(24.0).reshape(2, 3, 4) - 7
EMPTY = np.zeros((0, 3))
HELD = """double[3] r = {3, 0, -7}, int64[2] s = {0, -1}, int64[2] t = {-1, 2}, int64[1] a = {1}, int64[1] l = {-1},
    int64[2] i = {-1, 0}, int64[1] b = {-9223372036854775807}, int64[1] e = {9223372036854775807}, int64[1] m = {-2}"""

CASES = [
    ("Add(x, r)", X), ("Sub(r, x)", X), ("Mul(x, r)", X), ("Div(x, r)", X), ("Div(r, x)", X), ("Neg(x)", X),
    ("Abs(x)", X), ("Sqrt(x)", X), ("Add(x, r)", EMPTY), ("Transpose(x)", X), ("Transpose<perm=[2,0,1]>(x)", CUBE),
    ("Reshape(x, s)", X), ("Reshape(x, t)", X), ("Reshape(x, s)", CUBE), ("Reshape<allowzero=1>(x, t)", X),
    ("Shape(x)", CUBE), ("Shape<start=1>(x)", CUBE), ("Shape<start=-1>(x)", CUBE), ("Shape<end=-1>(x)", CUBE),
    ("Unsqueeze(x, a)", X), ("Unsqueeze(x, l)", X), ("Squeeze(x, l)", X[:, :1]), ("Squeeze(x)", X[:1]),
    ("Concat<axis=-1>(x, x)", X), ("Concat<axis=0>(x, x)", EMPTY), ("Gather(x, i)", X), ("Gather<axis=-1>(x, i)", CUBE),
    ("MatMul(x, u)", np.array([[2.0, 4.0, 0.5]])), ("Slice(x, a, e)", CUBE), ("Slice(x, l, b, a, m)", CUBE),
    ("Slice(x, b, e, l)", CUBE), ("Slice(x, e, b, l, l)", CUBE), ("Slice(x, a, a)", CUBE),
]  # fmt: skip


@pytest.mark.parametrize(("call", "x"), CASES)
def test_numpy_yields_what_the_engine_does(call, x):
    of = model(
        f"y = {call}", 17, inputs="double[] x", outputs="double[] y", constants=f"{HELD}, double[3,1] u = {{1, 2, 4}}"
    )
    for value in (of.graph.input[0], of.graph.output[0]):
        value.type.tensor_type.ClearField("shape")
    if call.startswith("Shape"):
        of.graph.output[0].type.tensor_type.elem_type = 7
    (expected,) = OnnxRuntime(of).run({"x": x})
    (node,) = [node for node in of.graph.node if node.op_type != "Constant"]
    held = {name: tensors.array(tensor) for name, tensor in constants(of.graph).items()}
    inputs = [x if name == "x" else held[name] for name in node.input]
    made = plain.compute(node.op_type, 17, inputs, {a.name: attribute_value(a) for a in node.attribute})
    if call in ("Reshape<allowzero=1>(x, t)", "Squeeze(x)"):
        assert made is None
    else:
        np.testing.assert_array_equal(made[0], expected)
        assert (made[0].dtype, made[0].shape) == (expected.dtype, expected.shape)
        assert np.signbit(made[0]).tolist() == np.signbit(expected).tolist() or np.isnan(expected).any()


N = np.array([[3, -5, 2**62], [0, 2**63 - 1, -(2**63)]])
P = np.array([[3, 5, 2**62], [0, 2**63 - 1, 1]])
W = np.array([[2**31 - 1, -(2**31), 7]], np.int32)
T, F = np.array([[True, False, True]]), np.array([[True], [False]])
ONE = np.array([1, 2, 3])
Y = np.array([[1.5, 0.0, np.nan]])

OTHERS = [
    ("Add", {}, N, ONE), ("Sub", {}, N, ONE), ("Mul", {}, N, ONE), ("Add", {}, W, W), ("Mul", {}, W, W), ("Sub", {}, W, -W),
    ("Div", {}, P, ONE), ("And", {}, T, F), ("Or", {}, T, F), ("Not", {}, T), ("Equal", {}, N, ONE), ("Equal", {}, T, F),
    ("Equal", {}, X, Y), ("Less", {}, X, Y), ("LessOrEqual", {}, X, Y), ("Greater", {}, X, Y), ("Greater", {}, N, ONE),
    ("GreaterOrEqual", {}, X, Y), ("GreaterOrEqual", {}, W, W[:, ::-1]), ("IsNaN", {}, X), ("Where", {}, T, X, Y),
    ("Where", {}, T, N, ONE), ("Where", {}, F, np.float64(2), EMPTY[:, :1].reshape(1, 0)),
    ("Expand", {}, Y, np.array([2, 1, 3])), ("Expand", {}, X, np.array([3])), ("Expand", {}, F, np.array([2, 3])),
    ("Expand", {}, Y[:, :1], np.array([0, 1])), ("Flatten", {}, CUBE), ("Flatten", {"axis": 0}, CUBE),
    ("Flatten", {"axis": 3}, CUBE), ("Flatten", {"axis": -1}, CUBE), ("Flatten", {}, EMPTY), ("Flatten", {"axis": 2}, T),
    ("Range", {}, np.array(1), np.array(8), np.array(3)), ("Range", {}, np.array(8), np.array(1), np.array(-3)),
    ("Range", {}, np.array(3), np.array(1), np.array(2)), ("Gemm", {}, CUBE[0], CUBE[0].T),
    ("Gemm", {"transA": 1, "alpha": 0.5}, CUBE[0], CUBE[0, :, 1:], np.ones(3)),
    ("Gemm", {"transB": 1, "beta": 2.0}, CUBE[0], CUBE[1], np.array([[1.0], [2.0], [4.0]])),
]  # fmt: skip


@pytest.mark.parametrize(("op", "attributes", "inputs"), [(op, held, given) for op, held, *given in OTHERS])
def test_numpy_yields_the_same_of_integers_and_decisions(op, attributes, inputs):
    inputs = [np.asarray(value) for value in inputs]
    node = onnx.helper.make_node(op, [f"i{k}" for k in range(len(inputs))], ["y"], **attributes)
    (expected,) = OnnxRuntime(calls._model(node, 17, inputs)).run(calls._feeds(inputs))
    (made,) = plain.compute(op, 17, inputs, attributes)
    np.testing.assert_array_equal(made, expected)
    assert (made.dtype, made.shape) == (expected.dtype, expected.shape)


@pytest.mark.parametrize(
    ("op", "opset", "inputs"),
    [
        ("Add", 17, [X.astype("f4"), X.astype("f4")]),
        ("Add", 17, [np.array([1], np.int8), np.array([2], np.int8)]),
        ("Add", 17, [np.array([1]), np.array([2.0])]),
        ("Div", 17, [np.array([1]), np.array([0])]),
        ("Div", 17, [np.array([-1]), np.array([2])]),
        ("Div", 17, [np.array([1], np.int32), np.array([2], np.int32)]),
        ("Equal", 17, [np.array(["a"]), np.array(["a"])]),
        ("Where", 17, [np.array([True]), np.array([1]), np.array([1.0])]),
        ("Where", 17, [np.array([True]), np.array(["a"], object), np.array(["b"], object)]),
        ("Expand", 17, [X, np.array([2])]),
        ("Range", 17, [np.array(1), np.array(2), np.array(0)]),
        ("Range", 17, [np.array(1.0), np.array(2.0), np.array(1.0)]),
        ("Gemm", 17, [X.astype("f4"), X.T.astype("f4")]),
        ("Add", 6, [X, X]),
        ("Gather", 17, [X, np.array([5])]),
        ("Gather", 17, [EMPTY, np.array([0])]),
        ("Reshape", 17, [X, np.array([4])]),
        ("Concat", 17, [X, X.astype("f4")]),
        ("Concat", 17, [[X], X]),
        ("Slice", 9, [X]),
        ("Softmax", 17, [X]),
    ],
)
def test_the_rest_is_left_to_an_engine(op, opset, inputs):
    assert plain.compute(op, opset, inputs, {"axis": 0}) is None
