"""From model file to model file: read, rewrite, prove, write."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import ClassVar

from opshift import api, external, files, report
from opshift.cli import DIFFERENT, DONE, REFUSED
from opshift.passes import convert as engine
from opshift.passes import fit
from opshift.passes.backend import Backend
from opshift.passes.obstacles import open_dimensions
from opshift.passes.protos import ModelProto
from opshift.report import Outcome
from opshift.verification import Verification, verify_apart


@dataclass(frozen=True)
class Conversion:
    """To other opsets, by domain."""

    targets: Mapping[str, int]
    ir_version: int | None = None
    backend: ClassVar[None] = None

    @property
    def label(self) -> str:
        return "-".join(f"{domain or 'opset'}{opset}" for domain, opset in self.targets.items())

    def attempt(self, source: ModelProto, folder: str) -> engine.Result:
        return engine.attempt(source, self.targets, ir_version=self.ir_version, folder=folder)


@dataclass(frozen=True)
class Inlining:
    """Of the operators of these names, of a domain, or of all that a backend lacks, at `opsets` or the model's own."""

    names: tuple[str, ...] = ()
    domain: str | None = None
    backend: Backend | None = None
    opsets: Mapping[str, int] | None = None
    ir_version: int | None = None
    targets: ClassVar[None] = None

    @property
    def label(self) -> str:
        return f"for-{self.backend.name}" if self.backend is not None else "inlined"

    def attempt(self, source: ModelProto, folder: str) -> engine.Result:
        ops = api.named(source, self.names, self.domain)
        if self.backend is not None:
            return fit.attempt(source, self.backend, ops=ops, ir_version=self.ir_version, folder=folder)
        goal = self.opsets or api.own_opset(source)
        return engine.attempt(source, goal, ops=ops, ir_version=self.ir_version, folder=folder)


@dataclass(frozen=True)
class Manner:
    """How a result is proved and written; `together` says that other models' data go to the same folder."""

    external_data: str | None = None
    threshold: int = external.THRESHOLD
    verify: bool = True
    dry_run: bool = False
    seed: int = 0
    together: bool = False


def rewrite(model: Path, output: Path, goal: Conversion | Inlining, manner: Manner) -> tuple[int, Outcome]:
    """Rewrite one file; returns the exit code that it stands for. The output is written only where that is 0.

    Raises:
        InvalidModel, Refused, ValueError, OSError: as `opshift.api` and `opshift.files` do.
    """
    started = perf_counter()
    source = files.read(model)
    folder = str(model.resolve().parent)
    seconds = {"read": perf_counter() - started}
    started = perf_counter()
    result = goal.attempt(source, folder)
    seconds["convert"] = perf_counter() - started
    # a refusal looks for opsets near the targets, for which every operator has been counted
    before = report.facts(source, os.path.getsize(model), result.before if goal.targets else None)
    needs = tuple(open_dimensions(source, goal.backend)) if goal.backend is not None else ()
    outcome = Outcome(str(model), "", before, None, result.changes, result.refusals, "", seconds, needs=needs)
    if result.model is None:
        nearest = engine.nearest(source, result.refusals, goal.targets, folder) if goal.targets else None
        return REFUSED, replace(outcome, nearest=nearest)
    outcome = replace(outcome, grade=result.grade)
    if manner.dry_run:
        return DONE, replace(outcome, after=report.facts(result.model, files.size(result.model), result.after))
    started = perf_counter()
    draft = files.Draft(result.model, output, folder, manner.external_data, manner.threshold, together=manner.together)
    with draft:
        seconds["write"] = perf_counter() - started
        verification = None
        if manner.verify:
            started = perf_counter()
            verification = verify_apart(
                source,
                draft.written(),
                grade=result.grade,
                seed=manner.seed,
                before_folder=folder,
                after_folder=str(output.parent),
            )
            seconds["verify"] = perf_counter() - started
        code = code_of(verification)
        if code == DONE:
            draft.publish()
    outcome = replace(outcome, after=report.facts(result.model, draft.size, result.after), verification=verification)
    return code, replace(outcome, output=str(output) if code == DONE else "")


def code_of(found: Verification | None) -> int:
    """The exit code that a verification stands for."""
    if found is None or found.equal:
        return DONE
    return DIFFERENT if found.status == "different" else REFUSED
