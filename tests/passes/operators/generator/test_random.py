"""Bernoulli and Multinomial from uniform draws: how often each value comes up, for whatever seed."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check, evaluate, model

NUMPY = {"bool": bool, "int32": np.int32, "int64": np.int64, "double": np.float64, "float16": np.float16}


def draws(body, opset, target, feeds, **io):
    made = convert.attempt(model(body, opset, **io), {"": target})
    assert made.model is not None
    assert made.grade == "close"
    return evaluate(made.model, feeds)[0]


def test_bernoulli_is_drawn_below_15():
    after = "t1 = RandomUniformLike<dtype=1, seed=2>(x)\nt2 = Less(t1, x)\ny = Cast<to=1>(t2)"
    io = {"inputs": "float[2,3] x", "outputs": "float[2,3] y"}
    # onnxruntime inlines onnx's body, which draws a 1 with probability 1 - p
    check("y = Bernoulli<seed=2.0>(x)", 15, after, 14, run=False, grade="close", **io)


@pytest.mark.parametrize("target", [14, 7])
@pytest.mark.parametrize(
    ("given", "made", "dtype"), [("double", "int64", 7), ("float16", "bool", 9), ("double", "", 0)]
)
def test_each_probability_comes_true_as_often(given, made, dtype, target):
    p = np.repeat([0.0, 0.1, 0.5, 0.9, 1.0], 20000).reshape(5, -1).astype(NUMPY[given])
    attribute = f"<dtype={dtype}, seed=1.5>" if dtype else "<seed=1.5>"
    io = {"inputs": f"{given}[5,N] x", "outputs": f"{made or given}[5,N] y"}
    y = draws(f"y = Bernoulli{attribute}(x)", 15, target, {"x": p}, **io)
    assert (y.shape, y.dtype) == (p.shape, NUMPY[made or given])
    assert set(np.unique(y).tolist()) == {0, 1}
    often = y.astype(np.float64).mean(axis=1)
    np.testing.assert_allclose(often, [0, 0.1, 0.5, 0.9, 1], atol=0.02)
    np.testing.assert_array_equal(often[[0, 4]], [0, 1])


@pytest.mark.parametrize(("attributes", "made"), [("dtype=7, ", "int64"), ("", "int32")])
@pytest.mark.parametrize("given", ["double", "float16"])
def test_classes_are_sampled_as_often_below_7(given, attributes, made):
    x = np.log([[0.1, 0.2, 0.7], [0.5, 0.5, 1e-30]]).astype(NUMPY[given])  # at 16 bits the last one is log(0)
    io = {"inputs": f"{given}[2,3] x", "outputs": f"{made}[2,20000] y"}
    y = draws(f"y = Multinomial<{attributes}sample_size=20000, seed=3.0>(x)", 7, 6, {"x": x}, **io)
    assert (y.shape, y.dtype) == ((2, 20000), NUMPY[made])
    often = [[(row == k).mean() for k in range(3)] for row in y]
    np.testing.assert_allclose(often, [[0.1, 0.2, 0.7], [0.5, 0.5, 0]], atol=0.02)
