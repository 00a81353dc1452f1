"""How long models take in onnxruntime, beside each other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnxruntime as ort
from onnx import ModelProto
from opshift.passes.model.traversal import bodies

OFF, ON = ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL


def count(of: ModelProto) -> int:
    """All nodes, of subgraphs too; constants are not counted, as initializers are not."""
    return sum(node.op_type != "Constant" for body in bodies(of) for node in body.node)


def session(model: ModelProto, level: ort.GraphOptimizationLevel) -> ort.InferenceSession:
    """On one thread of the CPU."""
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def latencies(
    models: Sequence[ModelProto], given: Mapping[str, np.ndarray], level: ort.GraphOptimizationLevel, runs: int
) -> Iterator[float]:
    """The median seconds of each model in the best of three sessions; every round runs each model once.

    How a session happens to lie in memory can slow it down several times.
    """
    found: list[list[float]] = [[] for _ in models]
    for _ in range(3):
        sessions = [session(model, level) for model in models]
        rounds: list[list[float]] = [[] for _ in models]
        for number in range(runs + 3):
            for held, kept in zip(sessions, rounds, strict=True):
                started = time.perf_counter()
                held.run(None, given)
                if number >= 3:
                    kept.append(time.perf_counter() - started)
        for best, kept in zip(found, rounds, strict=True):
            best.append(statistics.median(kept))
    yield from map(min, found)
