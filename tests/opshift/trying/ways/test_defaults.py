"""Attributes that say what holds without them: the model stays the same to onnxruntime, and says less."""

import numpy as np
import pytest

from opshift.trying.ways.defaults import has_default, plain
from opshift.verification.engines import OnnxRuntime
from tests.support import model


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("y = LeakyRelu<alpha=0.01>(x)", []),
        ("y = LeakyRelu<alpha=0.1>(x)", ["alpha"]),
        ("y = Softmax<axis=-1>(x)", []),
        ("y = Gemm<alpha=1.0, beta=0.5, transA=0, transB=1>(x, x)", ["beta", "transB"]),
        ('y = AveragePool<auto_pad="NOTSET", kernel_shape=[2]>(x)', ["kernel_shape"]),
    ],
)
def test_only_what_is_the_default_goes(body, left):
    of = model(body, 13, inputs="float[2,3] x", outputs="float[] y")
    op = of.graph.node[0].op_type
    made, changes = plain(of, op)
    assert sorted(attribute.name for attribute in made.graph.node[0].attribute) == left
    assert bool(changes) == has_default(of, op) == (len(left) < len(of.graph.node[0].attribute))
    if op != "AveragePool":
        x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_array_equal(OnnxRuntime(of).run({"x": x})[0], OnnxRuntime(made).run({"x": x})[0])


@pytest.mark.parametrize(
    ("activations", "stays"),
    [('["Tanh", "Tanh"]', False), ('["Tanh"]', True), ('["Relu", "Tanh"]', True)],
)
def test_what_recurrent_operators_compute_is_told_by_no_schema(activations, stays):
    body = f'y = RNN<hidden_size=4, direction="bidirectional", activations={activations}>(x, w, r)'
    of = model(body, 14, inputs="float[3,2,4] x, float[2,4,4] w, float[2,4,4] r", outputs="float[] y")
    made, _ = plain(of, "RNN")
    assert ("activations" in [attribute.name for attribute in made.graph.node[0].attribute]) == stays


def test_without_any_it_stays_itself():
    of = model("y = Relu(x)", 13, inputs="float[2] x", outputs="float[2] y")
    assert plain(of, "Relu") == (of, [])
    assert plain(of, "Softmax")[0] is of
