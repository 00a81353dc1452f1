"""`python -m benchmarks backends [--backend NAME ...]`: how many models agree before and after `opshift inline`.

Judged by what ONNX publishes with each model; by onnxruntime for models that come without outputs. A model that
`opshift inline --target` refuses stays as it is, and counts as it was.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import onnx.numpy_helper
from onnx import ModelProto
from opshift.passes.backends import fit, target_files

from benchmarks.backend_tables import releases, table
from opshift.probing import installed, samples
from opshift.probing.worker import Worker
from opshift.verification.engines import OnnxRuntime

DATA = Path(onnx.backend.test.__file__).parent / "data"
EXAMPLE = Path(__file__).parents[1] / "examples" / "encoder.onnx"


@dataclass
class Row:
    """One backend on one set of models."""

    backend: str
    kind: str
    total: int = 0
    before: int = 0
    rewritten: int = 0
    refused: int = 0
    after: int = 0
    gained: int = 0
    lost: tuple[str, ...] = ()

    @property
    def cells(self) -> tuple[object, ...]:
        return self.total, self.before, self.rewritten, self.refused, self.after, self.gained


def measure(backend: str, progress: Callable[[str, int, int], None] | None = None) -> Iterator[Row]:
    """Every set of models on one backend, for the target of the installed release."""
    target = target_files.find(f"{backend}-{'.'.join(installed.release(backend).split('.')[:2])}")
    worker = installed.find(backend).open(20.0)
    try:
        for kind, cases in SETS.items():
            row = Row(backend, kind)
            held = list(cases())
            for place, case in enumerate(held):
                if progress is not None:
                    progress(f"{backend}, {kind}: {case.name}", place, len(held))
                _count(row, case, target, worker)
            yield row
    finally:
        worker.stop()


def _count(row: Row, case: samples.Sample, target: target_files.Backend, worker: Worker) -> None:
    before = after = worker.run(case.task()).agrees
    result = fit.convert_for_backend(case.model, target)
    if result.model is None:
        row.refused += 1
    elif result.model.graph.node != case.model.graph.node or list(result.model.opset_import) != list(
        case.model.opset_import
    ):
        row.rewritten += 1
        after = worker.run(replace(case, model=result.model).task()).agrees
    row.total += 1
    row.before += before
    row.after += after
    row.gained += after and not before
    if before and not after:
        row.lost = (*row.lost, case.name)


def _constants() -> Iterator[samples.Sample]:
    """Node tests with their small integer inputs as constants, the way exporters write parameters."""
    for case in samples.list_published(whole=True):
        bound = samples.parameters(case)
        if bound:
            yield samples.bind(case, bound)


def _zoo() -> Iterator[samples.Sample]:
    """Networks of the model zoo and an exported encoder, judged by onnxruntime."""
    for path in [*sorted((DATA / "light").glob("*.onnx")), EXAMPLE]:
        model = onnx.load(path)
        feeds = _random(model)
        expected = OnnxRuntime(model).run(feeds)
        yield samples.Sample(path.stem, ("", ""), model, feeds, expected, 1e-3, 1e-7)


def _random(model: ModelProto) -> dict[str, Any]:
    random = np.random.default_rng(0)
    held = {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name not in held:
            shape = [d.dim_value or 2 for d in value.type.tensor_type.shape.dim]
            feeds[value.name] = random.standard_normal(shape).astype(np.float32)
    return feeds


SETS: dict[str, Callable[[], Iterator[samples.Sample]]] = {
    "node tests": lambda: samples.list_published(whole=True),
    "node tests, parameters as constants": _constants,
    "exported layers (pytorch-converted)": lambda: samples.list_exported("pytorch-converted"),
    "exported operators (pytorch-operator)": lambda: samples.list_exported("pytorch-operator"),
    "small graphs (simple)": lambda: samples.list_exported("simple"),
    "networks (light, encoder)": _zoo,
}


def document(rows: list[Row]) -> str:
    """The rows as docs/backends.md holds them."""
    lines = [
        "# Backends before and after",
        "",
        "Models that load and agree with what ONNX publishes for them, before and after `opshift inline --target` for",
        f"the target that was measured of the backend ({releases(rows)}; onnx {importlib.metadata.version('onnx')}).",
        "",
        "Measured by `python -m benchmarks backends > docs/backends.md`.",
        "",
        *table("number | agree before | rewritten | refused | agree after | gained", rows),
    ]
    return "\n".join([*lines, ""])
