"""Labels of classifiers of ai.onnx.ml that differ where two scores tie within rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opshift.passes.model.messages import ModelProto, default_domain
from opshift.passes.records import replace
from opshift.verification.judgement import Judgement

CLASSIFIERS = ("LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier")
PASSED_ON = ("Cast", "Identity", "Reshape")
ROUNDINGS = 64
"""Roundings of float32 that the sums of votes may be apart, as those of two exact forms."""


def tied(source: ModelProto, rows: Sequence[tuple[str, Any, Any]], found: Sequence[Judgement]) -> tuple[Judgement, ...]:
    """What was found of each output, where labels that differ by rounding alone count as ties.

    The two largest scores have to be within rounding in each row whose labels differ, and all scores the same in both
    forms.
    """
    values = {name: (a, b) for name, a, b in rows}
    wrong = {judged.output for judged in found if judged.why}
    siblings = _scores(source) if wrong else {}
    return tuple(
        _excused(judged, *values[judged.output], values[siblings[judged.output]][0])
        if judged.why and siblings.get(judged.output) in values and siblings[judged.output] not in wrong
        else judged
        for judged in found
    )


def _scores(source: ModelProto) -> dict[str, str]:
    """By the name of an output that holds labels, the name of the one that holds their scores."""
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


def _excused(judged: Judgement, a: Any, b: Any, scores: Any) -> Judgement:
    if getattr(a, "shape", None) != getattr(b, "shape", ()) or getattr(scores, "ndim", 0) != 2 or scores.shape[1] < 2:
        return judged
    if len(a.reshape(-1)) != len(scores):
        return judged
    differing = a.reshape(-1) != b.reshape(-1)
    ordered = np.sort(scores[differing].astype(np.float64), axis=1)
    near = ordered[:, -1] - ordered[:, -2] <= ROUNDINGS * 2.0**-24 * np.abs(ordered).max(axis=1, initial=0.0)
    return replace(judged, why="", ties=int(differing.sum())) if near.all() else judged
