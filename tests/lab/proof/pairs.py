"""Small pairs of models in ONNX text: those that differ at one place, and those that compute the same.

`cases()` yields them all. Each pair that differs comes with inputs on which it does, and each that does not with
inputs to try: `check` runs both models on these, so that no pair is called what it is not.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto

from tests.lab.proof.agreeing import AGREEING
from tests.lab.proof.differing import DIFFERING
from tests.lab.proof.pair import Pair
from tests.lab.proof.running import Row, verify

Array = Any


@dataclass(frozen=True)
class Case:
    """A pair, and the answer that is right."""

    pair: Pair
    expected: str


def cases() -> Iterator[Case]:
    yield from (Case(pair, "different") for pair in DIFFERING)
    yield from (Case(pair, "equal") for pair in AGREEING)


def check(case: Case) -> None:
    """Both models are valid, run in onnxruntime, and differ, or do not, on the inputs of the pair."""
    before, after = case.pair.models()
    for model in (before, after):
        onnx.checker.check_model(model, full_check=True)
    expected, actual = (outputs(model, case.pair.witness) for model in (before, after))
    apart = max(distance(a, b) for a, b in zip(expected, actual, strict=True))
    if case.expected == "different":
        assert apart > case.pair.allowed, f"{case.pair.name}: both compute {expected}"
    else:
        assert apart <= case.pair.allowed, f"{case.pair.name}: {apart} apart, {expected} and {actual}"


def outputs(model: ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """By onnxruntime as it is without graph optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {name: np.asarray(value) for name, value in feeds.items()})


def distance(a: Array, b: Array) -> float:
    """The largest difference as a part of the largest element; infinite where shapes, signs of zero or NaN differ."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if a.dtype.kind != "f":
        return 0.0 if np.array_equal(a, b) else float("inf")
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    return float(np.abs(a - b)[finite].max() / max(np.abs(a[finite]).max(), 1e-300))


def small(options: argparse.Namespace) -> Iterator[Callable[[], Row]]:
    yield from _to_judge("different", options)


def same(options: argparse.Namespace) -> Iterator[Callable[[], Row]]:
    yield from _to_judge("equal", options)


def _to_judge(expected: str, options: argparse.Namespace) -> Iterator[Callable[[], Row]]:
    for case in cases():
        if case.expected == expected and options.only in case.pair.name:
            check(case)
            yield lambda case=case: _judge(case, options)


def _judge(case: Case, options: argparse.Namespace) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "before.onnx", Path(folder) / "after.onnx"]
        for path, model in zip(paths, case.pair.models(), strict=True):
            onnx.save(model, path)
        answer = verify(*paths, options=() if options.plain else ("--close",), limit=options.limit)
    corpus = "small" if case.expected == "different" else "same"
    return Row(corpus, case.pair.name, answer, answer.status == (case.pair.answer or case.expected), case.pair.why)
