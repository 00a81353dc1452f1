"""What numpy computes in the place of an engine is what the engine yields, to the bit; the rest is left to it."""

import numpy as np
import pytest
from opshift.passes.model import tensors
from opshift.passes.model.attributes import attribute_value

from opshift.verification.engines import OnnxRuntime
from opshift.verification.places.lines import constants
from opshift.verification.twins import plain
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


@pytest.mark.parametrize(
    ("op", "opset", "inputs"),
    [
        ("Add", 17, [X.astype("f4"), X.astype("f4")]),
        ("Add", 17, [np.array([1]), np.array([2])]),
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
