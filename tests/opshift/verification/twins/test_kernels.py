"""Kernels in float64 that answer themselves: held against onnx.reference, and against onnxruntime where that takes no groups."""

import numpy as np
import pytest
from opshift.passes.model.attributes import attribute_value

from opshift.verification.engines import OnnxRuntime, Reference
from opshift.verification.twins import kernels
from tests.support import model

RESIZED = [
    f'Resize<mode="{mode}", coordinate_transformation_mode="{way}">(x, , {by})'
    for mode in ("nearest", "linear")
    for way in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    for by in ("s", ", z")
]


@pytest.mark.parametrize(
    ("body", "io"),
    [
        ("Conv<pads=[1,0,2,1], strides=[2,1], dilations=[1,2], group=2>(x, w, b)", "[1,4,7,9] x, [6,2,3,2] w, [6] b"),
        ("Conv(x, w)", "[1,2,5,4] x, [3,2,3,2] w"),
        ("InstanceNormalization<epsilon=0.25>(x, w, b)", "[2,3,4,5] x, [3] w, [3] b"),
        ('Conv<auto_pad="SAME_LOWER", strides=[2,2]>(x, w)', "[2,3,7,8] x, [4,3,3,3] w"),
        ("ConvTranspose<strides=[2,3], output_padding=[1,0], group=2>(x, w)", "[1,4,3,4] x, [4,2,3,3] w"),
        ("ConvTranspose<pads=[1,0,0,1], group=2>(x, w, b)", "[1,4,3,4] x, [4,3,3,3] w, [6] b"),
        ("AveragePool<kernel_shape=[3,2], pads=[1,1,1,0], strides=[2,1]>(x)", "[1,2,7,6] x"),
        ("AveragePool<kernel_shape=[2,2], pads=[1,1,1,0], count_include_pad=1>(x)", "[1,2,7,6] x"),
        *[(body, "[1,2,4,6] x") for body in RESIZED],
    ],
)
def test_each_kernel_answers_and_is_right(body, io):
    def of(kind):
        held = "float[4] s = {1, 1, 2, 1.5}, int64[4] z = {1, 2, 3, 9}" if "Resize" in body else ""
        inputs = ", ".join(f"{kind}{value}" for value in io.split(", "))
        return model(f"y = {body}", 18, inputs=inputs, outputs=f"{kind}[a,b,c,d] y", constants=held)

    random, wide = np.random.default_rng(0), of("double")
    (node,), held = wide.graph.node, {"s": np.float32([1, 1, 2, 1.5]), "z": np.array([1, 2, 3, 9])}
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in wide.graph.input}
    feeds = {name: random.standard_normal(shape) for name, shape in shapes.items()}
    values = [{**feeds, **held}.get(name) for name in node.input]
    (found,) = kernels.compute(node.op_type, 18, values, {a.name: attribute_value(a) for a in node.attribute})
    if node.op_type == "ConvTranspose":
        narrow = {name: value.astype(np.float32) for name, value in feeds.items()}
        np.testing.assert_allclose(found, OnnxRuntime(of("float")).run(narrow)[0], rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_allclose(found, Reference(wide).run(feeds)[0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("more", [{"antialias": 1}, {"exclude_outside": 1}, {"axes": [2, 3]}, {"mode": "cubic"}])
def test_what_a_kernel_does_not_know_it_leaves_to_others(more):
    values = [np.ones((1, 1, 2, 2)), None, np.float32([1, 1, 2, 2]), None]
    assert kernels.compute("Resize", 18, values, {"mode": "linear", **more}) is None
    assert kernels.compute("Resize", 18, [np.ones((1, 1, 0, 2)), *values[1:]], {"mode": "linear"}) is None
    assert kernels.compute("Resize", 18, values, {"mode": "linear"}) is not None


def test_the_error_function_is_double():
    """onnx.reference computes it in float32."""
    x = np.array([[0.0, -0.0, 0.5], [-2.0, np.inf, np.nan]])
    (found,) = kernels.compute("Erf", 13, [x], {})
    np.testing.assert_array_equal(found, [[0.0, -0.0, 0.5204998778130465], [-0.9953222650189527, 1.0, np.nan]])
    assert kernels.compute("Erf", 13, [np.zeros((2, 0))], {})[0].shape == (2, 0)
