"""Boxes of images on grids of several sizes, inside and outside."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import FLOAT, NEWEST, calls, check, check_refused

BOXES = [[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [-0.2, 0.5, 1.2, 0.6], [0.9, 0.8, 0.1, 0.2]]
INPUTS = {
    "X": (2, 3, 5, 6),
    "rois": [np.array(BOXES), np.array([[0.5, 0.5, 0.5, 0.5]] * 4)],
    "batch_indices": np.array([0, 1, 1, 0], np.int32),
}


@pytest.mark.parametrize(("size", "opset"), [([3, 4], NEWEST), ([1, 1], 13), ([1, 3], NEWEST), ([2, 1], 13)])
def test_boxes(size, opset):
    inputs = {**INPUTS, "crop_size": np.array(size, np.int32)}
    made = calls("CropAndResize", inputs, {"mode": [None, "nearest"], "extrapolation_value": [None, 7.0]}, types=[FLOAT])  # fmt: skip
    assert check(made, held=[3], opsets=(opset,)) == 8


def test_a_computed_size_is_refused():
    made = calls("CropAndResize", {**INPUTS, "crop_size": np.array([2, 2], np.int32)}, types=[FLOAT])
    check_refused(made, "crop_size of computed")


def test_images_without_pixels():
    inputs = {**INPUTS, "X": [(2, 3, 5, 0), (2, 3, 0, 5)], "crop_size": np.array([2, 3], np.int32)}
    assert check(calls("CropAndResize", inputs, {"mode": [None, "nearest"], "extrapolation_value": [7.0]}, types=[FLOAT]), held=[3]) == 8  # fmt: skip
