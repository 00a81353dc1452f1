"""Pooling by norms: p as a float, and as an integer."""

import onnx
import pytest
from opshift.passes.conversion import convert

from tests.passes.operators.nn.test_pooling import IMAGE
from tests.support import check, check_refused, check_unchanged, model


@pytest.mark.parametrize("node", ["LpPool<kernel_shape=[2, 2], p={}>(x)", "GlobalLpPool<p={}>(x)"])
def test_p_is_an_integer_from_2_on(node):
    io = {"inputs": IMAGE["inputs"], "outputs": IMAGE["outputs"], "run": False}  # no engine runs them below opset 7
    up = check(f"y = {node.format('3.0')}", 1, f"y = {node.format('3')}", 2, **io)
    down = check(f"y = {node.format('3')}", 2, f"y = {node.format('3')}", 1, **io)
    kinds = [next(a.type for a in m.graph.node[0].attribute if a.name == "p") for m in (up, down)]
    assert kinds == [onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT]


def test_a_norm_of_power_0_is_not_expanded():
    source = model("y = GlobalLpPool<p=0>(x)", 18, **IMAGE)
    refused = convert.attempt(source, {}, ops=[("", "GlobalLpPool")]).refusals
    assert "p=0; supported: p=1 or more" in refused[0].why


def test_a_default_p_says_the_same_in_both():
    check_unchanged("y = LpPool<kernel_shape=[2,2]>(x)", 1, 18, **IMAGE)
    check_unchanged("y = GlobalLpPool(x)", 1, 22, **IMAGE)


def test_a_missing_kernel_is_refused_at_2():
    check_refused("y = LpPool(x)", 1, 2, "kernel_shape is missing", **IMAGE)


@pytest.mark.parametrize("how", ["kernel_shape=[0, 5]", "kernel_shape=[5, -1]", "kernel_shape=[1, 1], strides=[0, 1]"])
def test_windows_without_an_element_are_refused(how):
    check_refused(f"y = LpPool<{how}>(x)", 1, 2, "supported: ", inputs="float[1,1,8,8] x", outputs="float[A,B,C,D] y")


def test_a_fractional_p_is_computed_by_the_definition():
    check(
        "y = LpPool<kernel_shape=[2,2], p=2.5, pads=[1,0,0,0], strides=[2,1]>(x)", 1,
        """t1 = Pad<pads=[0, 0, 1, 0, 0, 0, 0, 0], value=0>(x)
        t2 = Abs(t1)
        t3 = Pow<broadcast=1>(t2, const)
        t4 = AveragePool<kernel_shape=[2, 2], strides=[2, 1]>(t3)
        t5 = Mul<broadcast=1>(t4, const_1)
        y = Pow<broadcast=1>(t5, const_2)""", 2,
        run=False, grade="close", **IMAGE,  # no engine runs Pow of opset 1
    )  # fmt: skip
