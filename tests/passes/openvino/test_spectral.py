"""A spectrum over time, against OpenVINO."""

import numpy as np
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset15  # noqa: E402

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
