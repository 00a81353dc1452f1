"""GridSample, whose modes were renamed, and before it existed."""

import itertools

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_down, check_refused, check_unchanged, check_values, converted, evaluate, model

PADDINGS = ("zeros", "border", "reflection")
rng = np.random.default_rng(0)
IMAGE, POINTS = rng.random((2, 3, 4, 5), np.float32), (rng.random((2, 6, 7, 2)) * 4 - 2).astype(np.float32)
VOLUME, PLACES = rng.random((2, 2, 4, 5, 3), np.float32), (rng.random((2, 3, 2, 4, 3)) * 4 - 2).astype(np.float32)


@pytest.mark.parametrize(
    ("mode", "padding", "corners"), [*itertools.product(("bilinear", "nearest", "bicubic"), PADDINGS, (0, 1))]
)
@pytest.mark.parametrize("shapes", ["float[2,3,4,5] x, float[2,6,7,2] g", "float[N,C,H,W] x, float[P,Q,R,S] g"])
def test_images_are_gathered_and_weighted_below_16(mode, padding, corners, shapes):
    body = f'y = GridSample<mode="{mode}", padding_mode="{padding}", align_corners={corners}>(x, g)'
    feeds, io = {"x": IMAGE, "g": POINTS}, {"inputs": shapes, "outputs": "float[I,J,K,L] y"}
    check_down(body, 16, 15, 13, feeds=feeds, grade="close", atol=1e-5, **io)


@pytest.mark.parametrize(("mode", "padding", "corners"), [*itertools.product(("linear", "nearest"), PADDINGS, (0, 1))])
def test_volumes_are_gathered_and_weighted_below_20(mode, padding, corners):
    body = f'y = GridSample<mode="{mode}", padding_mode="{padding}", align_corners={corners}>(x, g)'
    io = {"inputs": "float[2,2,4,5,3] x, float[2,3,2,4,3] g", "outputs": "float[I,J,K,L,M] y"}
    check_down(body, 20, 19, feeds={"x": VOLUME, "g": PLACES}, grade="close", atol=1e-5, **io)


def test_images_need_one_product_along_each_row():
    io = {"inputs": "float[1,3,8,8] x, float[1,5,6,2] g", "outputs": "float[A,B,C,D] y"}
    feeds = {"x": rng.random((1, 3, 8, 8), np.float32), "g": rng.uniform(-1.2, 1.2, (1, 5, 6, 2)).astype(np.float32)}
    made = check_down("y = GridSample(x, g)", 20, 15, feeds=feeds, grade="close", atol=1e-5, **io)
    assert len(made.graph.node) == 82


def test_what_lies_outside_counts_nothing_even_if_infinite():
    x = np.full((1, 1, 2, 2), np.inf, np.float32)
    feeds = {"x": x, "g": np.array([[[[-3, -3], [0, 0]]]], np.float32)}
    io = {"inputs": "float[1,1,2,2] x, float[1,1,2,2] g", "outputs": "float[1,1,1,2] y"}
    check_down("y = GridSample(x, g)", 16, 15, feeds=feeds, grade="close", **io)


@pytest.mark.parametrize(("mode", "padding"), [*itertools.product(("bilinear", "nearest", "bicubic"), PADDINGS)])
def test_points_that_are_no_place_take_nothing_from_the_others(mode, padding):
    """What a runtime yields of these hangs on how it casts them."""
    nowhere = np.array([[np.inf, 0], [0, -np.inf], [np.nan, np.nan], [1e30, -1e30]], np.float32)
    places = np.concatenate([POINTS[0, 0, :3], nowhere])[None, None]
    io = {"inputs": "float[1,3,4,5] x, float[1,1,7,2] g", "outputs": "float[I,J,K,L] y"}
    source = model(f'y = GridSample<mode="{mode}", padding_mode="{padding}">(x, g)', 16, **io)
    expected, actual = (evaluate(of, {"x": IMAGE[:1], "g": places})[0] for of in (source, converted(source, 15).model))
    np.testing.assert_allclose(actual[..., :3], expected[..., :3], atol=1e-5)


def test_one_pixel_reflected_is_itself():
    feeds = {"g": np.array([[[[0.5, -2], [0, 0]]]], np.float32)}
    io = {"inputs": "float[1,1,1,1] x, float[1,1,2,2] g", "outputs": "float[1,1,1,2] y"}
    body = 'y = GridSample<padding_mode="reflection", align_corners=1>(x, g)'
    check_down(body, 16, 15, feeds={**feeds, "x": np.full((1, 1, 1, 1), 3, np.float32)}, grade="close", **io)


@pytest.mark.parametrize("sizes", ["2,0", "N,C", "2,C"])
def test_images_without_channels_stay_empty(sizes):
    feeds = {"x": np.zeros((2, 0, 3, 4), np.float32), "g": np.zeros((2, 2, 5, 2), np.float32)}
    io = {"inputs": f"float[{sizes},3,4] x, float[N,2,5,2] g", "outputs": f"float[{sizes},2,5] y"}
    for body in ("y = GridSample(x, g)", 'y = GridSample<mode="nearest", padding_mode="border">(x, g)'):
        check_down(body, 16, 15, 7, feeds=feeds, grade="close", **io)


def test_the_nearest_of_integers_is_gathered_below_16():
    feeds = {"x": np.arange(40, dtype=np.int32).reshape(1, 2, 4, 5), "g": POINTS[:1]}
    io = {"inputs": "int32[1,2,4,5] x, float[1,6,7,2] g", "outputs": "int32[1,2,6,7] y"}
    check_down('y = GridSample<mode="nearest">(x, g)', 16, 15, feeds=feeds, grade="close", **io)
    for mode in ("bilinear", "bicubic"):
        check_refused(
            f'y = GridSample<mode="{mode}">(x, g)',
            16,
            15,
            f"the data are integers and mode is {'linear' if mode == 'bilinear' else 'cubic'}",
            **io,
        )


def test_modes_without_a_form_are_refused():
    io = {"inputs": "float[2,3,4,5] x, float[2,6,7,2] g", "outputs": "float[2,3,6,7] y"}
    check_refused('y = GridSample<padding_mode="wrap">(x, g)', 16, 15, "padding_mode=wrap", **io)


GRID = {"inputs": "float[1,1,3,3] x, float[1,2,2,2] g", "outputs": "float[1,1,2,2] y"}
QUARTERS = {
    "x": np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3),
    "g": np.float32([[[[-1.2, 0], [0.3, 1]], [[0, 0], [1, -0.4]]]]),
}
LAYERED = {"inputs": "float[2,3,D,4,5] x, float[2,2,3,4,3] g", "outputs": "float[2,3,2,3,4] y"}


@pytest.mark.parametrize(("older", "newer"), [("bilinear", "linear"), ("bicubic", "cubic"), ("nearest", "nearest")])
def test_grid_modes_were_renamed_at_20(older, newer):
    old, new = (f"y = GridSample<align_corners=1, mode={mode}>(x, g)" for mode in (older, newer))
    check(old.replace(older, f'"{older}"'), 16, new, 20, feeds=QUARTERS, **GRID)
    check(new.replace(newer, f'"{newer}"'), 20, old, 19, feeds=QUARTERS, **GRID)


def test_the_default_grid_mode_stays_the_default():
    check_unchanged("y = GridSample(x, g)", 16, 20, **GRID)
    check_unchanged("y = GridSample(x, g)", 22, 16, **GRID)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_a_volume_is_sampled_as_an_image_of_its_layers_below_20(mode, padding, corners):
    body = f'y = GridSample<mode="{mode}", padding_mode="{padding}", align_corners={corners}>(x, g)'
    source = model(body, 20, **LAYERED)
    result = convert.attempt(source, {"": 16})
    assert result.grade == "close"
    drawn = np.random.default_rng(0)
    points = drawn.uniform(-1.6, 1.6, (2, 2, 3, 4, 3)).astype(np.float32)
    for depth in (6,) if corners and padding == "reflection" else (6, 1):  # onnxruntime reads beyond a single layer
        feeds = {"x": drawn.normal(size=(2, 3, depth, 4, 5)).astype(np.float32), "g": points}
        check_values(source, result.model, feeds, rtol=1e-5, atol=1e-6)


def test_grids_that_only_20_knows_are_refused():
    check_refused('y = GridSample<mode="wrong">(x, g)', 20, 19, "mode=wrong", **GRID)


def test_bfloat16_is_interpolated_in_float32_below_22():
    io = {"inputs": "bfloat16[1,1,3,3] x, float[1,2,2,2] g", "outputs": "bfloat16[1,1,2,2] y"}  # no engine takes it
    after = "t1 = Cast<to=1>(x)\nt2 = GridSample(t1, g)\ny = Cast<to=16>(t2)"
    check("y = GridSample(x, g)", 22, after, 21, run=False, grade="close", **io)
    io = {"inputs": "float[1,1,3,3] x, bfloat16[1,2,2,2] g", "outputs": "float[1,1,2,2] y"}
    after = "t1 = Cast<to=1>(g)\ny = GridSample(x, t1)"
    check("y = GridSample(x, g)", 22, after, 20, run=False, grade="close", **io)
