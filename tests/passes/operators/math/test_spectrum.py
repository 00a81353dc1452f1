"""DFT: axis from attribute to input and back, with a default that changed."""

import numpy as np
import pytest

from tests.support import check, check_refused

REAL = {"inputs": "float[2,5,4,1] x", "outputs": "float[2,5,4,2] y"}
FEEDS = {"x": np.random.default_rng(3).normal(size=(2, 5, 4, 1)).astype(np.float32)}


@pytest.mark.parametrize(("attribute", "axis"), [("", 1), ("<axis=2>", 2), ("<axis=-3>", -3), ("<axis=0>", 0)])
def test_axis_becomes_an_input_at_20(attribute, axis):
    check(f"y = DFT{attribute}(x)", 17, f"y = DFT(x, _, {axis})", 20, feeds=FEEDS, **REAL)


@pytest.mark.parametrize(("constant", "axis"), [(None, -2), (1, 1), (-3, -3)])
def test_axis_becomes_an_attribute_below_20(constant, axis):
    held = {"constants": f"int64 a = {{{constant}}}"} if constant is not None else {}
    check(f"y = DFT(x{', , a' if held else ''})", 20, f"y = DFT<axis={axis}>(x)", 19, feeds=FEEDS, **REAL, **held)


@pytest.mark.parametrize("axis", [0, 1, 2, -2, -3, -4])
def test_a_run_time_axis_becomes_conditions_below_20(axis):
    io = {"inputs": "float[2,5,4,1] x, int64 a", "outputs": "float[A,B,C,2] y"}
    after = """t1 = Equal(a, 0)
        t2 = Equal(a, -4)
        t3 = Or(t1, t2)
        y = If<else_branch={ t4 = Equal(a, 1); t5 = Equal(a, -3); t6 = Or(t4, t5); t7 = If<else_branch={ t8 = DFT<axis=2, onesided=1>(x); t8 }, then_branch={ t8 = DFT<axis=1, onesided=1>(x); t8 }>(t6); t7 }, then_branch={ t4 = DFT<axis=0, onesided=1>(x); t4 }>(t3)"""
    check("y = DFT<onesided=1>(x, , a)", 20, after, 19, feeds={**FEEDS, "a": np.array(axis)}, **io)


def test_a_run_time_axis_needs_a_rank_below_20():
    check_refused("y = DFT(x, , a)", 20, 19, "rank", inputs="float[] x, int64 a", outputs="float[] y")
