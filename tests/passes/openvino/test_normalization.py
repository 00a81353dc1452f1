"""Layers that normalize, against OpenVINO."""

import numpy as np
import pytest

pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset13 as op
from opshift.passes.openvino import reader

from opshift.verification.engines import OnnxRuntime
from tests.passes.openvino.networks import drawn, ints, network, of_any_size
from tests.passes.openvino.test_detection import check, refusal


@pytest.mark.parametrize(
    "shape", [(0, 3), (3, 0), (4, 0, 4), (0, 3, 2), (2, 3, 0, 2, 2), (2, 0, 3, 1, 2), (0, 3, 2, 1, 2)]
)
def test_no_channels_are_normalized(shape, tmp_path):
    check(lambda x: op.lrn(x, ints(1), 0.5, 0.7, 2.0, 3), [drawn(*shape)], tmp_path)


@pytest.mark.parametrize("shape", [(2, 5, 3, 2, 2), (2, 5, 3), (2, 5)])
def test_channels_of_any_size_are_normalized(shape, tmp_path):
    check(lambda x: op.lrn(x, ints(1), 0.5, 0.7, 2.0, 3), [drawn(*shape)], tmp_path)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_images_are_normalized_by_what_is_around(size, tmp_path):
    check(lambda x: op.lrn(x, ints(2, 3), 0.5, 0.7, 2.0, size), [drawn(2, 3, 4, 6)], tmp_path)


def windows(x, axes, size):
    """The sum of the squares around each element."""
    found, ahead = np.zeros_like(x), size // 2
    for place in np.ndindex(*x.shape):
        around = (slice(max(k - ahead, 0), k + ahead + 1) if a in axes else k for a, k in enumerate(place))
        found[place] = np.square(x[tuple(around)]).sum()
    return found


PLACES = [
    ((2, 3, 4), [2]),
    ((2, 3, 4), [-1]),
    ((2, 3, 1, 4), [2]),
    ((2, 3, 2, 4), [3]),
    ((1, 1, 3, 2, 4), [2, -1]),
    ((1, 1, 1, 1, 1), [4, 3, 2]),
    ((0, 3, 4), [2]),
    ((2, 0, 3, 4), [2, 3]),
    ((2, 3, 0, 4), [3]),
]


@pytest.mark.parametrize(("shape", "axes"), PLACES)
def test_places_are_normalized(shape, axes, tmp_path):
    """By the formula of the specification: OpenVINO runs no axes but those of channels, and all of an image."""
    x = drawn(*shape)
    path = network(lambda x: op.lrn(x, ints(*axes), 0.5, 0.7, 2.0, 3), [x], tmp_path)
    total = windows(x, [axis % x.ndim for axis in axes], 3)
    expected = x / (2 + 0.5 / 3 ** len(axes) * total) ** 0.7
    for source in [path, of_any_size(path)][: 1 if 0 in shape[1:] else 2]:  # onnxruntime pools no channels or places
        read = reader.read(source)
        (actual,) = OnnxRuntime(read.model).run({read.model.graph.input[0].name: x})
        np.testing.assert_allclose(actual, expected, rtol=1e-5)
        assert {change.grade for change in read.changes} <= {"close"}


@pytest.mark.parametrize("axes", [[0], [1, 2], [-3, 2], []])
def test_channels_are_not_normalized_beside_places(axes, tmp_path):
    found = refusal(lambda x: op.lrn(x, ints(*axes), 0.5, 0.7, 2.0, 3), [drawn(2, 3, 4)], tmp_path)
    assert "supported: axis 1, or axes behind it" in found
