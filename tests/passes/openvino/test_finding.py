"""Layers of OpenVINO IR that detectors and readers of text begin or end with, at sizes that are known or not."""

import itertools

import numpy as np
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset13 as op  # noqa: E402
from openvino import opset15  # noqa: E402

from tests.passes.openvino.networks import C, drawn, ints, made  # noqa: E402
from tests.passes.openvino.test_detection import check, refusal  # noqa: E402

PRIOR = {
    "min_size": [9.0, 20.0], "max_size": [30.0], "aspect_ratio": [2.0, 1.0], "density": [], "fixed_ratio": [], "fixed_size": [],
    "clip": False, "flip": True, "step": 0.0, "offset": 0.5, "variance": [0.1, 0.1, 0.2, 0.2], "scale_all_sizes": True,
}  # fmt: skip
SPREAD = {"min_size": [], "max_size": [], "fixed_size": [12.0, 8.0], "density": [3.0, 2.0]}
GRIDS = np.array([2, 3]), np.array([50, 41])
IMAGES = drawn(1, 1, 2, 3), drawn(1, 1, 50, 41)


def sides(x):
    return op.strided_slice(op.shape_of(x), ints(2), ints(4), ints(1), [0], [0])


@pytest.mark.parametrize(
    ("version", "given"),
    [
        ("opset1", {}),
        ("opset1", {"step": 16.5, "offset": 0.0, "clip": True, "variance": []}),
        ("opset8", {"min_max_aspect_ratios_order": False, "flip": False, "variance": [0.3]}),
        ("opset8", {**SPREAD, "min_max_aspect_ratios_order": True}),
        ("opset1", {**SPREAD, "fixed_ratio": [2.0], "aspect_ratio": []}),
    ],
)
def test_boxes_around_each_place(version, given, tmp_path):
    check(lambda x, y: made(version, "PriorBox", [sides(x), sides(y)], **PRIOR | given), IMAGES, tmp_path)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"scale_all_sizes": False}, "scale_all_sizes=false"),
        ({**SPREAD, "min_size": [4.0]}, "beside min_size"),
        ({**SPREAD, "fixed_size": [9.0, 8.0]}, "fixed_size=9, density=3"),
        ({"min_size": [], "max_size": []}, "no box"),
    ],
)
def test_boxes_that_cannot_be_said(given, why, tmp_path):
    assert why in refusal(lambda x, y: made("opset1", "PriorBox", [x, y], **PRIOR | given), GRIDS, tmp_path)


@pytest.mark.parametrize("given", [{}, {"step": 16.0}, {"step_w": 8.0, "step_h": 8.5, "clip": True}, {"step_w": 8.0}])
def test_boxes_of_sides_that_are_told(given, tmp_path):
    held = {"width": [9.0, 20.0], "height": [13.0, 7.0], "clip": False, "step": 0.0, "offset": 0.5, "variance": [0.1]}
    check(lambda x, y: made("opset1", "PriorBoxClustered", [x, y], **held | given), GRIDS, tmp_path)


@pytest.mark.parametrize(("stride", "batch"), [(2, 2), (3, 1), (1, 1), (2, 0)])
def test_an_image_apart(stride, batch, tmp_path):
    x = drawn(batch, 2 * stride**2, 3 * stride, 2 * stride)
    check(lambda x: made("opset2", "ReorgYolo", [x], stride=[stride]), [x], tmp_path, any_size=batch > 0)


def yolo(x, **given):
    held = {"coords": 4, "classes": 3, "num": 2, "mask": [0, 2], "axis": 1, "end_axis": 3, "anchors": [1.0] * 6}
    return made("opset1", "RegionYolo", [x], **held | given)


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({"do_softmax": False}, 2),
        ({"do_softmax": False, "mask": [1], "num": 9, "coords": 2}, 1),
        ({"do_softmax": True}, 2),
        ({"do_softmax": True, "axis": -2, "end_axis": -1, "classes": 1}, 2),
    ],
)
def test_regions(given, count, tmp_path):
    each = given.get("coords", 4) + given.get("classes", 3) + 1
    check(lambda x: yolo(x, **given), [drawn(2, count * each, 3, 2)], tmp_path, any_size=False)


def test_regions_of_other_channels(tmp_path):
    assert "2 regions of 8" in refusal(lambda x: yolo(x, do_softmax=False), [drawn(1, 17, 1, 1)], tmp_path)


BOUNDS = np.float32([-1, 0, 0, 2])


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("shape", [(3, 4), (), (0, 2)])
def test_buckets(right, shape, tmp_path):
    x = np.resize(np.float32([-3, -1, -0.5, 0, 1, 2, 3]), shape)
    check(
        lambda x, y: made("opset3", "Bucketize", [x, y], output_type="i32", with_right_bound=right),
        [x, BOUNDS],
        tmp_path,
    )
    check(lambda x, y: opset15.search_sorted(y, x, not right, "i64"), [x.reshape(-1), BOUNDS], tmp_path)


def test_sequences_of_their_own(tmp_path):
    rows, values = np.sort(drawn(2, 3, 5)), drawn(2, 3, 4)
    check(lambda x, y: opset15.search_sorted(x, y, True, "i32"), [rows, values], tmp_path)


def test_buckets_of_numbers_of_another_type(tmp_path):
    def build(x, y):
        return made("opset3", "Bucketize", [x, y], output_type="i32", with_right_bound=True)

    assert "numbers of two types" in refusal(build, [np.array([1]), BOUNDS], tmp_path)


LABELS = np.array([[0, 0, 2, 1, 1, 2, 1], [1, 2, 2, 2, 2, 0, 0]])


@pytest.mark.parametrize("merge", [True, False])
def test_labels_over_time(merge, tmp_path):
    scores = np.eye(3, dtype=np.float32)[LABELS]
    mask = np.float32([[1, 1, 1, 1, 1, 1, 0], [1, 1, 0, 1, 1, 1, 1]]).T.copy()
    check(lambda x, m: op.ctc_greedy_decoder(x, m, merge), [scores.transpose(1, 0, 2).copy(), mask], tmp_path)


@pytest.mark.parametrize(("output", "blank"), itertools.product((0, 1), ([], [1])))
def test_labels_of_sequences_of_a_length(output, blank, tmp_path):
    scores, lengths = np.eye(3, dtype=np.float32)[LABELS], np.array([7, 3], np.int32)

    def build(x, n):
        index = [ints(*blank, dtype=np.int32)] if blank else []
        held = {"merge_repeated": bool(output), "classes_index_type": "i64", "sequence_length_type": "i32"}
        return made("opset6", "CTCGreedyDecoderSeqLen", [x, n, *index], **held).output(output)

    check(build, [scores, lengths], tmp_path)


@pytest.mark.parametrize(("shape", "window", "turned"), [((2, 19), 6, False), ((19,), 3, True), ((1, 6), 5, True)])
def test_a_spectrum_over_time(shape, window, turned, tmp_path):
    held = np.abs(drawn(window))
    check(
        lambda x, w: opset15.stft(x, w, C(np.array(6)), C(np.array(4)), turned),
        [drawn(*shape), held],
        tmp_path,
        any_size=False,
    )


@pytest.mark.parametrize("shape", [(2, 12, 6), (12, 6)])
def test_columns_become_an_image(shape, tmp_path):
    def build(x):
        return opset15.col2im(x, ints(5, 3), ints(2, 3), [2, 1], [1, 1], [1, 0], [0, 1])

    check(build, [drawn(*shape)], tmp_path)
