"""Images of cameras, against OpenVINO."""

import numpy as np
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from tests.passes.openvino.networks import made  # noqa: E402
from tests.passes.openvino.test_detection import check  # noqa: E402

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
@pytest.mark.parametrize(
    ("layer", "shapes"),
    [
        ("NV12toRGB", [(2, 6, 6, 1)]),
        ("NV12toBGR", [(1, 4, 2, 1), (1, 2, 1, 2)]),
        ("I420toRGB", [(2, 6, 2, 1)]),
        ("I420toBGR", [(1, 2, 4, 1), (1, 1, 2, 1), (1, 1, 2, 1)]),
    ],
)
def test_planes_become_colors(layer, shapes, kind, tmp_path):
    planes = [RNG.integers(0, 256, shape).astype(kind) for shape in shapes]
    check(lambda *images: made("opset8", layer, images).output(0), planes, tmp_path)
