"""Allow labels of classifiers to differ where two scores tie within rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.passes.model.messages import ModelProto, default_domain
from opshift.verification.bounds import UNITS

CLASSIFIERS = ("LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier")
PASSED_ON = ("Cast", "Identity", "Reshape")


def find_scores(source: ModelProto) -> dict[str, str]:
    """Find the scores output of each classifier, by the name of its labels output. Runs before outputs are compared."""
    makers = {name: node for node in source.graph.node for name in node.output if name}
    ends: dict[tuple[int, int], str] = {}
    for value in source.graph.output:
        name = value.name
        while name in makers and makers[name].op_type in PASSED_ON and not makers[name].domain:
            name = makers[name].input[0]
        maker = makers.get(name)
        if maker is not None and maker.op_type in CLASSIFIERS and default_domain(maker.domain) == "ai.onnx.ml":
            ends[id(maker), list(maker.output).index(name)] = value.name
    return {label: ends[maker, 1] for (maker, place), label in ends.items() if not place and (maker, 1) in ends}


def count_ties(before: Any, after: Any, scores: Any) -> int:
    """Count labels that differ, if the two largest scores tie in each such row; else 0. Asked if labels differ."""
    shape = getattr(before, "shape", None)
    if shape is None or shape != getattr(after, "shape", None) or getattr(scores, "ndim", 0) != 2:
        return 0
    if scores.shape[1] < 2 or before.size != len(scores):
        return 0
    differing = before.reshape(-1) != after.reshape(-1)
    ordered = np.sort(scores[differing].astype(np.float64), axis=1)
    # as far as sums of votes in two orders may be apart
    near = ordered[:, -1] - ordered[:, -2] <= UNITS["exact"] * 2.0**-24 * np.abs(ordered).max(axis=1, initial=0.0)
    return int(differing.sum()) if near.all() else 0
