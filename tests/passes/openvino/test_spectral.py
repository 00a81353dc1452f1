"""A spectrum over time, against OpenVINO."""

import numpy as np
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset15, opset16  # noqa: E402

from tests.passes.openvino.networks import C, drawn  # noqa: E402
from tests.passes.openvino.test_detection import check  # noqa: E402


@pytest.mark.parametrize(("shape", "window", "turned"), [((2, 19), 6, False), ((19,), 3, True), ((1, 6), 5, True)])
def test_a_spectrum_over_time(shape, window, turned, tmp_path):
    held = np.abs(drawn(window))
    check(
        lambda x, w: opset15.stft(x, w, C(np.array(6)), C(np.array(4)), turned),
        [drawn(*shape), held],
        tmp_path,
        any_size=False,
    )


@pytest.mark.parametrize("length", [[], [11], [25]])
@pytest.mark.parametrize(("batch", "center", "normalized"), [((2,), True, False), ((), False, True)])
def test_the_signal_of_a_spectrum(batch, center, normalized, length, tmp_path):
    held = [C(np.array(value)) for value in (6, 4, *length)]
    feeds = [drawn(*batch, 4, 4, 2), np.abs(drawn(5)) + 0.2]
    check(lambda x, w: opset16.istft(x, w, *held[:2], center, normalized, *held[2:]), feeds, tmp_path, any_size=False)
