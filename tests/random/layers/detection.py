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
