"""Where ONNX's inference takes a default otherwise, sizes are those that onnxruntime yields."""

import numpy as np
import pytest
from opshift.passes.analysis.inferring.type_inference import contradiction
from opshift.passes.specialization import fixing
from opshift.passes.specialization.wanted import wanted

import opshift
from opshift.verification.engines import OnnxRuntime
from tests.support import model

FRAMES = {"constants": "int64 s = {4}, int64 n = {8}", "inputs": "float[1,16,1] x"}


@pytest.mark.parametrize(("onesided", "size"), [("", 5), ("<onesided=1>", 5), ("<onesided=0>", 8)])
def test_frequencies_of_a_signal(onesided, size):
    body = f"f = STFT{onesided}(x, s, , n) k = Shape<start=2, end=3>(f) y = Add(k, k)"
    source = model(body, 17, outputs="int64[1] y", **FRAMES)
    (expected,) = OnnxRuntime(source).run({"x": np.zeros((1, 16, 1), np.float32)})
    assert expected == 2 * size
    made = opshift.optimize(source)
    assert OnnxRuntime(made).run({"x": np.zeros((1, 16, 1), np.float32)})[0] == expected


def test_sizes_that_fit_the_frequencies_are_no_contradiction():
    body = "f = STFT(x, s, , n) y = MatMul(w, f)"
    io = {"inputs": "float[1,T,1] x, float[1,1,3,5] w", "outputs": "float[A,B,C,D] y", "constants": FRAMES["constants"]}
    source = model(body, 17, **io)
    fixed = fixing.attempt(source, wanted(["x:1,16,1"], [])).model
    assert not contradiction(fixed)
    assert [dim.dim_value for dim in fixed.graph.output[0].type.tensor_type.shape.dim] == [1, 3, 3, 2]
