"""What is close is said so, in these words."""

import numpy as np
import pytest
from onnx import numpy_helper
from opshift.passes.optimization import optimize

from tests.support import model

FLAT = {"inputs": "float[N,4] x", "outputs": "float[A,B] y"}
IMAGE = {"inputs": "float[2,3,8,8] x", "outputs": "float[A,B,C,D] y"}
WEIGHTS = {
    "w": np.ones((4, 5), np.float32), "b": np.ones(5, np.float32), "k": np.ones((4, 3, 3, 3), np.float32), "c": np.ones((4, 1, 1), np.float32),
    "p": np.int64([0, 0, 1, 1, 0, 0, 1, 1]), "two": np.float32(2), "three": np.float32(3), "zero": np.float32(0), "shape": np.int64([-1, 2, 2, 5]),
}  # fmt: skip
REMARKS = {
    "a bias of its own": ("a = MatMul(x, w) y = Add(a, b)", FLAT, "Gemm", "may add the bias before summing"),
    "pads of a convolution": ("a = Pad(x, p) y = Conv(a, k)", IMAGE, "Conv", "may leave out products with zeros"),
    "pads of an average": ("a = Pad(x, p) y = AveragePool<kernel_shape = [3,3]>(a)", IMAGE, "AveragePool", "may sum in another order"),
    "rows": ("a = MatMul(x, w) c1 = Add(a, b) y = Reshape(c1, shape)", {**IMAGE, "inputs": "float[N,4,4] x"}, "Reshape Gemm Reshape",
             "may add the bias before summing"),
    "two factors": ("a = Mul(x, two) y = Mul(a, three)", FLAT, "Mul", "multiplies the constants first"),
    "a zero": ("y = Add(x, zero)", FLAT, "Identity", "keeps -0.0, where the sum is 0.0"),
    "bounds": ("a = Clip(x) y = Neg(a)", FLAT, "Neg", "an infinity stays one"),
}  # fmt: skip


@pytest.mark.parametrize("name", REMARKS)
def test_what_is_close_says_why(name):
    body, io, left, remark = REMARKS[name]
    source = model(body, 17, **io)
    for weight, value in WEIGHTS.items():
        source.graph.initializer.append(numpy_helper.from_array(np.asarray(value), weight))
    result = optimize.attempt(source)
    assert [node.op_type for node in result.model.graph.node] == left.split()
    assert (result.grade, {change.remark for change in result.changes if change.grade == "close"}) == (
        "close",
        {remark},
    )
    assert {change.grade for change in result.changes} <= {"close", "exact"}
