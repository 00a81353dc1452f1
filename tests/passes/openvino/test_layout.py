"""Columns that become an image, against OpenVINO."""

import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset15  # noqa: E402

from tests.passes.openvino.networks import drawn, ints  # noqa: E402
from tests.passes.openvino.test_detection import check  # noqa: E402


@pytest.mark.parametrize("shape", [(2, 12, 6), (12, 6)])
def test_columns_become_an_image(shape, tmp_path):
    def build(x):
        return opset15.col2im(x, ints(5, 3), ints(2, 3), [2, 1], [1, 1], [1, 0], [0, 1])

    check(build, [drawn(*shape)], tmp_path)
