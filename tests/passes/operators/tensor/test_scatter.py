"""The scatter family and GridSample: reductions, new names and new modes."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check, check_down, check_refused, check_unchanged, check_values, model, show

IO = {"inputs": "float[3,3] x, float[2,3] u", "outputs": "float[3,3] y"}
DISTINCT = "int64[2,3] i = {1, 0, 2, 0, 2, -2}"
REPEATED = "int64[2,3] i = {1, 0, -1, 0, 2, 2}"
REDUCTIONS = [("add", 15), ("mul", 15), ("max", 17), ("min", 17), ("max", 13), ("add", 11)]


def test_scatter_becomes_scatter_elements_at_11():
    io = {**IO, "constants": DISTINCT.replace("-2", "1")}
    after = "y = ScatterElements<axis=0>(x, [[1, 0, 2], [0, 2, 1]], u)"
    check("y = Scatter<axis=0>(x, i, u)", 9, after, 18, **io)
    check_unchanged("y = Scatter<axis=0>(x, i, u)", 9, 10, **io)


def test_no_reduction_needs_nothing():
    check_unchanged("y = ScatterElements<axis=1>(x, i, u)", 18, 11, constants=DISTINCT, **IO)
    after = "y = ScatterElements(x, [[1, 0, 2], [0, 2, -2]], u)"
    check('y = ScatterElements<reduction="none">(x, i, u)', 18, after, 15, constants=DISTINCT, **IO)
    check_unchanged('y = ScatterElements<reduction="add">(x, i, u)', 18, 16, constants=DISTINCT, **IO)


def test_unknown_reductions_are_refused():
    check_refused('y = ScatterElements<reduction="sub">(x, i, u)', 18, 17, "reduction=sub", constants=DISTINCT, **IO)


@pytest.mark.parametrize(("reduction", "target"), REDUCTIONS)
@pytest.mark.parametrize("axis", [0, -2, 1])
@pytest.mark.parametrize("indices", [DISTINCT, REPEATED])
def test_elements_are_combined_before_they_are_scattered(reduction, target, axis, indices):
    body = f'y = ScatterElements<reduction="{reduction}", axis={axis}>(x, i, u)'
    source = model(body, 18, constants=indices, **IO)
    result = convert.attempt(source, {"": target})
    repeated = indices == REPEATED
    assert ("Loop" in show(result.model)) == repeated
    assert result.grade == ("close" if repeated or reduction in ("max", "min") else "exact")
    for seed in range(3):
        drawn = np.random.default_rng(seed).normal(size=(5, 3)).astype(np.float32)
        check_values(source, result.model, {"x": drawn[:3], "u": drawn[3:]}, rtol=1e-6, atol=0)
    if reduction in ("add", "mul"):  # runtimes differ on the maximum of NaN
        check_values(source, result.model, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("reduction", "target"), REDUCTIONS[:5])
@pytest.mark.parametrize(
    ("indices", "shape"),
    [
        ("{0, 2}", "int64[2,1] i = {0, 2}"),
        ("{0, -3}", "int64[2,1] i = {0, -3}"),
        ("runtime", ""),
    ],
)
def test_slices_are_combined_before_they_are_scattered(reduction, target, indices, shape):
    inputs = IO["inputs"] + (", int64[2,1] i" if not shape else "")
    body = f'y = ScatterND<reduction="{reduction}">(x, i, u)'
    source = model(body, 18, inputs=inputs, outputs=IO["outputs"], constants=shape)
    made = convert.attempt(source, {"": target}).model
    assert ("Loop" in show(made)) == (indices != "{0, 2}")
    for given in ([0, 1], [2, 2], [-1, 2]):
        feeds = {"i": np.array(given).reshape(2, 1), "x": POINTS["x"].reshape(3, 3)}
        check_values(source, made, feeds | {"u": -feeds["x"][1:]}, rtol=1e-6, atol=0)


def test_elements_by_tuples_of_indices():
    io = {"inputs": "int64[2,3] x, int64[2,2] u, int64[2,2,2] i", "outputs": "int64[2,3] y"}
    source = model('y = ScatterND<reduction="add">(x, i, u)', 18, **io)
    made = convert.attempt(source, {"": 13}).model
    given = {"i": np.array([[[0, 1], [1, 2]], [[0, 1], [-1, -1]]])}
    check_values(source, made, given, rtol=0, atol=0)
    assert convert.attempt(source, {"": 13}).grade == "exact"


GRID = {"inputs": "float[1,1,3,3] x, float[1,2,2,2] g", "outputs": "float[1,1,2,2] y"}
POINTS = {
    "x": np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3),
    "g": np.float32([[[[-1.2, 0], [0.3, 1]], [[0, 0], [1, -0.4]]]]),
}


@pytest.mark.parametrize(("older", "newer"), [("bilinear", "linear"), ("bicubic", "cubic"), ("nearest", "nearest")])
def test_grid_modes_were_renamed_at_20(older, newer):
    old, new = (f"y = GridSample<align_corners=1, mode={mode}>(x, g)" for mode in (older, newer))
    check(old.replace(older, f'"{older}"'), 16, new, 20, feeds=POINTS, **GRID)
    check(new.replace(newer, f'"{newer}"'), 20, old, 19, feeds=POINTS, **GRID)


def test_the_default_grid_mode_stays_the_default():
    check_unchanged("y = GridSample(x, g)", 16, 20, **GRID)
    check_unchanged("y = GridSample(x, g)", 22, 16, **GRID)


VOLUME = {"inputs": "float[2,3,D,4,5] x, float[2,2,3,4,3] g", "outputs": "float[2,3,2,3,4] y"}


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_a_volume_is_sampled_as_an_image_of_its_layers_below_20(mode, padding, corners):
    body = f'y = GridSample<mode="{mode}", padding_mode="{padding}", align_corners={corners}>(x, g)'
    source = model(body, 20, **VOLUME)
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


@pytest.mark.parametrize("shape", ["3,4", "N,M"])
def test_updates_of_one_element_are_combined_below_11(shape):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    io = {"inputs": f"float[{shape}] x, int64[3,3] i, float[3,3] u", "outputs": "float[A,B] y"}
    feeds = {"x": x, "i": np.array([[0, 0, 1], [-1, 3, 2], [1, 1, 1]])}
    check_down('y = ScatterElements<axis=1, reduction="mul">(x, i, u)', 18, 10, 9, feeds=feeds, grade="close", **io)
    io = {"inputs": f"float[{shape}] x, int64[3,1] i, float[3,4] u", "outputs": "float[A,B] y"}
    feeds = {"x": x, "i": np.array([[0], [2], [-3]])}
    check_down('y = ScatterND<reduction="max">(x, i, u)', 18, 10, 9, feeds=feeds, grade="close", **io)
