"""Regions whose parts have channels of their own, against OpenVINO, which wants sizes that are known."""

import numpy as np
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from tests.passes.openvino.networks import made  # noqa: E402
from tests.passes.openvino.test_detection import check, refusal  # noqa: E402

RNG = np.random.default_rng(5)
PIXELS = np.float32(  # halves, a region beyond the border, one without width, and one behind the end
    [
        [1, 0.5, 1.5, 5.5, 6.5],
        [0, -2.5, -1, 3, 2],
        [1, 5, 5, 12, 5],
        [0, 9, 9, 20, 20],
        [-1, 0, 0, 3, 3],
        [0, 0, 0, 3, 3],
    ]
)
PARTS = np.float32(
    [[1, 0.1, 0.2, 0.7, 0.9], [0, -0.2, 0, 0.5, 1], [1, 0.5, 0.5, 1.2, 0.5], [-1, 0, 0, 1, 1], [0, 0, 0, 1, 1]]
)


def pooling(**given):
    held = {"spatial_scale": 1.0, **given}
    return lambda *inputs: made("opset1", "PSROIPooling", inputs, **held).output(0)


@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize("group", [1, 3])
def test_means_of_pixels(group, scale, tmp_path):
    data = RNG.standard_normal((2, 2 * group**2, 7, 8)).astype(np.float32)
    build = pooling(mode="average", output_dim=2, group_size=group, spatial_scale=scale)
    assert check(build, [data, PIXELS], tmp_path, any_size=False)[:3].any()


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("bins", [(1, 1), (2, 3)])
def test_points_of_bins(bins, group, tmp_path):
    data = RNG.standard_normal((2, 2 * bins[0] * bins[1], 5, 6)).astype(np.float32)
    held = {"spatial_bins_y": bins[0], "spatial_bins_x": bins[1]}
    build = pooling(mode="bilinear", output_dim=2, group_size=group, **held)
    assert check(build, [data, PARTS], tmp_path, any_size=False)[:2].any()


def test_numbers_of_16_bits_are_refused(tmp_path):
    feeds = [np.zeros((1, 1, 2, 2), np.float16), np.zeros((1, 5), np.float16)]
    build = pooling(mode="average", output_dim=1, group_size=1)
    assert "float16 data; supported: float and double" in refusal(build, feeds, tmp_path)
