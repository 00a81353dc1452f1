"""Pooling, normalization, Dropout and Flatten inside branches and functions."""

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check_values, model

PLACES = [
    ("Dropout<seed=1>(x, r)", 13, 11),
    ("Dropout<ratio=0.25>(x)", 10, 13),
    ("Flatten<axis=-1>(x)", 11, 10),
    ("MaxPool<ceil_mode=1, dilations=[2,1], kernel_shape=[2,2], strides=[2,2]>(x)", 12, 8),
    ("AveragePool<dilations=[2,1], kernel_shape=[2,2], pads=[1,1,0,0]>(x)", 19, 17),
    ("LpPool<ceil_mode=1, kernel_shape=[2,2], strides=[2,2]>(x)", 18, 13),
    ("GroupNormalization<num_groups=1>(x, s, s)", 21, 17),
    ("BatchNormalization(x, s, s, s, s)", 15, 9),
    ("MeanVarianceNormalization(x)", 9, 13),
]
INPUTS = "float[N,2,5,5] x, float r, float[2] s"


@pytest.mark.parametrize(("call", "opset", "target"), PLACES)
def test_inside_a_branch(call, opset, target):
    text = (
        f"y = If <then_branch = t () => (float[A,B,C,D] a) {{ z = Identity(x)\n a = {call.replace('(x', '(z')} }},"
        " else_branch = e () => (float[A,B,C,D] b) { b = Identity(x) }> (c)"
    )
    source = model(text, opset, inputs=f"{INPUTS}, bool c", outputs="float y")
    source.graph.output[0].type.tensor_type.ClearField("shape")
    for graph in (a.g for a in source.graph.node[0].attribute):
        graph.output[0].type.tensor_type.ClearField("shape")
    converted = convert.attempt(source, {"": target}).model
    assert converted is not None
    for c in (True, False):
        x = np.random.default_rng(1).normal(size=(3, 2, 5, 5)).astype(np.float32)
        feeds = {"x": x, "s": np.float32([1, 2]), "r": np.array(0.5, np.float32), "c": np.array(c)}
        check_values(source, converted, feeds, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("call", "opset", "target"), PLACES)
def test_inside_a_function(call, opset, target):
    text = f"""<ir_version: 8, opset_import: ["": {opset}, "local": 1]>
    g ({INPUTS}) => (float[A,B,C,D] y) {{ y = local.f(x, r, s) }}
    <domain: "local", opset_import: ["": {opset}]> f (x, r, s) => (z) {{ z = {call} }}"""
    source = onnx.parser.parse_model(text)
    source.graph.output[0].type.tensor_type.ClearField("shape")
    converted = convert.attempt(source, {"": target}, ir_version=8).model
    assert converted is not None
    x = np.random.default_rng(1).normal(size=(3, 2, 5, 5)).astype(np.float32)
    feeds = {"x": x, "s": np.float32([1, 2]), "r": np.array(0.5, np.float32)}
    check_values(source, converted, feeds, rtol=1e-4, atol=1e-5)
