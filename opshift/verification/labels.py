"""Allow labels of classifiers to differ where two scores tie within rounding, or onnxruntime's is not the best."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import ModelProto, NodeProto, normalize_domain
from opshift.verification.bounds import UNITS
from opshift.verification.trees import count_trees

CLASSIFIERS = ("LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier")
LABELS = ("classlabels_int64s", "classlabels_ints", "classlabels_strings")
PASSED_ON = ("Cast", "Identity", "Reshape")


class Scored(NamedTuple):
    """The name of the output with the scores of a classifier, the labels of its columns, and the roundings of a sum."""

    scores: str
    labels: tuple[Any, ...]
    roundings: int = UNITS["exact"]


class Explained(NamedTuple):
    """How many labels differ since two scores tie, and since the first model's is not that of the largest score."""

    ties: int = 0
    corrected: int = 0


def find_scores(source: ModelProto) -> dict[str, Scored]:
    """Find the scores output of each classifier, by the name of its labels output. Runs before outputs are compared."""
    makers = {name: node for node in source.graph.node for name in node.output if name}
    ends: dict[tuple[int, int], str] = {}
    classifiers: dict[int, NodeProto] = {}
    for value in source.graph.output:
        name = value.name
        while name in makers and makers[name].op_type in PASSED_ON and not makers[name].domain:
            name = makers[name].input[0]
        maker = makers.get(name)
        if maker is not None and maker.op_type in CLASSIFIERS and normalize_domain(maker.domain) == "ai.onnx.ml":
            ends[id(maker), list(maker.output).index(name)] = value.name
            classifiers[id(maker)] = maker
    return {
        label: Scored(ends[maker, 1], _labels(held), max(UNITS["exact"], count_trees(held)))
        for (maker, place), label in ends.items()
        for held in [classifiers[maker]]
        if not place and (maker, 1) in ends
    }


def _labels(classifier: NodeProto) -> tuple[Any, ...]:
    held = [attribute_value(attribute) for attribute in classifier.attribute if attribute.name in LABELS]
    return tuple(label for labels in held for label in labels)


def explain_labels(before: Any, after: Any, scores: Any, of: Scored) -> Explained | None:
    """Count labels that may differ; None if one is neither tied nor corrected. Asked if labels differ.

    A label is corrected if the first model's is none of its labels, or not that of the largest of its own scores, and
    the second model's is.
    """
    shape = getattr(before, "shape", None)
    if shape is None or shape != getattr(after, "shape", None) or getattr(scores, "ndim", 0) != 2:
        return None
    if not scores.shape[1] or before.size != len(scores):
        return None
    before, after = before.reshape(-1), after.reshape(-1)
    differing = before != after
    held = scores[differing].astype(np.float64)
    # as far as sums of votes in two orders may be apart
    near = of.roundings * 2.0**-24 * np.abs(held).max(axis=1, initial=0.0)
    largest = held.max(axis=1, initial=-np.inf)
    ordered = np.sort(held, axis=1)
    ties = ordered[:, -1] - ordered[:, -2] <= near if held.shape[1] > 1 else np.zeros(len(held), bool)
    corrected = np.zeros(len(held), bool)
    if len(of.labels) == held.shape[1]:
        one, other = (_scores_of(values[differing], held, of.labels) for values in (before, after))
        corrected = ~(one >= largest - near) & (other >= largest)
    if not (ties | corrected).all():
        return None
    return Explained(int(ties.sum()), int((corrected & ~ties).sum()))


def _scores_of(chosen: Any, scores: Any, labels: tuple[Any, ...]) -> Any:
    """The scores of the chosen labels, NaN where it is none of the labels."""
    places = {label: place for place, label in enumerate(labels)}
    columns = [places.get(label.decode() if isinstance(label, bytes) else label, -1) for label in chosen.tolist()]
    return np.array([row[column] if column >= 0 else np.nan for row, column in zip(scores, columns, strict=True)])
