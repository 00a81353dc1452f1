"""`python -m benchmarks checks [--nodes N ...] [--runs N] [--models FOLDER]`: what it costs to check a source first.

In this process: the seconds of conversions that check their source, and of ones that take it as it is, in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import process_time
from unittest.mock import patch

import onnx
from opshift.passes import goals
from opshift.passes.conversion import convert
from opshift.passes.goals import Goal
from opshift.passes.model.call_signatures import Survey
from opshift.passes.model.imports import check_imports

from benchmarks import models
from benchmarks.scaling import SHAPES

HEAD = """## What the check of a source costs

| model | nodes | ms | ms unchecked | ratio |
|---|---|---|---|---|"""

_CASES = [
    *((title, make, goals.conversion(18), 1_000_000) for title, make in SHAPES.items()),
    ("a function for each call", models.functions, goals.conversion(23), 10_000),
    ("a function for each call, inlined", models.functions, goals.inlining((), models.FUNCTIONS), 10_000),
]


def measure(nodes: Sequence[int], runs: int, folder: Path | None = None) -> Iterator[str]:
    """Rows of the table in Markdown; the best of the runs, behind one that does not count."""
    for title, make, goal, most in _CASES:
        for count in (count for count in nodes if count <= most):
            yield _row(title, make(count), goal, runs)
    for path in sorted(folder.glob("*.onnx")) if folder else ():
        yield _row(path.stem, onnx.load(path), goals.conversion(23), runs)


def _row(title: str, model: onnx.ModelProto, goal: Goal, runs: int) -> str:
    source = onnx.ModelProto.FromString(model.SerializeToString())
    checked, unchecked = list[float](), list[float]()
    for _ in range(runs + 1):
        checked.append(_seconds(source, goal))
        with patch.object(convert, "check_model", _unchecked):
            unchecked.append(_seconds(source, goal))
    ours, bare = min(checked[1:]), min(unchecked[1:])
    return f"| {title} | {len(source.graph.node):,} | {ours * 1e3:.1f} | {bare * 1e3:.1f} | {ours / bare:.2f} |"


def _unchecked(source: onnx.ModelProto) -> Survey:
    check_imports(source)
    return Survey(source)


def _seconds(source: onnx.ModelProto, goal: Goal) -> float:
    started = process_time()
    goal.run(source, None)
    return process_time() - started
