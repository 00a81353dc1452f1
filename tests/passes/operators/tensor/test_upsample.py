"""Upsample, which Resize took the place of."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_refused, check_values, model

IMAGE = {"inputs": "float[N,C,4,6] x", "outputs": "float[N,C,A,B] y"}
DATA = np.random.default_rng(0).normal(size=(2, 3, 4, 6)).astype(np.float32)


def scaled(*scales):
    return f"float[{len(scales)}] s = {{{', '.join(map(str, scales))}}}"


def test_upsample_7_and_1():
    after = "y = Upsample<mode=linear, scales=[1.0, 1.0, 2.0, 3.0]>(x)"
    before = 'y = Upsample<height_scale=2.0, width_scale=3.0, mode="bilinear">(x)'
    check(before, 1, after, 7, run=False, **IMAGE)  # no engine has Upsample-1
    back = "y = Upsample<height_scale=2, mode=bilinear, width_scale=3>(x)"
    check('y = Upsample<scales=[1.0,1.0,2.0,3.0], mode="linear">(x)', 8, back, 6, run=False, **IMAGE)
    check_refused("y = Upsample<scales=[2.0,1.0,2.0,3.0]>(x)", 7, 6, "height and width", **IMAGE)


def test_upsample_7_and_9():
    check("y = Upsample<scales=[1.0, 1.0, 2.0, 1.5]>(x)", 7, "y = Upsample(x, [1.0, 1.0, 2.0, 1.5])", 9, **IMAGE)
    back = "y = Upsample<scales=[1.0, 1.0, 2.0, 1.5]>(x)"
    check("y = Upsample(x, s)", 9, back, 8, constants=scaled(1, 1, 2, 1.5), **IMAGE)
    check_refused("y = Upsample(x, s)", 9, 8, "1 scales for data of rank 4", constants="float[1] s = {2}", **IMAGE)
    row = "float[1,4] s = {1, 1, 2, 1.5}"
    check_refused("y = Upsample(x, s)", 9, 8, "scales of shape [1, 4]", constants=row, **IMAGE)


@pytest.mark.parametrize("opset", [9, 10])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("kind", ["float", "uint8"])
def test_scales_known_only_at_run_time_below_10(opset, mode, kind):
    """Upsample grows only; a Resize takes the element before where it grows, the one after where it shrinks."""
    io = {"inputs": f"{kind}[N,C,H,W] x, float[4] s", "outputs": f"{kind}[N,C,A,B] y"}
    source = model(f'y = {"Upsample" if opset == 9 else "Resize"}<mode="{mode}">(x, s)', opset, **io)
    if (kind, mode) == ("uint8", "linear"):
        refused = convert.attempt(source, {"": 7}).refusals
        assert "the data are integers and mode is linear" in refused[0].why
        return
    data = (DATA * 9).astype(np.float32 if kind == "float" else np.uint8)
    for target in (7, 8, opset - 1):
        result = convert.attempt(source, {"": target})
        assert result.grade == "close"
        for scales in ((1, 1, 2, 1.7), (1, 1, 1, 3), *([(1, 1, 0.6, 1.5), (1, 1, 0.3, 0.9)] if opset == 10 else [])):
            check_values(source, result.model, {"x": data, "s": np.float32(scales)}, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample_becomes_resize_at_10(mode):
    before, after = f'y = Upsample<mode="{mode}">(x, s)', f"y = Resize<mode={mode}>(x, [1.0, 1.0, 2.0, 3.0])"
    check(before, 9, after, 10, constants=scaled(1, 1, 2, 3), **IMAGE)
    source = model(before, 9, constants=scaled(1, 1, 2, 3), **IMAGE)
    for target in (11, 13, 19):
        check_values(source, convert.attempt(source, {"": target}).model, {"x": DATA}, rtol=0, atol=0)
