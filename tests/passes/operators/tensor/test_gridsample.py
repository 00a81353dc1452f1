"""GridSample and AffineGrid: their names of modes, and what they compute, before they existed."""

import itertools

import numpy as np
import pytest

from tests.support import check, check_down, check_refused

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
    assert len(made.graph.node) == 78


def test_what_lies_outside_counts_nothing_even_if_infinite():
    x = np.full((1, 1, 2, 2), np.inf, np.float32)
    feeds = {"x": x, "g": np.array([[[[-3, -3], [0, 0]]]], np.float32)}
    io = {"inputs": "float[1,1,2,2] x, float[1,1,2,2] g", "outputs": "float[1,1,1,2] y"}
    check_down("y = GridSample(x, g)", 16, 15, feeds=feeds, grade="close", **io)


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


def test_modes_without_a_form_are_refused():
    io = {"inputs": "float[2,3,4,5] x, float[2,6,7,2] g", "outputs": "float[2,3,6,7] y"}
    check_refused('y = GridSample<padding_mode="wrap">(x, g)', 16, 15, "padding_mode=wrap", **io)


def test_modes_are_renamed_at_20():
    io = {"inputs": "float[2,3,4,5] x, float[2,6,7,2] g", "outputs": "float[2,3,6,7] y"}
    for older, newer in (("bilinear", "linear"), ("bicubic", "cubic")):
        bodies = [f'y = GridSample<mode="{mode}">(x, g)' for mode in (older, newer)]
        check(bodies[0], 16, f"y = GridSample<mode={newer}>(x, g)", 20, atol=1e-6, **io)
        check(bodies[1], 20, f"y = GridSample<mode={older}>(x, g)", 16, atol=1e-6, **io)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("size", [[2, 1, 3, 4], [1, 1, 2, 2], [2, 1, 3, 4, 2]])
def test_a_grid_is_computed_below_20(size, corners):
    axes = len(size) - 2
    theta = rng.random((size[0], axes, axes + 1), np.float32)
    body, io = (
        f"y = AffineGrid<align_corners={corners}>(t, s)",
        {"outputs": f"float[{','.join('ABCDE'[: axes + 2])}] y"},
    )
    held = {"constants": f"int64[{axes + 2}] s = {{{','.join(map(str, size))}}}"}
    given = f"float[{size[0]},{axes},{axes + 1}] t"
    made = check_down(body, 20, 19, feeds={"t": theta}, grade="close", atol=1e-6, inputs=given, **held, **io)
    assert len(made.graph.node) == 2 * axes + 3
    check_down(body, 20, 13, 10, feeds={"t": theta}, grade="close", atol=1e-6, inputs=given, **held, **io)
    feeds, given = {"t": theta, "s": np.array(size)}, f"float[N,{axes},{axes + 1}] t, int64[{axes + 2}] s"
    check_down(body, 20, 19, 13, feeds=feeds, grade="close", atol=1e-6, inputs=given, **io)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("size", [(1, 2, 1, 3), (1, 2, 3, 1), (1, 2, 1, 1), (1, 2, 2, 3), (1, 1, 1, 2, 1)])
def test_sizes_of_one(size, corners):
    """Known or not, they become what onnxruntime makes of them."""
    axes = len(size) - 2
    theta, length = f"float[1,{axes},{axes + 1}] t", f"int64[{len(size)}] s"
    feeds = {"t": np.arange(1, axes * (axes + 1) + 1, dtype=np.float32).reshape(1, axes, -1) / 10}
    held = {"inputs": theta, "constants": f"{length} = {{{','.join(map(str, size))}}}", "feeds": feeds}
    given = {"inputs": f"{theta}, {length}", "feeds": {**feeds, "s": np.array(size)}}
    for io in (held, given):
        check_down(
            f"y = AffineGrid<align_corners={corners}>(t, s)", 20, 19, 16, 11,
            outputs=f"float[{','.join('ABCDE'[: axes + 2])}] y", grade="close", rtol=1e-5, atol=1e-6, **io,
        )  # fmt: skip
