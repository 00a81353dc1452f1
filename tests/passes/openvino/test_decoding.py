"""Labels over time, against OpenVINO."""

import itertools

import numpy as np
import pytest

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset13 as op  # noqa: E402

from tests.passes.openvino.networks import ints, made  # noqa: E402
from tests.passes.openvino.test_detection import check  # noqa: E402

LABELS = np.array([[0, 0, 2, 1, 1, 2, 1], [1, 2, 2, 2, 2, 0, 0]])


@pytest.mark.parametrize("merge", [True, False])
def test_labels_over_time(merge, tmp_path):
    scores = np.eye(3, dtype=np.float32)[LABELS]
    mask = np.float32([[1, 1, 1, 1, 1, 1, 0], [1, 1, 0, 1, 1, 1, 1]]).T.copy()
    check(lambda x, m: op.ctc_greedy_decoder(x, m, merge), [scores.transpose(1, 0, 2).copy(), mask], tmp_path)


@pytest.mark.parametrize(("output", "blank"), list(itertools.product((0, 1), ([], [1]))))
def test_labels_of_sequences_of_a_length(output, blank, tmp_path):
    scores, lengths = np.eye(3, dtype=np.float32)[LABELS], np.array([7, 3], np.int32)

    def build(x, n):
        index = [ints(*blank, dtype=np.int32)] if blank else []
        held = {"merge_repeated": bool(output), "classes_index_type": "i64", "sequence_length_type": "i32"}
        return made("opset6", "CTCGreedyDecoderSeqLen", [x, n, *index], **held).output(output)

    check(build, [scores, lengths], tmp_path)


@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_beams_are_followed_backwards(kind, tmp_path):
    """A step behind the length of a sequence is an end, and so is one behind an end."""
    steps = np.array([[[1, 2], [3, 4]], [[5, 9], [6, 7]], [[8, 1], [2, 3]], [[4, 4], [9, 5]]], kind)
    parents = np.array([[[0, 0], [0, 0]], [[1, 0], [1, 1]], [[1, 0], [0, 1]], [[0, 1], [1, 0]]], kind)
    last, end = np.array([3, 6], kind), np.array(9, kind)
    check(lambda *values: made("opset1", "GatherTree", values).output(0), [steps, parents, last, end], tmp_path)
