"""Layers of OpenVINO IR that detect things, against OpenVINO itself, at sizes that are known or not."""

import itertools

import numpy as np
import onnx
import pytest
from opshift.passes.errors import Refused
from opshift.passes.openvino import reader

from opshift.verification.bounds import compare
from opshift.verification.engines import OnnxRuntime

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino import opset13 as op  # noqa: E402

from tests import pairs  # noqa: E402
from tests.passes.openvino.computing import BOXES  # noqa: E402
from tests.passes.openvino.networks import C, drawn, ints, made, network, of_any_size  # noqa: E402

PRIORS, CLASSES, BATCH = 6, 3, 2


def check(build, feeds, folder, any_size=True):
    path = network(build, feeds, folder)
    expected = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(list(feeds))[0]
    for source in (path, of_any_size(path)) if any_size else (path,):
        model = reader.read(source).model
        onnx.checker.check_model(model, full_check=True)
        names = [value.name for value in model.graph.input]
        (actual,) = OnnxRuntime(model, folder=str(folder)).run(dict(zip(names, feeds, strict=True)))
        assert not compare(expected, actual, "close").why or np.allclose(expected, actual, 1e-4, 1e-5)
    return expected


def refusal(build, feeds, folder):
    with pytest.raises(Refused) as caught:
        reader.read(network(build, feeds, folder))
    return str(caught.value)


def detected(share=True, whole=True, encoded=True, stages=1, each=False, ended=0, **given):
    """What makes the layer, and its inputs: scores are in sixths, so that some are equal."""
    rng = np.random.default_rng([share, whole, encoded, stages])
    low = rng.uniform(-0.2, 0.7, (BATCH if each else 1, PRIORS, 2))
    priors = np.concatenate([low, low + rng.uniform(0.1, 0.6, low.shape)], 2)
    if not whole:
        image = np.zeros((*priors.shape[:2], 1))
        image[:, PRIORS - ended :] = -1
        priors = np.concatenate([image, priors * [5, 7, 5, 7]], 2)
        given |= {"input_width": 5, "input_height": 7}
    priors = priors.reshape(len(priors), 1, -1)
    if not encoded:
        priors = np.concatenate([priors, rng.uniform(0.1, 0.4, priors.shape)], 1)
    locations = (BATCH, PRIORS * 4 * (1 if share else CLASSES))
    feeds = [rng.standard_normal(locations) / 4, rng.integers(0, 7, (BATCH, PRIORS * CLASSES)) / 6, priors]
    if stages == 2:
        feeds += [rng.uniform(0, 1, (BATCH, PRIORS * 2)), rng.standard_normal(locations) / 4]
    held = {
        "background_label_id": 0, "top_k": -1, "keep_top_k": [7], "nms_threshold": 0.3, "confidence_threshold": 0.2,
        "code_type": "caffe.PriorBoxParameter.CENTER_SIZE", "share_location": share, "normalized": whole,
        "variance_encoded_in_target": encoded, **given,
    }  # fmt: skip
    return lambda *inputs: made("opset8", "DetectionOutput", inputs, **held), [f.astype(np.float32) for f in feeds]


DETECTED = {
    "of a class each": {"share": False},
    "variances": {"encoded": False},
    "corners": {"code_type": "caffe.PriorBoxParameter.CORNER", "encoded": False},
    "pixels that end early": {"whole": False, "ended": 2, "encoded": False},
    "priors of each image": {"each": True, "whole": False},
    "two stages": {"stages": 2, "objectness_score": 0.4},
    "two stages of pixels of a class each": {"stages": 2, "whole": False, "share": False, "objectness_score": 0.4},
    "clipped before": {"clip_before_nms": True},
    "clipped after": {"clip_after_nms": True},
    "the best of each class": {"top_k": 2, "keep_top_k": [-1]},
    "one class a prior": {"decrease_label_id": True, "top_k": 3},
    "all": {"keep_top_k": [-1]},
    "few": {"keep_top_k": [2]},
    "another background": {"background_label_id": 2},
    "no background": {"background_label_id": -1, "nms_threshold": 0.0},
    "nothing": {"confidence_threshold": 2.0},
}


@pytest.mark.parametrize("name", pairs.some(list(DETECTED), 2))
def test_what_is_detected(name, tmp_path):
    build, feeds = detected(**DETECTED[name])
    found = check(build, feeds, tmp_path)
    assert (found[0, 0, 0, 0] == -1) == (name == "nothing")


@pytest.mark.parametrize(
    ("given", "why"), [({"nms_threshold": -0.5}, "nms_threshold=-0.5"), ({"keep_top_k": [0]}, "keep_top_k=0")]
)
def test_what_no_network_detects_is_refused(given, why, tmp_path):
    assert why in refusal(*detected(**given), tmp_path)


PROPOSALS = {
    "base_size": 6, "pre_nms_topn": 100, "post_nms_topn": 30, "nms_thresh": 0.5, "feat_stride": 4, "min_size": 0,
    "ratio": [0.5, 2.0], "scale": [1.0, 2.5],
}  # fmt: skip


@pytest.mark.parametrize("framework", ["", "tensorflow"])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"clip_before_nms": False, "normalize": True, "pre_nms_topn": 12},
        {"clip_after_nms": True, "nms_thresh": 0.1, "box_size_scale": 5.0, "box_coordinate_scale": 10.0},
        {"post_nms_topn": 2, "ratio": [0.7]},
    ],
)
def test_proposals(framework, given, tmp_path):
    """OpenVINO leaves open which of equal scores comes first, and ends where there are less than 8."""
    held = {**PROPOSALS, "framework": framework, **given}
    check(lambda *x: made("opset4", "Proposal", x, **held).output(0), proposed(held), tmp_path)


def proposed(held):
    count = len(held["ratio"]) * len(held["scale"])
    scores = np.random.default_rng(0).permutation(2 * 2 * count * 12).reshape(2, 2 * count, 3, 4).astype(np.float32)
    return [scores + 1, drawn(2, 4 * count, 3, 4) / 2, np.float32([14, 18, 1.5])]


@pytest.mark.parametrize("framework", ["", "tensorflow"])
@pytest.mark.parametrize("least", [1, 3, 6])
@pytest.mark.parametrize("clips", [True, False])
def test_proposals_of_a_least_size(framework, least, clips, tmp_path):
    """Those that are smaller have a score of 0, and come in any order."""
    held = {**PROPOSALS, "framework": framework, "min_size": least, "clip_before_nms": clips}
    runs = []
    for output in range(2):
        path = network(lambda *x, k=output: made("opset4", "Proposal", x, **held).output(k), proposed(held), tmp_path)
        expected = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(proposed(held))[0]
        model = reader.read(path).model
        feeds = dict(zip((value.name for value in model.graph.input), proposed(held), strict=True))
        runs.append((expected, *OnnxRuntime(model, folder=str(tmp_path)).run(feeds)))
    (expected, boxes), (chances, scores) = runs
    there = scores > 0
    assert 0 < there.sum() <= (chances > 0).sum()
    np.testing.assert_array_equal(scores[there], chances[there])
    np.testing.assert_allclose(boxes[there], expected[there], 1e-4, 1e-5)


REGIONS = np.float32([[0.3, 0.6, 5.2, 6.1], [1, 1, 3, 3], [-2, 0, 2, 9]])


@pytest.mark.parametrize(
    ("mode", "ratio", "where"),
    [("max", 1, "half_pixel"), ("max", 2, "asymmetric"), ("max", 3, "half_pixel_for_nn"), ("avg", 2, "half_pixel")],
)
def test_the_largest_sample_of_a_region(mode, ratio, where, tmp_path):
    def build(x, regions):
        return op.roi_align(x, regions, ints(0, 1, 0, dtype=np.int32), 2, 3, ratio, 0.5, mode, where)

    check(build, [drawn(2, 3, 7, 8), REGIONS], tmp_path)


def test_as_many_samples_as_a_region_is_large(tmp_path):
    def build(x, regions):
        return op.roi_align(x, regions, ints(0, 1, 0, dtype=np.int32), 2, 3, 0, 1.0, "max", "asymmetric")

    assert "sampling_ratio=1" in refusal(build, [drawn(2, 3, 7, 8), REGIONS], tmp_path)


@pytest.mark.parametrize("method", ["max", "bilinear"])
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("size", [1, 3])
def test_regions_end_with_the_first_of_no_image(method, ends, size, tmp_path):
    regions = np.float32([[1, 0.1, 0.2, 0.8, 1], [0, 0, 0, 1, 1], [1, 0.5, -0.1, 0.5, 0.3], [1, 0.2, 0.2, 0.9, 0.9]])
    regions[2, 0] = -1 if ends else 1
    scale = 6.0 if method == "max" else 1.0
    check(lambda x, r: op.roi_pooling(x, r, [size, size], scale, method), [drawn(2, 3, 6, 5), regions], tmp_path)


@pytest.mark.parametrize("method", ["max", "bilinear"])
@pytest.mark.parametrize("batch", [0, 2])
def test_no_regions(method, batch, tmp_path):
    regions = np.zeros((0, 5), np.float32)
    check(lambda x, r: op.roi_pooling(x, r, [1, 2], 1.0, method), [drawn(batch, 3, 6, 5), regions], tmp_path)


def test_constant_regions_need_no_guard(tmp_path):
    regions = C(np.float32([[1, 0, 0, 5, 4]]))
    path = network(lambda x: op.roi_pooling(x, regions, [2, 2], 1.0, "max"), [drawn(2, 3, 6, 5)], tmp_path)
    assert [node.op_type for node in reader.read(path).model.graph.node] == ["MaxRoiPool"]


@pytest.mark.parametrize(("version", "limit"), list(itertools.product(("opset5", "opset9"), (0.4, 1.5))))
def test_boxes_of_older_versions_and_limits_that_nothing_reaches(version, limit, tmp_path):
    def build(boxes, scores):
        rest = [C(np.array(4)), C(np.float32(limit)), C(np.float32(0.1))]
        return made(version, "NonMaxSuppression", [boxes, scores, *rest]).output(0)

    check(build, [BOXES, np.abs(drawn(1, 2, 6))], tmp_path, any_size=False)


APART = np.float32([[[k, k, k + 0.9, k + 0.9] for k in range(6)]] * 2)  # no two of these boxes overlap


@pytest.mark.parametrize(
    ("version", "falling"), [("opset1", True), ("opset3", False), ("opset4", True), ("opset9", False)]
)
def test_no_more_boxes_than_are_selected(version, falling, tmp_path):
    def build(boxes, scores):
        rest = [C(np.array(4)), C(np.float32(0.5)), C(np.float32(0.7))]
        found = made(version, "NonMaxSuppression", [boxes, scores, *rest], sort_result_descending=falling).output(0)
        column = op.strided_slice(op.concat([found, found], 0), ints(0, 2), ints(0, 3), ints(1, 1), [1, 0], [1, 0])
        return op.softmax(op.convert(op.reshape(column, ints(-1), False), "f32"), 0)

    scores = np.random.default_rng(0).permutation(24).reshape(2, 2, 6).astype(np.float32) / 24
    assert check(build, [APART, scores], tmp_path).size < 2 * 2 * 2 * 4


@pytest.mark.parametrize("inside", [False, True])
def test_sizes_that_older_versions_state_hold_in_no_body(inside, tmp_path):
    def selected(boxes, scores):
        rest = [C(np.array(6)), C(np.float32(0.5)), C(np.float32(0.5))]
        return made("opset4", "NonMaxSuppression", [boxes, scores, *rest]).output(0)

    def branch(take, values):
        given = [op.parameter(list(value.shape), value.get_element_type()) for value in values]
        result = op.result(op.negative(selected(*given) if inside else given[0]))
        take(openvino.Model([result], given, "branch"))
        return given, result

    def build(boxes, scores):
        values = [boxes, scores] if inside else [selected(boxes, scores)]
        either = op.if_op(op.greater(op.reduce_max(scores, ints(0, 1, 2), False), C(np.float32(0))).output(0))
        one, other = branch(either.set_then_body, values), branch(either.set_else_body, values)
        for value, *given in zip(values, one[0], other[0], strict=True):
            either.set_input(value.output(0) if value in (boxes, scores) else value, *given)
        return op.reshape(either.set_output(one[1], other[1]), ints(-1), False)

    scores = np.random.default_rng(0).permutation(24).reshape(2, 2, 6).astype(np.float32) / 24
    assert check(build, [APART, scores], tmp_path).size < 3 * 24


def test_without_a_threshold_scores_are_above_0(tmp_path):
    scores = np.float32([[[0.5, 0, -1, 0.2, 0.1, -0.0]]] * 2)
    found = check(
        lambda b, s: made("opset9", "NonMaxSuppression", [b, s, C(np.array(6)), C(np.float32(0.5))]).output(0),
        [APART, scores], tmp_path,
    )  # fmt: skip
    assert len(found) == 6


@pytest.mark.parametrize("limit", [0.4, 1.5])
def test_a_limit_of_the_run_time_that_nothing_reaches(limit, tmp_path):
    def build(boxes, scores, limit):
        return made("opset9", "NonMaxSuppression", [boxes, scores, C(np.array(4)), limit, C(np.float32(0.1))]).output(0)

    check(build, [BOXES, np.abs(drawn(1, 2, 6)), np.array(limit, np.float32)], tmp_path, any_size=False)


@pytest.mark.parametrize(("axes", "size"), [((0,), None), ((1, 0), None), ((0,), 7), ((0,), 4), ((-1,), 3), ((0,), 1)])
def test_half_a_spectrum(axes, size, tmp_path):
    sizes = [ints(size)] if size else []
    check(lambda x: made("opset9", "IRDFT", [x, ints(*axes), *sizes]), [drawn(4, 3, 2)], tmp_path, any_size=False)


@pytest.mark.parametrize(
    ("axes", "sizes", "why"),
    [((1, 0), (5, 4), "for axis 1"), ((0,), (9,), "the last axis has 4 elements, 5 are needed")],
)
def test_half_a_spectrum_that_is_not_there(axes, sizes, why, tmp_path):
    feeds = [drawn(4, 3, 2)]
    assert why in refusal(lambda x: made("opset9", "IRDFT", [x, ints(*axes), ints(*sizes)]), feeds, tmp_path)
