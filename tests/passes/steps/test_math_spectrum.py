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


def test_a_run_time_axis_is_refused_below_20():
    check_refused(
        "y = DFT(x, , a)",
        20,
        19,
        "axis is known only at run time",
        inputs="float[2,5,4,1] x, int64 a",
        outputs="float[2,5,4,2] y",
    )
