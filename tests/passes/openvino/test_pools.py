"""Pools whose sizes are rounded up, and only the run tells them, against OpenVINO."""

import pytest

pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset14, opset16
from opshift.passes.errors import Refused
from opshift.passes.openvino import reader

from tests.passes.openvino.networks import drawn, network, of_any_size
from tests.passes.openvino.test_detection import check


@pytest.mark.parametrize(
    ("pads", "dilation", "stride", "refused"),
    [
        ((0, 2), 2, 3, True),  # the third window of 6 elements begins behind them
        ((2, 2), 3, 2, False),  # whole windows reach as far as the pads
        ((0, 1), 2, 3, False),  # pads that onnxruntime takes, which drops that window
        ((2, 0), 2, 2, False),
    ],
)
@pytest.mark.parametrize("size", [6, 7, 8])
def test_a_window_that_begins_behind_the_data(pads, dilation, stride, refused, size, tmp_path):
    def build(x):
        held = [stride], [dilation], [pads[0]], [pads[1]], [2], "ceil_torch"
        return opset14.max_pool(x, *held).output(0)

    feeds = [drawn(1, 2, size)]
    check(build, feeds, tmp_path, any_size=not refused)
    if refused:
        with pytest.raises(Refused, match="ceil_torch, pads as wide as the window"):
            reader.read(of_any_size(network(build, feeds, tmp_path)))


@pytest.mark.parametrize(
    ("size", "auto", "refused"),
    [
        (2, "explicit", True),
        (5, "explicit", False),
        (1, "same_upper", True),
        (2, "same_upper", True),
        (3, "same_upper", False),
    ],
)
@pytest.mark.parametrize("largest", [True, False])
def test_a_window_whose_steps_leap_over_the_data(size, auto, refused, largest, tmp_path):
    """OpenVINO makes a mean of nothing NaN."""

    def build(x):
        if largest:
            return opset14.max_pool(x, [3], [3], [1], [1], [2], "ceil_torch", auto).output(0)
        return opset16.avg_pool(x, [3], [1], [1], [2], True, "ceil_torch", auto, [3])

    feeds = [drawn(1, 2, size)]
    if not refused:
        check(build, feeds, tmp_path, any_size=False)
        return
    with pytest.raises(Refused, match="a dilated window covers padding only; supported: a dilation below 3"):
        reader.read(network(build, feeds, tmp_path))


def test_a_mean_of_padding_that_counts(tmp_path):
    def build(x):
        return opset16.avg_pool(x, [3], [1], [1], [2], False, "floor", None, [3])

    assert not check(build, [drawn(1, 2, 2)], tmp_path, any_size=False).any()
