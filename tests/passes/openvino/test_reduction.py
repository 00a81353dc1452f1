"""Reductions along axes of which only the run tells how many there are, against OpenVINO, or its text where there are none."""

import numpy as np
import onnx
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset13 as op  # noqa: E402
from opshift.passes.openvino import reader  # noqa: E402

from opshift.verification.engines import OnnxRuntime  # noqa: E402
from tests.passes.openvino.networks import CORE, drawn, network, of_any_size  # noqa: E402

REDUCED = ["reduce_sum", "reduce_max", "reduce_mean", "reduce_l1", "reduce_l2"]


def read_and_run(path, feeds):
    model = reader.read(path).model
    onnx.checker.check_model(model, full_check=True)
    names = [value.name for value in model.graph.input]
    return OnnxRuntime(model).run(dict(zip(names, feeds, strict=True)))[0]


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("shape", [(2, 3), (0, 3)])
def test_data_without_axes_are_as_they_are(name, shape, tmp_path):
    feeds = [drawn(*shape), np.zeros(0, np.int64)]
    path = of_any_size(network(lambda x, axes: getattr(op, name)(x, axes, True), feeds, tmp_path))
    np.testing.assert_array_equal(read_and_run(path, feeds), feeds[0])


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("axes", [[1], [-1, 0], [0, 1]])
def test_axes_of_the_run_time(name, axes, tmp_path):
    feeds = [drawn(2, 3), np.array(axes)]
    path = of_any_size(network(lambda x, axes: getattr(op, name)(x, axes, True), feeds, tmp_path))
    np.testing.assert_allclose(read_and_run(path, feeds), CORE.compile_model(path, "CPU")(feeds)[0], 1e-5)


@pytest.mark.parametrize(("axes", "right"), [([], [3, -4]), ([0], [5])])
def test_the_run_may_tell_the_rank(axes, right, tmp_path):
    """Which OpenVINO does not run."""
    feeds = [np.float32([3, -4]), np.array(axes, np.int64)]

    def build(x, axes):
        return op.reshape(op.reduce_l2(x, axes, False), op.constant(np.array([-1])), False)

    np.testing.assert_array_equal(read_and_run(of_any_size(network(build, feeds, tmp_path)), feeds), right)
