"""`python -m benchmarks vendors [--backend NAME ...]`: what onnxruntime saved, in other runtimes, before and after.

Of each architecture in `tests/exported` one export, saved by onnxruntime after its own optimization, where it holds
operators of vendors then; and what `opshift inline --portable` makes of it. Judged by onnxruntime's run of the former.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import onnx
import onnxruntime
from onnx import ModelProto
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from opshift.passes.model import schemas
from opshift.passes.model.traversal import with_nested

import opshift
from benchmarks.backend_tables import releases, table
from opshift.probing import installed, samples
from opshift.probing.worker import Verdict, Worker
from opshift.verification.engines import EngineError, OnnxRuntime
from tests.exported import store

KINDS = {
    "speech": "whisper",
    "vision": "vit|cnn|resnet|mobilenet|bottleneck|image_norms|group_norm|instance_norm",
    "transformers": "bert|gpt2|llama|qwen|t5|encoder|decoder|attention",
    "others": "",
}
LEVELS = ("extended", "all")
BACKENDS = ("openvino", "opencv", "tract")

Progress = Callable[[str, int, int], None] | None


@dataclass(frozen=True)
class Saved:
    """A model as onnxruntime saved it, and what became of it; None where that was refused."""

    kind: str
    level: str
    case: samples.Sample
    portable: ModelProto | None


@dataclass
class Row:
    """One runtime on the models of one kind, saved at one level."""

    backend: str
    kind: str
    level: str
    total: int = 0
    refused: int = 0
    ran: int = 0
    agreed: int = 0
    runs: int = 0
    agrees: int = 0
    lost: tuple[str, ...] = ()

    @property
    def cells(self) -> tuple[object, ...]:
        return self.level, self.total, self.ran, self.agreed, self.refused, self.runs, self.agrees


def saved(progress: Progress) -> Iterator[Saved]:
    """Those of the corpus that hold operators of vendors."""
    families: dict[str, list[store.Export]] = {}
    for framework in store.frameworks():
        for export in store.read(framework):
            families.setdefault(f"{framework}/{export.family}", []).append(export)
    for place, (name, exports) in enumerate(families.items()):
        if progress is not None:
            progress(f"onnxruntime, {name}", place, len(families))
        export = random.Random(name).choice(exports)
        kind = next(kind for kind, names in KINDS.items() if re.match(names, export.family))
        for level in LEVELS:
            try:
                found = _optimized(export.model, level)
                expected = OnnxRuntime(found).run(export.feeds) if _vendors(found) else []
            except (EngineError, InvalidArgument):  # it does not save all that it runs, nor read all that it saved
                continue
            if not expected:
                continue
            case = samples.Sample(export.name, ("", ""), found, export.feeds, expected, 1e-3, 1e-5)
            try:
                portable = opshift.inline(found, portable=True)
            except opshift.Refused:
                portable = None
            yield Saved(kind, level, case, portable)


def _optimized(model: ModelProto, level: str) -> ModelProto:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level.upper()}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved.onnx"
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(path)


def _vendors(model: ModelProto) -> bool:
    return any(node.domain in schemas.VENDORS for graph in with_nested([model.graph]) for node in graph.node)


def measure(backend: str, held: list[Saved], progress: Progress) -> list[Row]:
    """All kinds at all levels in one runtime."""
    rows = {(kind, level): Row(backend, kind, level) for kind in KINDS for level in LEVELS}
    worker = installed.find(backend).open(20.0)
    try:
        for place, one in enumerate(held):
            if progress is not None:
                progress(f"{backend}, {one.case.name}", place, len(held))
            _count(rows[one.kind, one.level], one, worker)
    finally:
        worker.stop()
    return [row for row in rows.values() if row.total]


def _count(row: Row, one: Saved, worker: Worker) -> None:
    before = after = worker.run(one.case.task())
    if one.portable is not None:
        after = worker.run(replace(one.case, model=one.portable).task())
    row.total += 1
    row.refused += one.portable is None
    row.ran += _runs(before)
    row.agreed += before.agrees
    row.runs += _runs(after)
    row.agrees += after.agrees
    if before.agrees and not after.agrees:
        row.lost = (*row.lost, one.case.name)


def _runs(verdict: Verdict) -> bool:
    return verdict.status in ("agrees", "differs")


def as_markdown(rows: list[Row]) -> str:
    """The rows as the second part of docs/backends.md holds them."""
    lines = [
        "## What onnxruntime saved",
        "",
        "Of each architecture in the corpus of exports one, if it holds operators of vendors after onnxruntime",
        f"{onnxruntime.__version__} saved it, at its extended level or its full one (`all`, whose convolutions are for",
        "one machine and refused): how many load and run, and how many agree with onnxruntime, before and after",
        f"`opshift inline --portable` ({releases(rows)}).",
        "",
        "Measured by `python -m benchmarks vendors`.",
        "",
        *table("level | number | run before | agree before | refused | run after | agree after", rows),
    ]
    return "\n".join([*lines, ""])
