"""Columns that become an image, and shapes beside sizes of 0, against OpenVINO."""

import numpy as np
import onnx
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset15  # noqa: E402
from opshift.passes.errors import Refused  # noqa: E402
from opshift.passes.openvino import reader  # noqa: E402

from opshift.verification.engines import OnnxRuntime  # noqa: E402
from tests import pairs  # noqa: E402
from tests.passes.openvino.networks import CORE, drawn, ints, made, network, of_any_size  # noqa: E402
from tests.passes.openvino.test_detection import check  # noqa: E402


@pytest.mark.parametrize("shape", [(2, 12, 6), (12, 6)])
def test_columns_become_an_image(shape, tmp_path):
    def build(x):
        return opset15.col2im(x, ints(5, 3), ints(2, 3), [2, 1], [1, 1], [1, 0], [0, 1])

    check(build, [drawn(*shape)], tmp_path)


RESTS = [
    ((0, 1, 2, 2), (0, 2, -1)),
    ((0, 1, 2, 2), (0, -1)),
    ((0, 1, 2, 2), (-1, 0)),
    ((2, 0, 3), (0, 0, -1)),
    ((3, 0), (0, 0, -1)),
    ((0, 2, 0), (0, -1)),  # 0 elements, which would copy the 2
    ((2, 3, 4), (0, -1)),
    ((2, 3, 4), (-1, 2)),
]


@pytest.mark.parametrize(("shape", "wanted"), RESTS)
def test_a_rest_beside_a_copied_size_that_may_be_0(shape, wanted, tmp_path):
    check(lambda x: opset15.reshape(x, ints(*wanted), True), [drawn(*shape)], tmp_path)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    pairs.some([*RESTS, ((0, 3, 4), (0, 3, 2, -1)), ((0, 3, 4), (0, 2, 6)), ((2, 3, 4), (4, 3, 2)), ((6,), (-1,))], 2),
)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_run_may_tell_what_is_copied_beside_a_rest(shape, wanted, dtype, tmp_path):
    feeds = [drawn(*shape), np.array(wanted, dtype)]
    path = network(lambda x, target: opset15.reshape(x, target, True), feeds, tmp_path)
    model = CORE.read_model(path)
    model.reshape({model.inputs[0]: openvino.PartialShape([-1] * len(shape))})
    openvino.serialize(model, tmp_path / "any.xml")
    for source in (path, tmp_path / "any.xml"):
        expected = CORE.compile_model(source, "CPU")(feeds)[0]
        made = reader.read(source).model
        onnx.checker.check_model(made, full_check=True)
        names = [value.name for value in made.graph.input]
        (actual,) = OnnxRuntime(made).run(dict(zip(names, feeds, strict=True)))
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("sizes", "count", "nodes"), [([2, 3, 4], 2, 1), ([2, 3, -1], 2, 1), ([-1, 3], 1, 1), ([-1, 3], 2, 12)]
)
def test_what_is_copied_is_computed_where_it_has_to_be(sizes, count, nodes, tmp_path):
    x, target = opset15.parameter(sizes, np.float32), opset15.parameter([count], np.int64)
    net = openvino.Model([opset15.reshape(x, target, True)], [x, target], "net")
    openvino.serialize(net, tmp_path / "net.xml")
    assert len(reader.read(tmp_path / "net.xml").model.graph.node) == nodes


@pytest.mark.parametrize(("sizes", "nodes"), [([2, 3, 4], 1), ([-1, 3, 4], 1), ([2, -1, -1], 1), ([-1, 3, -1], 6)])
def test_a_rest_is_computed_where_it_has_to_be(sizes, nodes, tmp_path):
    x = opset15.parameter(sizes, np.float32)
    openvino.serialize(openvino.Model([opset15.reshape(x, ints(0, -1), True)], [x], "net"), tmp_path / "net.xml")
    assert len(reader.read(tmp_path / "net.xml").model.graph.node) == nodes


@pytest.mark.parametrize(("shape", "axes"), [((2, 0, 3), (0, 1)), ((0, 3, 2), (1, 0)), ((2, 4, 0), (0, 2))])
def test_no_sequence_is_reversed(shape, axes, tmp_path):
    """Whose least length is 1."""
    lengths = ints(*[1] * shape[axes[0]], dtype=np.int32)
    check(lambda x: opset15.reverse_sequence(x, lengths, *axes), [drawn(*shape)], tmp_path, any_size=False)


SKIPPED = [
    ((1, 3, 1), [0, 1]),
    ((1, 3, 1), [-1, -2]),
    ((2, 3, 1), [0, -2]),
    ((1, 1), [-1]),
    ((0, 1), [0, 1]),
    ((1, 1), [0, 1]),
    ((2, 1), [0, 0]),
]


@pytest.mark.parametrize(("shape", "axes"), SKIPPED)
@pytest.mark.parametrize("run_time", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_the_run_may_tell_which_axes_are_skipped(shape, axes, run_time, whole, tmp_path):
    """By the specification: OpenVINO runs nothing of a rank that it does not know."""
    expected = [size for axis, size in enumerate(shape) if size != 1 or axis not in np.mod(axes, len(shape))]

    def build(x, *named):
        squeezed = made("opset15", "Squeeze", [x, *(named or [ints(*axes)])], allow_axis_skip=True)
        return opset15.reshape(squeezed, ints(-1), False) if whole else opset15.shape_of(squeezed)

    feeds = [drawn(*shape), *([np.array(axes)] if run_time else [])]
    model = CORE.read_model(network(build, feeds, tmp_path))
    model.reshape({model.inputs[0]: openvino.PartialShape([-1] * len(shape))})
    openvino.serialize(model, tmp_path / "any.xml")
    read = reader.read(tmp_path / "any.xml").model
    onnx.checker.check_model(read, full_check=True)
    names = [value.name for value in read.graph.input]
    (actual,) = OnnxRuntime(read).run(dict(zip(names, feeds, strict=True)))
    np.testing.assert_array_equal(actual, feeds[0].reshape(-1) if whole else expected)


def test_axes_that_may_be_none_are_not_skipped(tmp_path):
    def build(x, axes):
        return opset15.shape_of(made("opset15", "Squeeze", [x, axes], allow_axis_skip=True))

    path = of_any_size(network(build, [drawn(1, 2), np.array([1])], tmp_path))
    with pytest.raises(Refused, match="the length of input 1 is unknown; supported: a constant, or a static shape"):
        reader.read(path)
