"""Axes that only the run tells: against OpenVINO, and against numpy where its CPUs take constants alone."""

import numpy as np
import onnx
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset13 as op  # noqa: E402
from opshift.passes.openvino import reader  # noqa: E402

from opshift.verification.bounds import compare  # noqa: E402
from opshift.verification.engines import OnnxRuntime  # noqa: E402
from tests.passes.openvino.networks import AS_WRITTEN, CORE, C, drawn, ints, made, network  # noqa: E402
from tests.passes.openvino.test_detection import refusal  # noqa: E402


def sources(build, feeds, folder):
    """A network, and the same one for data of any size."""
    path = network(build, feeds, folder)
    model = CORE.read_model(path)
    model.reshape({model.inputs[0]: openvino.PartialShape([-1] * feeds[0].ndim)})
    openvino.serialize(model, folder / "any.xml")
    return path, folder / "any.xml"


def check(build, feeds, folder, expected=None, grades=()):
    """Both forms compute what is expected: what OpenVINO computes, if nothing is given."""
    paths = sources(build, feeds, folder)
    if expected is None:
        expected = CORE.compile_model(paths[0], "CPU", AS_WRITTEN)(feeds)[0]
    for path in paths:
        read = reader.read(path)
        onnx.checker.check_model(read.model, full_check=True)
        names = [value.name for value in read.model.graph.input]
        (actual,) = OnnxRuntime(read.model).run(dict(zip(names, feeds, strict=True)))
        assert not compare(expected, actual, "close").why or np.allclose(expected, actual, 1e-4, 1e-5)
        assert expected.shape == actual.shape
        assert tuple(change.grade for change in read.changes) == tuple(grades)


SHAPES = [(2, 3, 4), (1, 1), (3, 0, 2), (0, 2)]
KINDS = [np.int32, np.int64]


GATHERED = [
    (shape, axis, places)
    for shape in SHAPES
    for axis in (0, 1, -1)
    for places in ((0,), (), (2, 0))
    if shape[axis] or 0 in places
]


@pytest.mark.parametrize(("shape", "axis", "places"), GATHERED)
def test_gather(shape, axis, places, tmp_path):
    """OpenVINO takes no such axis on CPUs."""
    index = np.zeros(places, np.int64) if not shape[axis] else np.resize(np.arange(shape[axis]), places) - shape[axis]
    feeds = [drawn(*shape), np.asarray(index), np.array(axis)]
    check(lambda x, i, a: op.gather(x, i, a), feeds, tmp_path, np.take(feeds[0], index, axis))


def test_gather_inside_of_a_branch(tmp_path):
    def build(x, axis, flag):
        branches = []
        for places in ([1, 0], [0, 0]):
            data, where = op.parameter([-1, -1, -1], np.float32), op.parameter([], np.int64)
            body = openvino.Model([op.result(op.gather(data, ints(*places), where))], [data, where], "body")
            branches.append((body, data, where))
        (first, *_), (second, *_) = branches
        whole = op.if_op(flag)
        whole.set_then_body(first)
        whole.set_else_body(second)
        whole.set_input(x.output(0), branches[0][1], branches[1][1])
        whole.set_input(axis.output(0), branches[0][2], branches[1][2])
        return whole.set_output(first.results[0], second.results[0])

    x = drawn(2, 3, 4)
    for flag, places in ((True, [1, 0]), (False, [0, 0])):
        check(build, [x, np.array(1), np.array(flag)], tmp_path, np.take(x, places, 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "axis", "places", "batch"),
    [
        ((2, 3, 4), 1, (2, 5), 1),
        ((2, 3, 4), -1, (2, 5), 1),
        ((2, 3, 4), 2, (2, 3), 2),
        ((2, 3, 4), -1, (2, 3, 2), -1),
        ((2, 3, 4, 2), 2, (2, 3, 2), 1),
        ((1, 1), 1, (1,), 1),
        ((2, 3, 0), 1, (2, 5), 1),
        ((0, 3, 4), -2, (0, 5), 1),
        ((2, 3, 4), 1, (2, 0), 1),
    ],
)
def test_gather_from_each_of_a_batch(shape, axis, places, batch, kind, tmp_path):
    """OpenVINO takes no such axis on CPUs."""
    size, count = max(shape[axis], 1), batch % len(places) if batch < 0 else batch
    index = np.resize(np.arange(size), places) - shape[axis]
    x, at = drawn(*shape), axis % len(shape)
    each = [np.take(x[one], index[one], at - count) for one in np.ndindex(*shape[:count])]
    whole = (*shape[:at], *places[count:], *shape[at + 1 :])
    expected = np.reshape(each, whole) if each else np.zeros(whole, np.float32)
    feeds = [x, index, np.array([axis], kind)]
    check(lambda x, i, a: op.gather(x, i, a, batch), feeds, tmp_path, expected)


def test_channels_to_normalize_are_known(tmp_path):
    found = refusal(lambda x, a: op.lrn(x, a, 0.5, 0.7, 2.0, 3), [drawn(2, 3, 4), np.array([1])], tmp_path)
    assert "the axis is dynamic" in found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1, 2, -2])
def test_elements_are_scattered(axis, kind, tmp_path):
    data, places, updates = drawn(2, 3, 4), np.array([[[1, 0]], [[0, 1]]], kind), drawn(2, 1, 2, seed=1)
    check(
        lambda x, i, u, a: made("opset3", "ScatterElementsUpdate", [x, i, u, a]),
        [data, places, updates, np.array(axis, kind)],
        tmp_path,
    )


@pytest.mark.parametrize("reduction", ["sum", "prod", "min", "max"])
@pytest.mark.parametrize("axis", [0, -1])
def test_elements_are_combined(axis, reduction, tmp_path):
    held = {"reduction": reduction, "use_init_val": True}
    check(
        lambda x, i, u, a: made("opset12", "ScatterElementsUpdate", [x, i, u, a], **held),
        [drawn(3, 3), np.array([[-1, 0], [-1, -1]]), drawn(2, 2), np.array(axis)],
        tmp_path,
    )


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("places", [[1, 0], [[1], [0]], 1])
def test_slices_are_replaced(axis, places, tmp_path):
    data, places = drawn(2, 3, 2), np.array(places)
    at = axis % data.ndim
    updates = drawn(*data.shape[:at], *places.shape, *data.shape[at + 1 :], seed=1)
    expected = data.copy()
    expected[(*[slice(None)] * at, places)] = updates
    feeds = [data, places, updates, np.array(axis)]
    check(lambda x, i, u, a: op.scatter_update(x, i, u, a), feeds, tmp_path, expected)


@pytest.mark.parametrize(("shape", "axis"), [((2, 0, 3), 0), ((2, 0, 3), 2)])
def test_slices_without_elements_are_replaced(shape, axis, tmp_path):
    feeds = [drawn(*shape), np.array([1]), drawn(*(1 if k == axis else n for k, n in enumerate(shape))), np.array(axis)]
    check(lambda x, i, u, a: op.scatter_update(x, i, u, a), feeds, tmp_path)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axes", [[0], [-1, 0], [1, 1, -1], []])
@pytest.mark.parametrize("run_time", [True, False])
def test_axes_are_reversed_once(shape, axes, run_time, tmp_path):
    feeds = [drawn(*shape), np.array(axes, np.int64)]
    expected = np.flip(feeds[0], sorted({axis % len(shape) for axis in axes}))
    if run_time:
        check(lambda x, a: made("opset1", "Reverse", [x, a], mode="index"), feeds, tmp_path, expected)
    else:
        check(lambda x: made("opset1", "Reverse", [x, C(feeds[1])], mode="index"), feeds[:1], tmp_path, expected)


@pytest.mark.parametrize("flags", [[True, False, True], [False] * 3])
def test_axes_of_a_mask_are_reversed(flags, tmp_path):
    check(lambda x, a: made("opset1", "Reverse", [x, a], mode="mask"), [drawn(2, 3, 4), np.array(flags)], tmp_path)


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 1), (0, 2)])
@pytest.mark.parametrize("axes", [[1], [-1, 0]])
@pytest.mark.parametrize("mode", ["INSIDE_SQRT", "OUTSIDE_SQRT"])
def test_means_and_variances(shape, axes, mode, tmp_path):
    held = {"eps": 0.1, "eps_mode": mode, "normalize_variance": mode == "INSIDE_SQRT"}
    check(lambda x, a: made("opset6", "MVN", [x, a], **held), [drawn(*shape), np.array(axes)], tmp_path)


@pytest.mark.parametrize(("known", "text"), [(True, "no axes are given; supported: at least one"), (False, "")])
def test_a_mean_over_no_axes(known, text, tmp_path):
    """Two axes of a known number of elements OpenVINO leaves as they are, and others become zeros."""
    held = {"eps": 0.1, "eps_mode": "INSIDE_SQRT", "normalize_variance": True}
    x, axes = drawn(2, 3), np.zeros(0, np.int64)
    if known:
        assert text in refusal(lambda x: made("opset6", "MVN", [x, C(axes)], **held), [x], tmp_path)
        return
    inputs = [op.parameter([-1, -1], np.float32), op.parameter([-1], np.int64)]
    model = openvino.Model([op.result(made("opset6", "MVN", inputs, **held))], inputs, "net")
    openvino.serialize(model, tmp_path / "net.xml")
    read = reader.read(tmp_path / "net.xml")
    (actual,) = OnnxRuntime(read.model).run(dict(zip((v.name for v in read.model.graph.input), [x, axes], strict=True)))
    np.testing.assert_array_equal(actual, np.zeros_like(x))
    assert [change.grade for change in read.changes] == ["close"]


@pytest.mark.parametrize(
    ("shape", "target", "axes"), [((2, 3), (2, 5, 3), (0, 2)), ((1, 0), (4, 0, 2), (0, 1)), ((), (2,), ())]
)
def test_data_are_placed(shape, target, axes, tmp_path):
    feeds = [drawn(*shape), np.array(axes, np.int64)]
    placed = np.reshape(feeds[0], [shape[axes.index(k)] if k in axes else 1 for k in range(len(target))])
    check(lambda x, a: op.broadcast(x, ints(*target), a, "explicit"), feeds, tmp_path, np.broadcast_to(placed, target))


@pytest.mark.parametrize(("rows", "columns", "shift"), [(3, 4, 1), (3, 4, -2), (2, 2, 5), (0, 3, 0), (1, 1, 0)])
@pytest.mark.parametrize("kind", ["f32", "i32"])
def test_a_diagonal(rows, columns, shift, kind, tmp_path):
    expected = np.eye(rows, columns, shift, {"f32": np.float32, "i32": np.int32}[kind])
    feeds = [np.array([shift], np.int32)]
    path = network(
        lambda k: made("opset9", "Eye", [C(np.int32(rows)), C(np.int32(columns)), k], output_type=kind), feeds, tmp_path
    )
    model = reader.read(path).model
    (actual,) = OnnxRuntime(model).run({model.graph.input[0].name: feeds[0]})
    np.testing.assert_array_equal(actual, expected)
    assert actual.dtype == expected.dtype


@pytest.mark.parametrize("version", [4, 11])
@pytest.mark.parametrize("by", ["sizes", "scales"])
def test_images_are_resized(version, by, tmp_path):
    wanted = [C(np.array([6, 3]))] if by == "sizes" else [C(np.float32([1.5, 0.5]))]
    if version == 4:
        wanted = [C(np.array([6, 3])), C(np.float32([1.5, 0.5]))]
    held = {"mode": "nearest", "shape_calculation_mode": by, "coordinate_transformation_mode": "asymmetric"}
    held |= {"nearest_mode": "floor", "pads_begin": [], "pads_end": []}
    check(
        lambda x, a: made(f"opset{version}", "Interpolate", [x, *wanted, a], **held),
        [drawn(1, 2, 4, 6), np.array([2, 3], np.int32)],
        tmp_path,
    )


@pytest.mark.parametrize("kind", ["DFT", "IDFT"])
@pytest.mark.parametrize("axes", [[0], [-1, 0], [1, 2, 0]])
@pytest.mark.parametrize("sizes", [None, [2, -1, 5]])
@pytest.mark.parametrize("known", [True, False])
def test_complex_signals(kind, axes, sizes, known, tmp_path):
    """The last axis holds real and imaginary parts, and is not counted."""
    more = [] if sizes is None else [np.array(sizes[: len(axes)])]
    feeds = [drawn(2, 3, 4, 2), np.array(axes), *([] if known else more)]
    held = [C(value) for value in more] if known else []
    check(
        lambda x, a, *n: made("opset7", kind, [x, a, *n, *held]),
        feeds,
        tmp_path,
        grades=["close"],
    )


def parted(values):
    return np.stack([values.real, values.imag], -1).astype(np.float32)


@pytest.mark.parametrize("axes", [[0], [-1, 0], [1, 2, -3]])
@pytest.mark.parametrize("sizes", [None, 5, -1])
def test_real_signals(axes, sizes, tmp_path):
    """OpenVINO takes no such axes on CPUs."""
    x = drawn(2, 3, 4)
    more = [] if sizes is None else [np.array([-1] * (len(axes) - 1) + [sizes])]
    lengths = [x.shape[axis] for axis in axes[:-1]] + [x.shape[axes[-1]] if sizes in (None, -1) else sizes]
    expected = np.fft.rfftn(x, lengths, axes)
    feeds = [x, np.array(axes), *more]
    check(lambda x, a, *n: made("opset9", "RDFT", [x, a, *n]), feeds, tmp_path, parted(expected), ["close"])


@pytest.mark.parametrize("axes", [[0], [-1, 0], [1, 2, -3]])
@pytest.mark.parametrize("size", [None, 3, 4, -1])
@pytest.mark.parametrize("known", [True, False])
def test_real_signals_of_spectra(axes, size, known, tmp_path):
    x = drawn(3, 3, 4, 2)
    more = [] if size is None else [np.array([-1] * (len(axes) - 1) + [size])]
    length = 2 * (x.shape[axes[-1] - (axes[-1] < 0)] - 1) if size in (None, -1) else size
    whole = x[..., 0] + 1j * x[..., 1]
    expected = np.fft.irfftn(whole, [whole.shape[axis] for axis in axes[:-1]] + [length], axes).astype(np.float32)
    feeds = [x, np.array(axes), *([] if known else more)]
    held = [C(value) for value in more] if known else []
    if size is not None and len(axes) > 1 and not known:
        assert "signal_size for the last axis only" in refusal(
            lambda x, a, *n: made("opset9", "IRDFT", [x, a, *n]), feeds, tmp_path
        )
        return
    check(lambda x, a, *n: made("opset9", "IRDFT", [x, a, *n, *held]), feeds, tmp_path, expected, ["close"])
