"""Boxes around each place of a grid, against OpenVINO."""

import numpy as np
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset13 as op  # noqa: E402

from tests.passes.openvino.networks import drawn, ints, made  # noqa: E402
from tests.passes.openvino.test_detection import check, refusal  # noqa: E402

PRIOR = {
    "min_size": [9.0, 20.0], "max_size": [30.0], "aspect_ratio": [2.0, 1.0], "density": [], "fixed_ratio": [], "fixed_size": [],
    "clip": False, "flip": True, "step": 0.0, "offset": 0.5, "variance": [0.1, 0.1, 0.2, 0.2], "scale_all_sizes": True,
}  # fmt: skip
SPREAD = {"min_size": [], "max_size": [], "fixed_size": [12.0, 8.0], "density": [3.0, 2.0]}
GRIDS = np.array([2, 3]), np.array([50, 41])
IMAGES = drawn(1, 1, 2, 3), drawn(1, 1, 50, 41)


def sides(x):
    return op.strided_slice(op.shape_of(x), ints(2), ints(4), ints(1), [0], [0])


@pytest.mark.parametrize(
    ("version", "given"),
    [
        ("opset1", {}),
        ("opset1", {"step": 16.5, "offset": 0.0, "clip": True, "variance": []}),
        ("opset8", {"min_max_aspect_ratios_order": False, "flip": False, "variance": [0.3]}),
        ("opset8", {**SPREAD, "min_max_aspect_ratios_order": True}),
        ("opset1", {**SPREAD, "fixed_ratio": [2.0], "aspect_ratio": []}),
    ],
)
def test_boxes_around_each_place(version, given, tmp_path):
    check(lambda x, y: made(version, "PriorBox", [sides(x), sides(y)], **PRIOR | given), IMAGES, tmp_path)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"scale_all_sizes": False}, "scale_all_sizes=false"),
        ({**SPREAD, "min_size": [4.0]}, "with min_size"),
        ({**SPREAD, "fixed_size": [9.0, 8.0]}, "fixed_size=9, density=3"),
        ({"min_size": [], "max_size": []}, "no box"),
    ],
)
def test_boxes_that_cannot_be_said(given, why, tmp_path):
    assert why in refusal(lambda x, y: made("opset1", "PriorBox", [x, y], **PRIOR | given), GRIDS, tmp_path)


@pytest.mark.parametrize("given", [{}, {"step": 16.0}, {"step_w": 8.0, "step_h": 8.5, "clip": True}, {"step_w": 8.0}])
def test_boxes_of_sides_that_are_told(given, tmp_path):
    held = {"width": [9.0, 20.0], "height": [13.0, 7.0], "clip": False, "step": 0.0, "offset": 0.5, "variance": [0.1]}
    check(lambda x, y: made("opset1", "PriorBoxClustered", [x, y], **held | given), GRIDS, tmp_path)
