"""`python -m benchmarks deployed --backend NAME [--models FOLDER] [--rows FILE]`: models in compilers.

Each model is run as it is, after `convert --target` by the table alone, by options that a person might give, and with
`--try`. The interpreter of a compiler is named by `OPSHIFT_PYTHON_MNN` and the like. A model runs if each float output
is within 1 % of its largest element of onnxruntime's, and integers are equal. Sizes are fixed: those of exported models
to the inputs that they were exported with, those of trained ones by `FOLDER/options.toml`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from onnx import ModelProto
from opshift.passes.backends import target_files
from opshift.passes.errors import InvalidModel
from opshift.passes.goals import Goal, Refinement
from opshift.passes.inlining import definable
from opshift.passes.inputs.wanted import parse_wanted as fixed
from opshift.passes.model.messages import normalize_domain
from opshift.passes.model.traversal import bodies
from opshift.passes.model.types import is_fixed

from benchmarks.tried import Subject, files
from opshift.probing import installed
from opshift.trying import attempt
from opshift.trying.search import Answer, Bound
from opshift.trying.trial import InstalledBackend, run_source
from opshift.trying.tried import TrialManner
from opshift.verification.engines import EngineError
from opshift.verification.feeding.asked import at, read_options
from opshift.verification.side import Side

BACKENDS = ["mnn", "iree", "tvm", "rknn", "onnx2torch", "ncnn", "litert"]
BOUND = Bound(40, 180)
_NEW = {
    "Attention", "Celu", "GroupNormalization", "Gelu", "HardSwish", "IsInf", "IsNaN", "LayerNormalization",
    "MeanVarianceNormalization", "Mish", "RMSNormalization", "RotaryEmbedding", "Swish",
}  # fmt: skip
"""Operators that someone would expand by hand for a compiler that does not know new ones."""
BY_HAND: dict[str, Callable[[ModelProto], Goal]] = {
    "--fix-shape": lambda model: Goal(),
    "--op ... --opset 17": lambda model: Goal({"": 17}, names=_held(model, _NEW)),
    "--opset 17 --optimize": lambda model: Goal({"": 17}, refinement=Refinement(optimize=True)),
    "--op ... --opset 17 --optimize": lambda model: Goal(
        {"": 17}, names=_held(model, _NEW), refinement=Refinement(optimize=True)
    ),
    "--opset 13 --optimize": lambda model: Goal({"": 13}, refinement=Refinement(optimize=True)),
    "--opset 11 --optimize": lambda model: Goal({"": 11}, refinement=Refinement(optimize=True)),
}


@dataclass(frozen=True)
class Row:
    """One model in one backend: what came of it as it is, by the table, by hand, and with `--try`."""

    kind: str
    model: str
    backend: str
    before: str
    why_before: str
    table: str
    why_table: str
    hand: str
    """The first options that make it run where the table does not."""
    tried: str = ""
    why_tried: str = ""
    done: str = ""
    seconds: float = 0


def _held(model: ModelProto, names: set[str]) -> tuple[str, ...]:
    called = {(normalize_domain(node.domain), node.op_type) for body in bodies(model) for node in body.node}
    return tuple(sorted(op for domain, op in called if not domain and op in names and definable.is_defined("", op)))


def exported() -> Iterator[Subject]:
    """Of each family with static sizes one export: the newest, or, of every other family, one of the older opsets."""
    from tests.exported import store

    place = 0
    for framework in store.frameworks():
        families: dict[str, list[Any]] = {}
        for export in store.read(framework):
            if not export.family.endswith(".dynamic"):
                families.setdefault(export.family, []).append(export)
        for family, exports in sorted(families.items()):
            ordered = sorted(exports, key=lambda export: (export.opset, "raw" not in export.exporter))
            export = ordered[-1] if place % 2 == 0 else ordered[place // 2 % len(ordered)]
            place += 1
            name = f"{family}, {export.exporter}, opset {export.opset}"
            sizes = tuple(
                f"{value.name}:{','.join(map(str, export.feeds[value.name].shape))}"
                for value in export.model.graph.input
                if value.name in export.feeds and not all(map(is_fixed, value.type.tensor_type.shape.dim))
            )
            yield Subject(framework, name, export.model, export.feeds, sizes)


def measure(
    subject: Subject, backend: InstalledBackend, found: installed.Installed, target: str, *, tries: bool
) -> Row:
    """One row."""
    started = perf_counter()
    held = fixed(list(subject.sizes), list(subject.values))
    wanted = at(read_options(subject.feeds), held, subject.model)
    wanted = replace(wanted, runs=1) if subject.feeds is None else wanted
    source = Side(subject.model)
    try:
        outputs = run_source(source, wanted)
    except EngineError as error:
        return Row(subject.kind, subject.name, backend.name, "no source", str(error), "", "", "")
    outputs = replace(outputs, feeds=outputs.feeds[:1], outputs=outputs.outputs[:1])
    sizes = Goal(fixed=held)

    def answer(goal: Goal) -> Answer:
        try:
            result = replace(goal, fixed=held).run(subject.model, None)
        except (InvalidModel, ValueError) as error:
            return Answer("refused by opshift", str(error))
        if result.model is None:
            return Answer("refused by opshift", "; ".join(map(str, result.refusals[:3])))
        return backend.answer(result.model, None, outputs)

    before = answer(Goal()) if sizes.fixed else backend.answer(subject.model, None, outputs)
    plain = backend.answer(subject.model, None, outputs) if sizes.fixed and not before.agrees else before
    before = plain if plain.agrees else before
    table = answer(Goal(backend=target_files.find(target)))
    wanting = {} if table.agrees else BY_HAND
    by_hand = next((name for name, make in wanting.items() if answer(make(subject.model)).agrees), "")
    came = before.status, before.why[:200], table.status, table.why[:200]
    row = Row(subject.kind, subject.name, backend.name, *came, by_hand)
    if tries:
        goal = Goal(backend=target_files.find(target), fixed=held)
        _, tried = attempt.attempt(source, goal, TrialManner(found, BOUND), wanted)
        done = "; ".join(f"{learnt.operator or 'model'}: {learnt.how}" for learnt in tried.learnt)
        row = replace(row, tried=tried.status, why_tried=tried.why[:200], done=done)
    return replace(row, seconds=round(perf_counter() - started, 1))


def rows(
    name: str,
    target: str,
    folder: Path | None,
    pattern: str,
    keep: Path | None,
    *,
    tries: bool = True,
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> list[Row]:
    """All rows of a backend, those that are kept already first."""
    kept = [Row(**json.loads(line)) for line in keep.read_text().splitlines()] if keep and keep.exists() else []
    known = {(row.kind, row.model, row.backend) for row in kept}
    found = installed.find(name)
    backend = InstalledBackend(found)
    try:
        for subject in [*exported(), *(files(folder) if folder is not None else ())]:
            if (subject.kind, subject.name, name) in known or not re.search(pattern, f"{subject.kind} {subject.name}"):
                continue
            row = measure(subject, backend, found, target, tries=tries)
            say(f"{row.kind} {row.model}: {row.before}, {row.table}, {row.hand or '-'}, {row.tried} ({row.seconds} s)")
            kept.append(row)
            if keep is not None:
                with keep.open("a", encoding="utf-8") as stream:
                    stream.write(f"{json.dumps(asdict(row))}\n")
    finally:
        backend.stop()
    return kept


def document(found: list[Row]) -> str:
    """The rows as docs/backends.md holds them: counts, then each model that runs in some form, and not by the table."""
    lines = [
        "| backend | models | number | as they are | by the table | more by hand | lost | with --try |",
        "|---" * 8 + "|",
    ]
    own_kinds = ("held out", "trained")
    for backend in dict.fromkeys(row.backend for row in found):
        for kind in ("exported", *own_kinds):
            ran = [row for row in found if row.backend == backend and row.before != "no source"]
            own = [row for row in ran if row.kind == kind or (kind == "exported" and row.kind not in own_kinds)]
            before, table = (sum(getattr(row, name) == "agrees" for row in own) for name in ("before", "table"))
            lost = sum(row.before == "agrees" and row.table != "agrees" for row in own)
            tried = sum(row.tried == "agrees" for row in own) if any(row.tried for row in own) else "not measured"
            cells = backend, kind, len(own), before, table, sum(bool(row.hand) for row in own), lost, tried
            lines += [f"| {' | '.join(map(str, cells))} |"] if own else []
    lines += ["", "| model | backend | by the table | by hand | with --try |", "|---" * 5 + "|"]
    for row in found:
        if row.table != "agrees" and row.before != "no source":
            tried = f"{row.tried} {row.done}".strip()
            cells = f"{row.kind}: {row.model}", row.backend, f"{row.table}: {row.why_table[:120]}", row.hand, tried
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join([*lines, ""])
