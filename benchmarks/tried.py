"""`python -m benchmarks tried [--backend NAME ...] [--models FOLDER] [--name REGEX]`: models tried in backends.

Of each exported family, with static and with symbolic sizes, the newest export, on the inputs that it was exported
with; of a folder, each `.onnx` file, with what `FOLDER/options.toml` says of its sizes and values. `--rows FILE` keeps
rows, which are not measured again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto
from opshift.passes.backends import target_files
from opshift.passes.goals import Goal
from opshift.passes.inputs.wanted import parse_wanted as fixed

from opshift.probing import installed
from opshift.trying import attempt
from opshift.trying.search import Bound
from opshift.trying.trial import InstalledBackend, run_source
from opshift.trying.tried import TrialManner
from opshift.verification.engines import EngineError
from opshift.verification.feeding.asked import at, read_options
from opshift.verification.side import Side

BOUND = Bound(40, 120)
_ALONE = "Where nothing is said to be replaced, what the target's file says of the model, and its sizes, were enough."
PIECES = (
    ("opencv", "`Tanh(x)` of a number beyond 45", "NaN instead of 1", "the input is clipped"),
    (
        "opencv",
        '`LSTM<direction = "bidirectional", activations = ["Sigmoid", "Tanh", "Tanh", "Sigmoid", "Tanh", "Tanh"]>`',
        "`Assertion failed: activations.size() == 3`",
        "the attribute, which says the default, is left out",
    ),
    ("opencv", "`Loop` of `tf2onnx` (`while_loop`)", "`Assertion failed: fromBuf >= 0`", "unrolled"),
    (
        "opencv",
        "`GRU` of PyTorch",
        "`transpose_layer.cpp:225: perm.empty()`",
        "expanded, and its Scan unrolled",
    ),
    (
        "opencv",
        "`GRU` with `sequence_lens`",
        "other numbers",
        "nothing in 30 s: written out, piper's has 9000 nodes",
    ),
    ("tract", "`Loop`", "`Unimplemented(Loop)`", "unrolled"),
    (
        "tract",
        "`ReverseSequence`",
        "`Unimplemented(ReverseSequence)`",
        "expanded, once Loops before it are written out",
    ),
    ("tract", "`Pad` by -1", "the process ends", "cut off by a Slice"),
    (
        "tract",
        "`com.microsoft::DynamicQuantizeLSTM`",
        "`Unimplemented(DynamicQuantizeLSTM)`",
        "expanded, for one sequence",
    ),
    (
        "opencv",
        "`com.microsoft::DynamicQuantizeLSTM`",
        "`Can't create layer`",
        "nothing whole: expanded, with its products in floats and its Loop written out, it runs, and rounds other ties",
    ),
    (
        "opencv",
        "`MatMul` of int32",
        "`layer.cpp:274: input == CV_32F`",
        "computed in floats, where these hold every sum",
    ),
    ("opencv", "`QuantizeLinear` of a scalar", "0 instead of 135", "expanded"),
    ("opencv", "`MatMul`, then `Add` of a constant of 1 x 1 x N", "`Gemm: C can only be` ..", "without these axes"),
)
"""What `--repro` wrote of failures: the backend, the smallest piece, what came of it, and what helps."""


@dataclass(frozen=True)
class Row:
    """One model in one backend: whether it agrees as it is, for the target, and once it was tried; what was done."""

    kind: str
    model: str
    backend: str
    before: bool
    after: bool
    done: str
    remains: str


@dataclass(frozen=True)
class Subject:
    """A model with what it is run on, and what is fixed of it."""

    kind: str
    name: str
    model: ModelProto
    feeds: Mapping[str, Any] | None = None
    sizes: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


def exported() -> Iterator[Subject]:
    """The newest export of each family."""
    from tests.exported import store

    for framework in store.frameworks():
        ordered = sorted(store.read(framework), key=lambda export: (export.opset, "raw" not in export.exporter))
        newest = {export.family: export for export in ordered}
        for _, export in sorted(newest.items()):
            yield Subject(
                framework, f"{export.family}, {export.exporter}, opset {export.opset}", export.model, export.feeds
            )


def files(folder: Path) -> Iterator[Subject]:
    """The models of a folder, each on the inputs of its `.npz`, if there is one.

    `options.toml` holds a table for each model, with `sizes` and `values` as options have them, and the `kind` of all.
    """
    options = folder / "options.toml"
    held = target_files.loads(options.read_text(encoding="utf-8"), str(options)) if options.exists() else {}
    for path in sorted(folder.rglob("*.onnx")):
        row = held.get(path.stem, {})
        stored = path.with_suffix(".npz")
        feeds = dict(np.load(stored)) if stored.exists() else None
        sizes, values = tuple(row.get("sizes", ())), tuple(row.get("values", ()))
        yield Subject(held.get("kind", "trained"), path.stem, onnx.load(path), feeds, sizes, values)


def measure(subject: Subject, backend: str) -> Row:
    """One row."""
    held = fixed(list(subject.sizes), list(subject.values))
    wanted = at(read_options(subject.feeds), held, subject.model)
    source, target = Side(subject.model), target_files.find(backend)
    goal = Goal(backend=target, fixed=held)
    opened = InstalledBackend(backend)
    try:
        before = opened.answer(subject.model, None, run_source(source, wanted))
    except EngineError as error:
        return Row(subject.kind, subject.name, backend, False, False, "", str(error))
    finally:
        opened.stop()
    _, tried = attempt.attempt(source, goal, TrialManner(backend, BOUND), wanted)
    done = "; ".join(f"{learnt.operator or 'model'}: {learnt.how}" for learnt in tried.learnt)
    remains = "" if tried.agrees else f"{tried.operator or 'model'}: {tried.status}, {tried.why}"
    return Row(subject.kind, subject.name, backend, before.agrees, tried.agrees, done, remains)


def rows(
    backends: list[str],
    folder: Path | None,
    name: str,
    keep: Path | None,
    progress: Callable[[str], None] | None = None,
) -> list[Row]:
    """All rows, those that are kept already first."""
    found = [Row(**json.loads(line)) for line in keep.read_text().splitlines()] if keep and keep.exists() else []
    known = {(row.kind, row.model, row.backend) for row in found}
    for subject in [*(files(folder) if folder is not None else ()), *exported()]:
        for backend in backends:
            key = subject.kind, subject.name, backend
            if key in known or not re.search(name, f"{subject.kind} {subject.name}"):
                continue
            if progress is not None:
                progress(" ".join(key))
            found.append(measure(subject, backend))
            if keep is not None:
                with keep.open("a", encoding="utf-8") as stream:
                    stream.write(f"{json.dumps(asdict(found[-1]))}\n")
    return found


def fixing(folder: Path | None) -> dict[str, str]:
    """The options that fix what is fixed of the models of a folder, by their names."""
    if folder is None or not (folder / "options.toml").exists():
        return {}
    options = folder / "options.toml"
    held = target_files.loads(options.read_text(encoding="utf-8"), str(options))
    return {
        name: " ".join(
            [*(f"--fix-shape {text}" for text in row.get("sizes", ())), *(f"--set {v}" for v in row.get("values", ()))]
        )
        for name, row in held.items()
    }


def document(found: list[Row], told: Mapping[str, str] = MappingProxyType({})) -> str:
    """The rows as docs/backends.md holds them: counts, then each model that did not run as it is.

    `told` has options by the names of models.
    """
    backends = list(dict.fromkeys(row.backend for row in found))
    releases = ", ".join(f"{name} {installed.release(name)}" for name in backends)
    lines = [
        "## Whole models, tried",
        "",
        "What `opshift inline --target BACKEND --try` makes of whole models: how many agree with onnxruntime as they",
        f"are, and how many once it has looked for what has to be replaced ({releases};",
        f"at most {BOUND.tries} tries and {BOUND.seconds:g} seconds a model). Exported models keep the sizes that they",
        "have, symbolic ones among them; trained ones get sizes with `--fix-shape`, and values with `--set`.",
        "",
        "What is not counted here was not measured; `--name REGEX` narrows the models. Measured by",
        "`python -m benchmarks tried --models FOLDER >> docs/backends.md`.",
        "",
        "| models | backend | number | agree before | agree after | gained | lost |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in dict.fromkeys(row.kind for row in found):
        for backend in backends:
            own = [row for row in found if (row.kind, row.backend) == (kind, backend)]
            gained = sum(row.after and not row.before for row in own)
            lost = sum(row.before and not row.after for row in own)
            numbers = len(own), sum(row.before for row in own), sum(row.after for row in own), gained, lost
            lines.append(f"| {kind} | {backend} | {' | '.join(map(str, numbers))} |")
    lines += [
        "",
        "### What did not run as it is",
        "",
        _ALONE,
        "",
        "| model | backend | what was replaced | what remains |",
    ]
    lines.append("|---|---|---|---|")
    for row in found:
        if not row.before or not row.after:
            done = "; ".join(filter(None, [f"`{told[row.model]}`" if row.model in told else "", row.done]))
            cells = f"{row.kind}: {row.model}", row.backend, done, row.remains[:160]
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    lines += ["", "### The smallest pieces that fail", "", "As `--repro` cuts them out.", ""]
    lines += ["| backend | piece | what comes of it | what helps |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in PIECES if row[0] in backends]
    return "\n".join([*lines, ""])
