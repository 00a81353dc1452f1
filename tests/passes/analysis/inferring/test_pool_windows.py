"""Pools whose sizes are rounded up, of which ONNX's inference below 22 counts windows that begin behind the data."""

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import onnx.shape_inference
import pytest
from opshift.passes.analysis.inferring import corrected, pool_windows
from opshift.passes.conversion import convert
from opshift.passes.optimization import optimize

from tests.support import evaluate, model, show

POOLS = ["MaxPool", "AveragePool"]
BEHIND = "kernel_shape=[1], strides=[3], ceil_mode=1"
IN_PADS = "kernel_shape=[2], strides=[3], pads=[1, 1], ceil_mode=1"
WITHIN = "kernel_shape=[2], strides=[2], ceil_mode=1"


def measured(pool, attributes, opset, size="3"):
    inputs = {"inputs": f"float[1,1,{size}] x", "outputs": "int64[3] s, float[1,1,L] y"}
    return model(f"y = {pool}<{attributes}>(x) s = Shape(y)", opset, **inputs)


@pytest.mark.parametrize("opset", [10, 13, 21, 22])
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize(
    ("attributes", "length", "expected"),
    [
        (BEHIND, 3, 1),
        (BEHIND, 4, 2),
        (f"{BEHIND}, auto_pad='VALID'".replace("'", '"'), 3, 1),
        (f"{BEHIND}, auto_pad='VALID'".replace("'", '"'), 1, 1),
        (IN_PADS, 2, 1),
        (IN_PADS, 3, 2),
        (WITHIN, 3, 2),
        (WITHIN.replace("1", "0"), 3, 1),
    ],
)
def test_a_window_behind_the_data_is_none(pool, attributes, length, expected, opset):
    source = measured(pool, attributes, opset, str(length))
    feeds = {"x": np.arange(1, length + 1, dtype=np.float32)[None, None]}
    made = optimize.attempt(source).model
    before, after = evaluate(source, feeds), evaluate(made, feeds)
    assert after[0].tolist() == before[0].tolist() == [1, 1, expected]
    np.testing.assert_array_equal(after[1], before[1])


@pytest.mark.parametrize(("attributes", "folded"), [(BEHIND, False), (WITHIN, True)])
def test_what_has_no_such_window_is_known(attributes, folded):
    made = optimize.attempt(measured("MaxPool", attributes, 13)).model
    assert ("Shape" not in [node.op_type for node in made.graph.node]) == folded


def test_a_window_behind_the_data_is_none_in_a_branch_and_in_a_function():
    call = f"MaxPool<{BEHIND}>(x)"
    branch = onnx.parser.parse_model(
        f"""<ir_version: 7, opset_import: ["" : 13]> g (bool c, float[1,1,3] x) => (int64[N] s) {{
        s = If (c) <then_branch = t () => (int64[A] p) {{ y = {call} p = Shape(y) }},
                    else_branch = e () => (int64[B] q) {{ q = Shape(x) }}> }}"""
    )
    called = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 13, "f" : 1]> g (float[1,1,3] x) => (int64[N] s) {{ y = f.F(x) s = Shape(y) }}
        <domain: "f", opset_import: ["" : 13]> F (x) => (y) {{ y = {call} }}"""
    )
    x = {"x": np.ones((1, 1, 3), np.float32)}
    for source, feeds in ((branch, {"c": np.array(True), **x}), (called, x)):
        before = show(source)
        assert show(corrected.infer_types(source)) == before == show(source)
        (found,) = evaluate(optimize.attempt(source).model, feeds)
        assert found.tolist() == [1, 1, 1]


@pytest.mark.parametrize(("opset", "target"), [(13, 22), (13, 9), (22, 13)])
@pytest.mark.parametrize("pool", POOLS)
def test_what_inference_once_told_is_mended(pool, opset, target):
    source = onnx.shape_inference.infer_shapes(measured(pool, BEHIND, opset))
    onnx.checker.check_model(source, full_check=True)
    result = convert.attempt(source, {"": target})
    assert not result.refusals
    onnx.checker.check_model(result.model, full_check=True)
    feeds = {"x": np.ones((1, 1, 3), np.float32)}
    assert evaluate(result.model, feeds)[0].tolist() == evaluate(source, feeds)[0].tolist() == [1, 1, 1]


def test_which_pools_may_have_such_a_window():
    def asked(attributes, opset=13, op="MaxPool"):
        return pool_windows.may_begin_behind(onnx.parser.parse_node(f"y = {op}<{attributes}>(x)"), opset)

    assert asked(BEHIND)
    assert asked(IN_PADS)
    assert not asked(BEHIND, 22)
    assert not asked(BEHIND, op="GlobalMaxPool")
    assert not asked(BEHIND.replace("ceil_mode=1", "ceil_mode=0"))
    assert not asked(WITHIN)
    assert not asked(BEHIND.replace("kernel_shape=[1]", "kernel_shape=[2], dilations=[2]"))
