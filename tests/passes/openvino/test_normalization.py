"""Layers that normalize, against OpenVINO."""

import pytest

pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset13 as op

from tests.passes.openvino.networks import drawn, ints
from tests.passes.openvino.test_detection import check


@pytest.mark.parametrize(
    "shape", [(0, 3), (3, 0), (4, 0, 4), (0, 3, 2), (2, 3, 0, 2, 2), (2, 0, 3, 1, 2), (0, 3, 2, 1, 2)]
)
def test_no_channels_are_normalized(shape, tmp_path):
    check(lambda x: op.lrn(x, ints(1), 0.5, 0.7, 2.0, 3), [drawn(*shape)], tmp_path)


@pytest.mark.parametrize("shape", [(2, 5, 3, 2, 2), (2, 5, 3), (2, 5)])
def test_channels_of_any_size_are_normalized(shape, tmp_path):
    check(lambda x: op.lrn(x, ints(1), 0.5, 0.7, 2.0, 3), [drawn(*shape)], tmp_path)
