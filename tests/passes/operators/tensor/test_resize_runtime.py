"""Resize whose sizes, scales or regions are known only at run time."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from opshift.verification.engines import Reference
from tests.passes.operators.tensor.images import DATA, IMAGE, scaled
from tests.support import check_down, check_values, evaluate, model, show


@pytest.mark.parametrize("scales", [(1, 1, 2, 1.5), (1, 1, 0.5, 1.5)])
def test_scales_known_only_at_run_time(scales):
    source = model("y = Resize(x, s)", 10, inputs=IMAGE["inputs"] + ", float[4] s", outputs=IMAGE["outputs"])
    made = convert.attempt(source, {"": 11}).model
    check_values(source, made, {"x": DATA, "s": np.float32(scales)}, rtol=0, atol=0)


COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("target", [9, 10])
def test_sizes_known_only_at_run_time(mode, coordinates, target):
    how = f'mode="{mode}", coordinate_transformation_mode="{coordinates}", nearest_mode="floor"'
    io = {"inputs": "float[N,C,H,W] x, int64[4] z", "outputs": "float[N,C,A,B] y"}
    source = model(f"y = Resize<{how}>(x, , , z)", 13, **io)
    result = convert.attempt(source, {"": target})
    assert result.grade == "close"
    for sizes in ((8, 3), (3, 12), (1, 6), (4, 1)):
        check_values(source, result.model, {"x": DATA, "z": np.array([2, 3, *sizes])}, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("mode", "exclude"), [("nearest", 0), ("linear", 0), ("cubic", 0), ("cubic", 1)])
@pytest.mark.parametrize("bound", [False, True])
def test_scales_or_shapes_known_only_at_run_time(mode, bound, exclude):
    how = f'mode="{mode}", exclude_outside={exclude}, nearest_mode="ceil"'
    io = {"inputs": "float[N,C,H,W] x" + ("" if bound else ", float[4] s"), "outputs": "float[N,C,A,B] y"}
    held = {"constants": scaled(1, 1, 1.5, 0.6)} if bound else {}
    source = model(f"y = Resize<{how}>(x, , s)", 13, **io, **held)
    made = convert.attempt(source, {"": 10}).model
    for scales in ((1, 1, 1.5, 0.6), *([(1, 1, 0.5, 3)] if not bound else [])):
        feeds = {"x": DATA, "s": np.float32(scales)}
        check_values(source, made, feeds, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_ratios_known_only_at_run_time(policy, mode):
    how = f'mode="{mode}", keep_aspect_ratio_policy="{policy}", axes=[2, 3]'
    io = {"inputs": "float[N,C,H,W] x, int64[2] z", "outputs": "float[N,C,A,B] y"}
    source = model(f"y = Resize<{how}>(x, , , z)", 18, **io)
    made = convert.attempt(source, {"": 17}).model
    for sizes in ((8, 12), (7, 8), (3, 4)):
        check_values(source, made, {"x": DATA, "z": np.array(sizes)}, rtol=1e-5, atol=1e-5)


def test_half_pixel_symmetric_with_scales_known_only_at_run_time():
    how = 'mode="linear", coordinate_transformation_mode="half_pixel_symmetric"'
    io = {"inputs": "float[N,C,H,W] x, float[4] s", "outputs": "float[N,C,A,B] y"}
    source = model(f"y = Resize<{how}>(x, , s)", 19, **io)
    made = convert.attempt(source, {"": 18}).model
    check_values(source, made, {"x": DATA, "s": np.float32([1, 1, 0.6, 1.7])}, rtol=1e-5, atol=1e-5)


def test_a_region_known_only_at_run_time():
    how = 'mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.0'
    io = {"inputs": "float[2,3,4,6] x, float[8] r, int64[4] z", "outputs": "float[N,C,A,B] y"}
    source = model(f"y = Resize<{how}>(x, r, , z)", 13, **io)
    made = convert.attempt(source, {"": 10}).model
    for sizes in ((5, 4), (1, 7)):
        region = np.float32([0, 0, -0.25, 0.25, 1, 1, 1.25, 0.75])
        feeds = {"x": DATA, "r": region, "z": np.array([2, 3, *sizes])}
        check_values(source, made, feeds, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("exclude", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("shapes", ["N,C,4,6", "N,C,H,W"])
@pytest.mark.parametrize("asked", ["scales", "sizes", "ratio"])
def test_antialias_known_only_at_run_time(asked, shapes, mode, exclude):
    how = f'mode="{mode}", antialias=1, exclude_outside={exclude}, axes=[2, 3]'
    how += ', keep_aspect_ratio_policy="not_smaller"' if asked == "ratio" else ""
    given = "float[2] s" if asked == "scales" else "int64[2] z"
    io = {"inputs": f"float[{shapes}] x, {given}", "outputs": "float[N,C,A,B] y"}
    source = model(f"y = Resize<{how}>(x, , {'s' if asked == 'scales' else ', z'})", 18, **io)
    result = convert.attempt(source, {"": 17})
    assert result.grade == "close"
    assert "Resize" not in show(result.model)
    for scales, sizes in (((0.5, 0.7), (3, 2)), ((0.3, 2), (1, 12)), ((1, 0.2), (4, 1)), ((2, 3), (8, 18))):
        feeds = {"x": DATA, "s": np.float32(scales), "z": np.array(sizes)}
        check_values(source, result.model, feeds, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("target", [10, 9])
def test_corners_are_aligned_by_scales_known_only_at_run_time(mode, target):
    """onnxruntime, too, where the result is whole; onnx.reference, as the published tests, where it is not."""
    how = f'mode="{mode}", coordinate_transformation_mode="align_corners", nearest_mode="floor"'
    io = {"inputs": "float[N,C,H,W] x, float[4] s", "outputs": "float[N,C,A,B] y"}
    source = model(f"y = Resize<{how}>(x, , s)", 13, **io)
    result = convert.attempt(source, {"": target})
    assert result.grade == "close"
    for scales in ((1, 1, 2, 1.5), (1, 1, 0.5, 0.5), (1, 1, 0.25, 1)):
        check_values(source, result.model, {"x": DATA, "s": np.float32(scales)}, rtol=1e-5, atol=1e-5)
    cut = {"x": DATA, "s": np.float32([1, 1, 0.6, 1.7])}
    np.testing.assert_allclose(evaluate(result.model, cut)[0], Reference(source).run(cut)[0], rtol=1e-4, atol=1e-5)


def test_axes_that_keep_their_size_are_not_sampled():
    io = {"inputs": "float[1,2,H,6] x, int64[1] n", "outputs": "float[A,B,P,Q] y"}
    held = "int64[2] c = {1, 2}, int64[1] w = {6}"
    feeds = {"x": np.arange(60, dtype=np.float32).reshape(1, 2, 5, 6), "n": np.array([8])}
    body = 'z = Concat<axis=0>(c, n, w) y = Resize<mode="linear">(x, , , z)'
    made = check_down(body, 13, 10, feeds=feeds, grade="close", rtol=1e-6, constants=held, **io)
    assert {str(i) for i in range(4) if f"Gather<axis={i}>(x" in show(made)} == {"2"}
    assert "Gather<axis=3>" not in show(made)
