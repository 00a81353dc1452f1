"""Judges models that draw numbers at random: by the type, shape, values and means of many draws of both forms."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from opshift.verification.engines import EngineError
from tests import quirks
from tests.conformance.cases import Case, Key
from tests.conformance.engines import Judge
from tests.runtime import every_node

DRAWING = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
COUNT = 1000
SIGMAS = 5.0  # by which two means of equal distributions differ once in two million times
FEW = 16  # so many different values or fewer are a set; more are a range


def is_random(model: ModelProto) -> bool:
    """Whether some node draws. Dropout does not count: its published outputs are those of a fixed seed or of ratio 0."""
    bodies = [model.graph.node, *(function.node for function in model.functions)]
    return any(node.op_type in DRAWING for body in bodies for node in every_node(body))


def difference(engine: Judge, case: Case, converted: ModelProto) -> str:
    """What differs between the draws of a case and of its converted form; raises `EngineError` if one does not run.

    Types and shapes must be equal, an output of few values must have the same ones, and no element's mean may differ
    by more than chance.
    """
    if why := quirks.excuse(engine.engine, case.model, case.inputs):
        raise EngineError(why)
    drawn = _source_draws(Key(case), engine)
    for index, (one, other) in enumerate(zip(drawn, _draws(engine, converted, case), strict=True)):
        if one.dtype != other.dtype or one.shape != other.shape:
            return f"output {index}: {other.dtype}{list(other.shape[1:])} instead of {one.dtype}{list(one.shape[1:])}"
        values, others = np.unique(one), np.unique(other)
        if len(values) <= FEW and not np.array_equal(values, others):
            return f"output {index}: values {others[:FEW]} instead of {values}"
        a, b = one.astype(np.float64), other.astype(np.float64)
        spread = np.concatenate([a, b]).std(axis=0) * np.sqrt(2 / COUNT)
        apart = np.abs(a.mean(axis=0) - b.mean(axis=0))
        if (apart > SIGMAS * spread).any():
            return f"output {index}: a mean is {(apart / spread).max():.1f} standard errors away"
    return ""


@lru_cache(maxsize=8)
def _source_draws(key: Key, engine: Judge) -> list[NDArray[Any]]:
    return _draws(engine, key.case.model, key.case)


def _draws(engine: Judge, model: ModelProto, case: Case) -> list[NDArray[Any]]:
    """COUNT runs of a model, by output; a seed would make every run the same."""
    free = ModelProto()
    free.CopyFrom(model)
    for body in (free.graph.node, *(function.node for function in free.functions)):
        for node in every_node(body):
            kept = [a for a in node.attribute if a.name != "seed" or node.op_type not in DRAWING]
            del node.attribute[:]
            node.attribute.extend(kept)
    session = engine(free)
    runs = [session.run(case.inputs) for _ in range(COUNT)]
    found = [np.stack(values) for values in zip(*runs, strict=True)]
    if any(values.size for values in found) and not any((values != values[0]).any() for values in found):
        raise EngineError("every run draws the same")
    return found
