"""A spectrum over time, against OpenVINO."""

import numpy as np
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset15, opset16  # noqa: E402

from tests.passes.openvino.networks import C, drawn, made  # noqa: E402
from tests.passes.openvino.test_detection import check, refusal  # noqa: E402


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


@pytest.mark.parametrize("kind", ["RDFT", "DFT"])
@pytest.mark.parametrize("size", [[], [3]])
def test_a_signal_of_no_element(kind, size, tmp_path):
    """Without a size, a DFT leaves it as it is."""
    held = [C(np.array(value)) for value in ([1], size) if value]
    feed = drawn(2, 0) if kind == "RDFT" else drawn(2, 0, 2)

    def build(x):
        return made("opset9" if kind == "RDFT" else "opset7", kind, [x, *held])

    if kind == "DFT" and not size:
        assert check(build, [feed], tmp_path).shape == feed.shape
    else:
        assert "an empty signal" in refusal(build, [feed], tmp_path)
