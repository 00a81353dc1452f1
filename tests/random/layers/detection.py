"""Layers that detect things."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.layers.draw import Draw, recipe


@recipe
def detection(d: Draw) -> Any:
    batch, count, classes = d.number(1, 2), d.number(1, 6), d.number(1, 4)
    share, whole, encoded, each = d.chance(), d.chance(0.6), d.chance(), d.chance(0.3)
    low = d.rng.uniform(-0.2, 0.8, (batch if each else 1, count, 2))
    priors = np.concatenate([low, low + d.rng.uniform(0.05, 0.6, low.shape)], 2)
    if not whole:
        image = np.zeros((*low.shape[:2], 1))
        image[:, d.number(0, count) :] = -1
        priors = np.concatenate([image, priors * [5, 7, 5, 7]], 2)
    priors = priors.reshape(len(priors), 1, -1)
    if not encoded:
        priors = np.concatenate([priors, d.rng.uniform(0.05, 0.5, priors.shape)], 1)
    locations = batch, count * 4 * (1 if share else classes)
    inputs = [d.rng.standard_normal(locations) / 3, d.rng.integers(0, 9, (batch, count * classes)) / 8, priors]
    if d.chance(0.3):
        inputs += [d.rng.uniform(0, 1, (batch, count * 2)), d.rng.standard_normal(locations) / 3]
    decreased = d.chance(0.3)
    held = {
        "background_label_id": 0 if decreased else d.number(-1, classes - 1),
        "top_k": d.one((-1, 1, 3, 50)),
        "keep_top_k": [d.one((-1, 1, 3, 50))],
        "nms_threshold": d.one((0.0, 0.3, 0.7)),
        "confidence_threshold": d.one((0.0, 0.3)),
        "code_type": f"caffe.PriorBoxParameter.{d.one(('CORNER', 'CENTER_SIZE'))}",
        "share_location": share,
        "normalized": whole,
        "variance_encoded_in_target": encoded,
        "clip_before_nms": d.chance(0.3),
        "clip_after_nms": d.chance(0.3),
        "decrease_label_id": decreased,
        "input_width": 1 if whole else 5,
        "input_height": 1 if whole else 7,
        "objectness_score": d.one((0.0, 0.4)),
    }
    return d.make(8, "DetectionOutput", [d.parameter(value.astype(np.float32)) for value in inputs], **held)


@recipe
def proposed(d: Draw) -> Any:
    """OpenVINO leaves open which of equal scores comes first, and ends where there are less than 8."""
    batch, height, width = d.number(1, 2), d.number(2, 4), d.number(2, 4)
    ratio, scale = d.one(([1.0, 2.0], [0.5, 0.7])), d.one(([1.0], [1.0, 2.5]))
    count = len(ratio) * len(scale)
    shape = batch, 2 * count, height, width
    scores = d.rng.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32) + 1
    moves = (d.rng.standard_normal((batch, 4 * count, height, width)) * d.one((0.5, 2))).astype(np.float32)
    size = np.float32([30, 22, 1.25, 0.75][: d.number(3, 4)])
    held = {
        "base_size": d.one((4, 8, 15)),
        "pre_nms_topn": d.one((8, 20, 1000)),
        "post_nms_topn": d.one((1, 3, 40)),
        "nms_thresh": d.one((0.0, 0.1, 0.7)),
        "feat_stride": d.one((2, 8)),
        "min_size": 0,
        "ratio": ratio,
        "scale": scale,
        "clip_before_nms": d.chance(),
        "clip_after_nms": d.chance(),
        "normalize": d.chance(),
        "box_size_scale": d.one((1.0, 5.0)),
        "box_coordinate_scale": d.one((1.0, 10.0)),
        "framework": d.one(("", "tensorflow")),
    }
    return d.make(4, "Proposal", [d.parameter(value) for value in (scores, moves, size)], **held)[:1]


def _boxes_of_classes(d: Draw) -> tuple[list[Any], dict[str, Any]]:
    """Boxes and scores, no two of which are equal: which comes first is left open."""
    batch, classes, count = d.number(1, 2), d.number(1, 3), d.number(1, 7)
    low = d.rng.uniform(0, 1, (batch, count, 2))
    boxes = np.concatenate([low, low + d.rng.uniform(0.1, 0.8, low.shape)], 2).astype(np.float32)
    scores = (d.rng.permutation(batch * classes * count) + 1).reshape(batch, classes, count) / (batch * classes * count)
    scores[:, 0, 0] += 1  # where nothing is found, OpenVINO leaves what nobody wrote
    across = d.chance(0.4)
    held = {
        "sort_result_type": d.one(("classid", "score") if across else ("classid", "score", "none")),
        "sort_result_across_batch": across,
        "output_type": d.one(("i32", "i64")),
        "score_threshold": d.one((0.0, 0.3)),
        "nms_top_k": d.one((-1, 1, 3, 50)),
        "keep_top_k": d.one((-1, 1, 4, 50)),
        "background_class": d.number(-1, classes - 1) or -1,
        "normalized": True,
    }
    return [d.parameter(boxes), d.parameter(scores.astype(np.float32))], held


@recipe
def suppressed_by_class(d: Draw) -> Any:
    inputs, held = _boxes_of_classes(d)
    return d.make(8, "MulticlassNms", inputs, **held, iou_threshold=d.one((0.0, 0.2, 0.6)), nms_eta=1.0)


@recipe
def suppressed_by_overlaps(d: Draw) -> Any:
    inputs, held = _boxes_of_classes(d)
    held |= {
        "decay_function": d.one(("gaussian", "linear")),
        "gaussian_sigma": d.one((0.5, 2.0)),
        "post_threshold": d.one((0.0, 0.2)),
        "normalized": d.chance(0.8),
    }
    return d.make(8, "MatrixNms", inputs, **held)


@recipe
def generated_proposals(d: Draw) -> Any:
    """No two scores are equal: which of them comes first is left open."""
    batch, count, height, width = d.number(1, 2), d.number(1, 3), d.number(1, 3), d.number(1, 3)
    low = d.rng.uniform(-5, 20, (height, width, count, 2))
    anchors = np.concatenate([low, low + d.rng.uniform(1, 20, low.shape)], 3)
    moves = d.rng.standard_normal((batch, count * 4, height, width)) * d.one((0.1, 0.5, 3))
    scores = d.rng.permutation(batch * count * height * width).reshape(batch, count, height, width) / 50
    size = np.tile([30.0, 22.0, 1.0, 1.0][: d.number(3, 4)], (batch, 1))
    held = {
        "min_size": d.one((0.0, 1.0, 6.0)),
        "nms_threshold": d.one((0.0, 0.2, 0.7)),
        "pre_nms_count": d.one((1, 5, 100)),
        "post_nms_count": d.one((1, 3, 100)),
        "normalized": d.chance(),
        "nms_eta": 1.0,
        "roi_num_type": d.one(("i32", "i64")),
    }
    return d.make(
        9, "GenerateProposals", [d.parameter(v.astype(np.float32)) for v in (size, anchors, moves, scores)], **held
    )


@recipe
def position_sensitive(d: Draw) -> Any:
    mode, group, made = d.one(("average", "bilinear")), d.number(1, 3), d.number(1, 2)
    bins = [d.number(1, 3), d.number(1, 3)] if mode == "bilinear" else [1, 1]
    channels = made * (bins[0] * bins[1] if mode == "bilinear" else group**2)
    images, count = d.number(1, 2), d.number(1, 4)
    whole = d.one((1.0, 0.5)) if mode == "average" else 1.0
    low = d.rng.uniform(-0.1, 0.7, (count, 2)) * (8 / whole if mode == "average" else 1)
    size = d.rng.uniform(0, 0.6, (count, 2)) * (8 / whole if mode == "average" else 1)
    image = d.rng.integers(0, images, (count, 1))
    if d.chance(0.2):
        image[d.number(0, count) :] = -1
    rois = np.concatenate([image, low, low + size], 1).astype(np.float32)
    held = {"output_dim": made, "spatial_scale": whole, "group_size": group, "mode": mode}
    held |= {"spatial_bins_x": bins[1], "spatial_bins_y": bins[0]} if mode == "bilinear" else {}
    data = d.parameter(d.array([images, channels, d.number(4, 9), d.number(4, 9)]))
    return d.make(1, "PSROIPooling", [data, d.parameter(rois)], **held)


def _image(d: Draw) -> list[Any]:
    """The sides of a grid and of the image that it lies on."""
    return [d.whole(d.numbers(2, 1, 4), 0.5), d.whole(d.numbers(2, 8, 60), 0.5)]


@recipe
def priors(d: Draw) -> Any:
    """Least sizes, or fixed ones, of which OpenVINO counts other boxes than it makes where there are both."""
    inputs = _image(d)
    ordered = d.chance(0.4)
    sizes = [float(size) for size in d.numbers(d.number(1, 3), 4, 30)]
    held: dict[str, Any] = {
        "min_size": [], "max_size": [], "aspect_ratio": [d.one((0.5, 1.0, 2.0, 3.0)) for _ in range(d.number(0, 3))],
        "density": [], "fixed_ratio": [], "fixed_size": [], "clip": d.chance(0.4), "flip": d.chance(),
        "step": d.one((0.0, 0.0, 8.0, 16.5)), "offset": d.one((0.0, 0.5)), "scale_all_sizes": d.chance(0.95),
        "variance": d.one(([], [0.3], [0.1, 0.1, 0.2, 0.2])),
    }  # fmt: skip
    if d.chance(0.7):
        largest = [size + d.number(1, 20) for size in sizes]
        held |= {"min_size": sizes, "max_size": largest[: d.number(0, len(largest))]}
    else:
        density = [d.number(1, 3) for _ in sizes]
        whole = [2.0 * each * d.number(1, 4) + d.one((0, 0, 0, 0, 1)) for each in density]
        held |= {"fixed_size": whole, "density": [float(each) for each in density]}
        held |= {"fixed_ratio": [2.0], "aspect_ratio": []} if d.chance(0.3) else {}
    held |= {"min_max_aspect_ratios_order": d.chance()} if ordered else {}
    return d.make(8 if ordered else 1, "PriorBox", inputs, **held)


@recipe
def clustered_priors(d: Draw) -> Any:
    inputs = _image(d)
    count = d.number(1, 3)
    held = {
        "width": [float(size) for size in d.numbers(count, 1, 30)],
        "height": [float(size) for size in d.numbers(count, 1, 30)],
        "clip": d.chance(0.4),
        "step": d.one((0.0, 0.0, 16.0)),
        "step_w": d.one((0.0, 0.0, 8.0)),
        "step_h": d.one((0.0, 0.0, 8.5)),
        "offset": d.one((0.0, 0.5)),
        "variance": d.one(([], [0.3], [0.1, 0.1, 0.2, 0.2])),
    }
    return d.make(1, "PriorBoxClustered", inputs, **held)


@recipe
def regions(d: Draw) -> Any:
    softmax, coords, classes, count = d.chance(), d.number(2, 4), d.number(1, 4), d.number(1, 3)
    first = d.number(0, 3)
    held = {
        "coords": coords,
        "classes": classes,
        "num": count if softmax else d.number(count, 5),
        "do_softmax": softmax,
        "mask": list(range(count)),
        "axis": first - d.one((0, 4)),
        "end_axis": d.number(first, 3) - d.one((0, 4)),
        "anchors": [1.0] * 2 * count,
    }
    shape = [d.number(1, 2), count * (coords + 1 + classes), *d.numbers(2, 1, 4)]
    return d.make(1, "RegionYolo", [d.parameter(d.array(shape))], **held)


@recipe
def reorganized(d: Draw) -> Any:
    stride = d.number(1, 3)
    shape = [d.number(0, 2), d.number(1, 3) * stride**2, d.number(1, 3) * stride, d.number(1, 3) * stride]
    return d.make(2, "ReorgYolo", [d.parameter(d.array(shape))], stride=[stride])
