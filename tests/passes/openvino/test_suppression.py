"""Boxes of classes that overlap, against OpenVINO; equal scores may come in another order."""

import numpy as np
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from tests.passes.openvino.networks import made  # noqa: E402
from tests.passes.openvino.test_detection import check, refusal  # noqa: E402

RNG = np.random.default_rng(7)
LOW = RNG.uniform(0, 1, (2, 6, 2))
BOXES = np.concatenate([LOW, LOW + RNG.uniform(0.3, 0.9, LOW.shape)], 2).astype(np.float32)
SCORES = ((RNG.permutation(36) + 1).reshape(2, 3, 6) / 40).astype(np.float32)
FEEDS = [BOXES, SCORES]
COMMON = {
    "sort_result_type": "score", "sort_result_across_batch": False, "output_type": "i64", "score_threshold": 0.2,
    "nms_top_k": -1, "keep_top_k": -1, "background_class": -1, "normalized": True,
}  # fmt: skip


def multiclass(output=0, **given):
    held = {**COMMON, "iou_threshold": 0.25, "nms_eta": 1.0, **given}
    return lambda *inputs: made("opset8", "MulticlassNms", inputs, **held).output(output)


def matrix(output=0, **given):
    held = {**COMMON, "decay_function": "linear", "gaussian_sigma": 2.0, "post_threshold": 0.1, **given}
    return lambda *inputs: made("opset8", "MatrixNms", inputs, **held).output(output)


GIVEN = [
    {}, {"background_class": 1, "keep_top_k": 4}, {"nms_top_k": 2, "sort_result_type": "classid"},
    {"sort_result_across_batch": True}, {"sort_result_across_batch": True, "sort_result_type": "classid"},
    {"sort_result_type": "none", "score_threshold": 0.5, "output_type": "i32"},
]  # fmt: skip


@pytest.mark.parametrize("given", GIVEN, ids=str)
@pytest.mark.parametrize("layer", [multiclass, matrix])
def test_rows_of_what_is_left(layer, given, tmp_path):
    assert 0 < len(check(layer(**given), FEEDS, tmp_path, any_size=not given)) < 36


@pytest.mark.parametrize("output", [1, 2])
@pytest.mark.parametrize("layer", [multiclass, matrix])
def test_places_and_counts(layer, output, tmp_path):
    check(layer(output), FEEDS, tmp_path, any_size=False)


def test_overlaps_of_just_the_limit_and_scores_of_just_the_threshold(tmp_path):
    boxes = np.float32([[[0, 0, 2, 1], [1, 0, 3, 1], [0, 4, 1, 5], [0, 4, 1, 6]]])
    scores = np.float32([[[0.75, 0.5, 0.25, 0.125]]])
    for layer, given in [
        (multiclass, {"iou_threshold": 1 / 3}), (multiclass, {"iou_threshold": 0.0}), (matrix, {}),
        (multiclass, {"iou_threshold": 0.5, "score_threshold": 0.25}), (matrix, {"score_threshold": 0.25}),
    ]:  # fmt: skip
        check(layer(**given), [boxes, scores], tmp_path, any_size=False)


@pytest.mark.parametrize("given", [{"decay_function": "gaussian"}, {"normalized": False}])
def test_how_much_an_overlap_takes(given, tmp_path):
    check(matrix(**given), FEEDS, tmp_path, any_size=False)


def test_what_is_refused(tmp_path):
    assert "nms_eta=0.5; supported: 1" in refusal(multiclass(nms_eta=0.5), FEEDS, tmp_path)
    assert "normalized=false; supported: true" in refusal(multiclass(normalized=False), FEEDS, tmp_path)
    across = {"sort_result_across_batch": True, "sort_result_type": "none"}
    assert "sort_result_across_batch without sorting" in refusal(matrix(**across), FEEDS, tmp_path)
