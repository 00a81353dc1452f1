"""RoiAlign."""

import numpy as np
import onnx.parser
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_down, check_refused, check_values, model, show

IO = {"inputs": "float[1,1,8,8] x, float[2,4] r, int64[2] b", "outputs": "float[2,1,2,2] y"}
FEEDS = {
    "x": np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8) ** 2,
    "r": np.float32([[0, 0, 6, 4], [1.5, 2.5, 9, 7.25]]),
    "b": np.array([0, 0]),
}
SIZE = "output_height=2, output_width=2, sampling_ratio=2"
REGIONS = "float[2,4] r = {0, 0, 6, 4, 1.5, 2.5, 9, 7.25}"
HELD = {**IO, "inputs": "float[1,1,8,8] x, int64[2] b"}


def test_regions_are_not_shifted_at_16():
    after = f"y = RoiAlign<coordinate_transformation_mode=output_half_pixel, {SIZE}>(x, r, b)"
    check(f"y = RoiAlign<{SIZE}>(x, r, b)", 10, after, 16, feeds=FEEDS, **IO)
    before = f'y = RoiAlign<coordinate_transformation_mode="output_half_pixel", {SIZE}>(x, r, b)'
    check(before, 16, f"y = RoiAlign<{SIZE}>(x, r, b)", 15, feeds=FEEDS, **IO)


@pytest.mark.parametrize("how", ["", 'coordinate_transformation_mode="half_pixel", '])
@pytest.mark.parametrize("scale", [1.0, 0.5, 0.3])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_constant_regions_are_shifted_below_16(how, scale, mode):
    body = f'y = RoiAlign<{how}{SIZE}, spatial_scale={scale}, mode="{mode}">(x, r, b)'
    source = model(body, 16, constants=REGIONS, **HELD)
    result = convert.attempt(source, {"": 10})
    assert result.grade == "close"
    assert "coordinate" not in show(result.model)
    check_values(source, result.model, FEEDS, rtol=1e-5, atol=1e-5)


POOLED = np.random.default_rng(0).random((2, 3, 8, 9), np.float32)
BOXES = np.array([[0, 0, 6, 5], [-3, 1, 3, 20], [2, 2, 2.3, 2.4], [7.5, 6, 30, 30]], np.float32)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("shape", ["2,3,8,9", "N,C,H,W"])
@pytest.mark.parametrize(
    "sizes",
    [
        "sampling_ratio=1",
        "output_height=2, output_width=3, sampling_ratio=2, spatial_scale=0.7",
        "output_height=2, output_width=3",
        "sampling_ratio=0, spatial_scale=0.7",
    ],
)
def test_samples_are_gathered(mode, shape, sizes):
    io = {"inputs": f"float[{shape}] x, float[R,4] r, int64[R] b", "outputs": "float[I,J,K,L] y"}
    feeds = {"x": POOLED, "r": BOXES, "b": np.array([0, 1, 1, 0])}
    body = f'y = RoiAlign<{sizes}, mode="{mode}">(x, r, b)'
    check_down(body, 10, 9, 8, 7, feeds=feeds, atol=1e-6, grade="close", **io)
    check_down(body, 16, 15, 13, 9, feeds=feeds, atol=1e-6, grade="close", **io)
    io["constants"] = "float[1,4] r = {2, 2, 2.5, 4}"
    io["inputs"] = io["inputs"].replace("float[R,4] r, ", "")
    check_down(body, 16, 15, feeds={"x": POOLED, "b": np.array([1])}, atol=1e-6, grade="close", **io)


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_a_side_that_half_a_pixel_takes_away_has_no_sample(mode):
    """And the other side has, so that 0 is the mean of none of them, and the largest of none."""
    feeds = {"x": np.full((1, 1, 4, 4), 0.5, np.float32), "r": np.float32([[0, 0, 1e-30, 2]]), "b": np.array([0])}
    io = {"inputs": "float[1,1,4,4] x, float[1,4] r, int64[1] b", "outputs": "float[A,B,C,D] y"}
    check_down(f'y = RoiAlign<mode="{mode}">(x, r, b)', 16, 15, 9, feeds=feeds, grade="close", **io)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("sizes", [f"{SIZE}", "output_height=2, output_width=3"])
def test_regions_turned_inside_out_or_none_at_all(mode, sizes):
    io = {"inputs": "float[N,C,H,W] x, float[R,4] r, int64[R] b", "outputs": "float[I,J,K,L] y"}
    x = -POOLED - np.float32(0.5)  # the largest lies below 0
    boxes = np.array([[5, 4, 2, 1], [2, 5, 6, 4], [2, 2, 2, 2], [-9, -9, -5, -5]], np.float32)
    for chosen in (boxes, boxes[:2], boxes[:0], BOXES):
        feeds = {"x": x, "r": chosen, "b": np.zeros(len(chosen), np.int64)}
        check_down(
            f'y = RoiAlign<{sizes}, mode="{mode}">(x, r, b)', 16, 15, 7, feeds=feeds, atol=1e-6, grade="close", **io
        )


def test_regions_in_16_bits_are_sampled_by_their_size():
    io = {"inputs": "float16[N,C,H,W] x, float16[R,4] r, int64[R] b", "outputs": "float16[I,J,K,L] y"}
    feeds = {"x": POOLED.astype(np.float16), "r": BOXES.astype(np.float16), "b": np.array([0, 1, 1, 0])}
    check_down("y = RoiAlign<output_height=3>(x, r, b)", 16, 15, 9, feeds=feeds, atol=2e-3, grade="close", **io)


def test_unknown_placements_are_refused():
    wrong = f'y = RoiAlign<{SIZE}, coordinate_transformation_mode="x">(x, r, b)'
    check_refused(wrong, 16, 15, "coordinate_transformation_mode=x", **IO)


def test_bfloat16_is_pooled_in_float32_below_22():
    io = {k: v.replace("float[", "bfloat16[") for k, v in IO.items()}
    after = f"""
    t1 = Cast<to=1>(x)
    t2 = Cast<to=1>(r)
    t3 = RoiAlign<coordinate_transformation_mode=output_half_pixel, {SIZE}>(t1, t2, b)
    y = Cast<to=16>(t3)
    """
    before = f'y = RoiAlign<coordinate_transformation_mode="output_half_pixel", {SIZE}>(x, r, b)'
    check(before, 22, after, 21, grade="close", run=False, **io)  # no engine pools bfloat16


def test_inside_a_function():
    text = f"""
    <ir_version: 8, opset_import: ["" : 15, "local" : 1]>
    g ({IO["inputs"]}) => ({IO["outputs"]}) {{ y = local.Pooled(x, r, b) }}
    <opset_import: ["" : 15], domain: "local">
    Pooled (x, r, b) => (y) {{ y = RoiAlign<{SIZE}>(x, r, b) }}
    """
    source = onnx.parser.parse_model(text)
    made = convert.attempt(source, {"": 16}).model
    held = made.functions[0].node[0].attribute
    assert [a.s for a in held if a.name == "coordinate_transformation_mode"] == [b"output_half_pixel"]
    check_values(source, made, FEEDS, rtol=0, atol=0)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("dims", ["N,C,H,W", "1,0,4,4"])
@pytest.mark.parametrize("regions", [2, 0])
def test_no_channels_and_no_regions(mode, ratio, dims, regions):
    body = f'y = RoiAlign<mode="{mode}", sampling_ratio={ratio}, output_height=2, output_width=3>(x, r, b)'
    io = {"inputs": f"float[{dims}] x, float[R,4] r, int64[R] b", "outputs": "float[I,J,K,L] y"}
    boxes, images = np.float32([[0, 0, 3, 2]] * regions).reshape(-1, 4), np.zeros(regions, np.int64)
    for channels in (0, 2) if "C" in dims else (0,):
        feeds = {"x": np.ones((1, channels, 4, 4), np.float32), "r": boxes, "b": images}
        check_down(body, 16, 15, 9, 7, feeds=feeds, atol=1e-6, grade="close", **io)


@pytest.mark.parametrize("size", ["output_height=0, output_width=2", "output_height=2, output_width=0"])
def test_regions_of_nothing_are_refused(size):
    check_refused(
        f"y = RoiAlign<{size}>(x, r, b)",
        10,
        9,
        "supported: sizes of 1 or more",
        **IO | {"outputs": "float[2,1,A,B] y"},
    )
