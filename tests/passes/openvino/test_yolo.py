"""What YOLO's networks end with, against OpenVINO."""

import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from tests.passes.openvino.networks import drawn, made  # noqa: E402
from tests.passes.openvino.test_detection import check, refusal  # noqa: E402


@pytest.mark.parametrize(("stride", "batch"), [(2, 2), (3, 1), (1, 1), (2, 0)])
def test_an_image_apart(stride, batch, tmp_path):
    x = drawn(batch, 2 * stride**2, 3 * stride, 2 * stride)
    check(lambda x: made("opset2", "ReorgYolo", [x], stride=[stride]), [x], tmp_path, any_size=batch > 0)


def yolo(x, **given):
    held = {"coords": 4, "classes": 3, "num": 2, "mask": [0, 2], "axis": 1, "end_axis": 3, "anchors": [1.0] * 6}
    return made("opset1", "RegionYolo", [x], **held | given)


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({"do_softmax": False}, 2),
        ({"do_softmax": False, "mask": [1], "num": 9, "coords": 2}, 1),
        ({"do_softmax": True}, 2),
        ({"do_softmax": True, "axis": -2, "end_axis": -1, "classes": 1}, 2),
    ],
)
def test_regions(given, count, tmp_path):
    each = given.get("coords", 4) + given.get("classes", 3) + 1
    check(lambda x: yolo(x, **given), [drawn(2, count * each, 3, 2)], tmp_path)


def test_regions_of_other_channels(tmp_path):
    assert "2 regions of 8" in refusal(lambda x: yolo(x, do_softmax=False), [drawn(1, 17, 1, 1)], tmp_path)
