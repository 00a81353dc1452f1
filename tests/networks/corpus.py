"""What becomes of a case: ONNX by OpenVINO to IR, by this project back to ONNX, by onnxruntime to outputs."""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from opshift.passes.errors import Refused
from opshift.passes.openvino import reader

from opshift.verification import isolation
from opshift.verification.bounds import compare
from opshift.verification.engines import EngineError, OnnxRuntime, Reference, load
from tests.conformance import cases
from tests.conformance.cases import Case
from tests.exported import store

OUTCOMES = (
    "agrees",  # with the published outputs
    "as OpenVINO",  # differs from those, and OpenVINO computes the same of the network
    "refused",
    "differs",
    "fails",  # no engine runs the model
    "unread",  # OpenVINO does not make a network of the case
)
LATE = (  # what is imported where it is needed, and here before processes fork
    "openvino._offline_transformations",
    "openvino.tools.ovc.moc_frontend.offline_transformations",
    "opshift.passes.openvino.xml_file",
    "opshift.passes.openvino.translate",
)


@dataclass(frozen=True)
class Verdict:
    """What became of one case, and why."""

    outcome: str
    why: Sequence[str] = ()


@dataclass
class Tally:
    """Counts of the outcomes, and the reasons of those that need some."""

    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)

    def add(self, name: str, verdict: Verdict) -> None:
        self.counts[verdict.outcome] += 1
        if verdict.outcome == "refused":
            self.reasons.update(verdict.why)
        elif verdict.outcome not in ("agrees", "unread"):
            self.lines.append(f"{verdict.outcome}: {name}: {'; '.join(verdict.why)}")


def published() -> Iterator[Case]:
    """The node tests of the installed onnx."""
    return cases.installed()


def exported() -> Iterator[Case]:
    """What exporters wrote, with the outputs of their frameworks."""
    for framework in store.frameworks():
        for export in store.read(framework):
            yield Case(export.name, "", export.model, export.feeds, export.outputs)


def judge(case: Case) -> Verdict:
    """The verdict on a case, whose conversion may end the process that does it."""
    for name in LATE:
        importlib.import_module(name)
    load()
    try:
        return isolation.call(_judge, case)
    except isolation.Ended as ended:
        return Verdict("unread", [str(ended)])


def save_network(source: Path, path: Path) -> None:
    """Write a model of ONNX as OpenVINO IR, as OpenVINO converts it."""
    import openvino

    os.environ["CI"] = "true"  # elsewhere each conversion begins processes that tell OpenVINO's makers of it
    openvino.save_model(openvino.convert_model(source), path, compress_to_fp16=False)


def _judge(case: Case) -> Verdict:
    with TemporaryDirectory() as folder:
        source, path = Path(folder, "model.onnx"), Path(folder, "net.xml")
        source.write_bytes(case.model.SerializeToString())
        try:
            save_network(source, path)
        except Exception as error:
            return Verdict("unread", [str(error)])
        return _converted(case, path, folder)


def _converted(case: Case, path: Path, folder: str) -> Verdict:
    try:
        model = reader.read(path).model
    except Refused as refused:
        return Verdict("refused", [f"{refusal.op}: {refusal.why}" for refusal in refused.refusals])
    names = [value.name for value in model.graph.input]
    given = [value for name, value in case.inputs.items() if name in names or len(case.inputs) == len(names)]
    if len(given) != len(names):
        return Verdict("fails", ["its inputs have other names"])
    feeds = dict(zip(names, given, strict=True))
    try:
        actual, engine = OnnxRuntime(model, folder=folder).run(feeds), OnnxRuntime.engine
    except EngineError:
        try:
            actual, engine = Reference(model, folder=folder).run(feeds), Reference.engine
        except EngineError as error:
            return Verdict("fails", [str(error)])
    why = _apart(case.outputs, actual, case)
    if not why:
        return Verdict("agrees")
    try:
        same = not _apart(_by_openvino(path, given), actual, case)
    except Exception as error:
        outcome = "differs" if engine == OnnxRuntime.engine else "fails"  # the reference alone proves nothing
        return Verdict(outcome, [why, f"OpenVINO: {' '.join(str(error).split())[:100]}"])
    return Verdict("as OpenVINO" if same else "differs", [why])


def _by_openvino(path: Path, given: Sequence[Any]) -> list[Any]:
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled(list(given))
    return [found[index] for index in range(len(compiled.outputs))]


def _apart(expected: Sequence[Any], actual: Sequence[Any], case: Case) -> str:
    """Why outputs are not the same: by the tolerance that is published, or by that of another formula."""
    if len(expected) != len(actual):
        return f"{len(actual)} outputs instead of {len(expected)}"
    for one, other in zip(map(np.asarray, expected), map(np.asarray, actual), strict=True):
        if one.dtype != other.dtype and one.dtype.itemsize == other.dtype.itemsize == 1:
            one, other = one.view(np.uint8), other.view(np.uint8)  # engines return float8 as bytes
        found = compare(one, other, "close")
        near = one.dtype == other.dtype and one.shape == other.shape and one.dtype.kind == "f"
        if found.why and not (near and np.allclose(other, one, case.rtol, max(case.atol, 1e-6), equal_nan=True)):
            return found.why
    return ""


def run(of: Iterator[Case], advance: Callable[[str], None] | None = None) -> Tally:
    """The verdicts on all cases, those of one name once."""
    tally, seen = Tally(), set[str]()
    for case in of:
        if case.name not in seen:
            seen.add(case.name)
            tally.add(case.name, judge(case))
            if advance is not None:
                advance(case.name)
    return tally


def show(tally: Tally) -> None:
    print(", ".join(f"{tally.counts[name]} {name}" for name in OUTCOMES))
    for line in tally.lines:
        print(line)
    for reason, count in tally.reasons.most_common():
        print(f"refused {count} x {reason}")


def main() -> int:
    """`python -m tests.lab networks [published|exported]`."""
    wanted = sys.argv[1:] or ["published", "exported"]
    sources = {"published": published, "exported": exported}
    code = 0
    for name in wanted:
        print(f"{name}:")
        tally = run(sources[name]())
        show(tally)
        code = code or int(bool(tally.counts["differs"]))
    return code
