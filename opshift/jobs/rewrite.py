"""From model file to model file: read, rewrite, prove, write."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from opshift.files import external, model_file, openvino_ir
from opshift.jobs.exit_codes import DONE, REFUSED, code_of
from opshift.jobs.outcome import Outcome, facts
from opshift.passes import process
from opshift.passes.backends.obstacles import open_dimensions
from opshift.passes.goals import Goal
from opshift.verification.asked import DRAWN, Asked, checked
from opshift.verification.side import Side
from opshift.verification.verify import verify_apart


@dataclass(frozen=True)
class Manner:
    """How a result is proved and written; `together` says that other models' data go to the same folder.

    `wanted` is what a user says of the inputs to run on.
    """

    external_data: str | None = None
    threshold: int = external.THRESHOLD
    verify: bool = True
    dry_run: bool = False
    together: bool = False
    wanted: Asked = DRAWN


def rewrite(model: Path, output: Path, goal: Goal, manner: Manner) -> tuple[int, Outcome]:
    """Rewrite one file; returns the exit code that it stands for. The output is written only where that is 0.

    Raises:
        InvalidModel, Refused, ValueError, OSError: as `opshift.api` and `opshift.files.model_file` do.
    """
    started = perf_counter()
    network = openvino_ir.read(model) if openvino_ir.is_network(model) else None
    source = model_file.read(model) if network is None else network.model
    wanted = checked(manner.wanted, source) if manner.verify else manner.wanted
    folder = str(model.resolve().parent)
    seconds = {"read": perf_counter() - started}
    started = perf_counter()
    with process.ours():
        result = goal.attempt(source, folder)
    if network is not None:
        result = replace(result, changes=(*network.changes, *result.changes))
    seconds["convert"] = perf_counter() - started
    # a refusal looks for opsets near the targets, for which every operator has been counted
    before = facts(source, os.path.getsize(model), result.before if goal.targets else None)
    needs = tuple(open_dimensions(source, goal.backend)) if goal.backend is not None else ()
    outcome = Outcome(str(model), "", before, None, result.changes, result.refusals, "", seconds, needs=needs)
    if result.model is None:
        with process.ours():
            return REFUSED, replace(outcome, nearest=goal.nearest(source, result, folder))
    outcome = replace(outcome, grade=result.grade, folded=result.folded)
    if manner.dry_run:
        return DONE, replace(outcome, after=facts(result.model, model_file.size(result.model), result.after))
    started = perf_counter()
    draft = model_file.Draft(
        result.model, output, folder, manner.external_data, manner.threshold, together=manner.together
    )
    with draft:
        seconds["write"] = perf_counter() - started
        verification = None
        if manner.verify:
            started = perf_counter()
            verification = verify_apart(
                Side(source, folder, str(model) if network is not None else None),
                Side(draft.written(), str(output.parent)),
                grade=result.grade,
                wanted=wanted,
            )
            seconds["verify"] = perf_counter() - started
        code = code_of(verification)
        if code == DONE:
            draft.publish()
    outcome = replace(outcome, after=facts(result.model, draft.size, result.after), verification=verification)
    return code, replace(outcome, output=str(output) if code == DONE else "")
