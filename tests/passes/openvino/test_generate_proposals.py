"""GenerateProposals, against OpenVINO; equal scores may come in another order."""

import numpy as np
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from tests.passes.openvino.networks import made  # noqa: E402
from tests.passes.openvino.test_detection import check, refusal  # noqa: E402

RNG = np.random.default_rng(11)
LOW = RNG.uniform(-5, 20, (3, 2, 2, 2))
FEEDS = [
    np.float32([[30, 22, 1], [18, 26, 1]]),
    np.concatenate([LOW, LOW + RNG.uniform(2, 20, LOW.shape)], 3).astype(np.float32),
    (RNG.standard_normal((2, 8, 3, 2)) * 0.6).astype(np.float32),
    (RNG.permutation(24).reshape(2, 2, 3, 2) / 24).astype(np.float32),
]


def proposals(output=0, **given):
    held = {
        "min_size": 1.0,
        "nms_threshold": 0.3,
        "pre_nms_count": 10,
        "post_nms_count": 6,
        "normalized": True,
        "nms_eta": 1.0,
    }
    return lambda *inputs: made("opset9", "GenerateProposals", inputs, **held | given).output(output)


@pytest.mark.parametrize("given", [{}, {"normalized": False}, {"min_size": 7.0}, {"post_nms_count": 2}], ids=str)
def test_boxes_of_the_best_scores(given, tmp_path):
    assert len(check(proposals(**given), FEEDS, tmp_path, any_size=not given))


def test_scores_and_counts(tmp_path):
    check(proposals(1), FEEDS, tmp_path, any_size=False)
    check(proposals(2, roi_num_type="i32"), FEEDS, tmp_path, any_size=False)


def test_boxes_less_than_a_pixel_apart_do_not_overlap(tmp_path):
    anchors = np.float32([[[[0, 0, 3, 3], [3.5, 0, 9, 3]]]])
    feeds = [np.float32([[30, 22, 1]]), anchors, np.zeros((1, 8, 1, 1), np.float32), np.float32([[[[0.5]], [[0.25]]]])]
    assert len(check(proposals(normalized=False, nms_threshold=0.0), feeds, tmp_path, any_size=False)) == 2


def test_what_grows_without_end_stays_small(tmp_path):
    check(proposals(), [*FEEDS[:2], 9 * FEEDS[2], FEEDS[3]], tmp_path, any_size=False)


def test_a_limit_below_0_is_refused(tmp_path):
    assert "nms_threshold=-1.0; supported: from 0 to 1" in refusal(proposals(nms_threshold=-1.0), FEEDS, tmp_path)
