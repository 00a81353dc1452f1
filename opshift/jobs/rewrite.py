"""Convert one file: read, apply the goal, prove, write."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from opshift.files import external, formats, model_file
from opshift.files.writing import follow_link
from opshift.jobs.exit_codes import DIFFERENT, DONE, REFUSED, code_of
from opshift.jobs.outcome import Outcome, facts
from opshift.passes import process, progress
from opshift.passes.analysis.blocks import assume_width
from opshift.passes.changes import Allowance, Change, Result
from opshift.passes.errors import OutOfOrder
from opshift.passes.goals import Goal
from opshift.passes.inputs.wanted import resolve
from opshift.passes.model.editing.order import put_in_order
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass, replace
from opshift.verification.feeding.asked import DRAWN, Asked, at, check_inputs
from opshift.verification.side import Side

if TYPE_CHECKING:
    from opshift.jobs.narrowing import Narrowed
    from opshift.jobs.preparing import Preparation, Prepared
    from opshift.jobs.yielding import TakenBack
    from opshift.trying.door import TrialManner as Trying
    from opshift.trying.door import Tried
    from opshift.verification.verdict import Verification


@dataclass(frozen=True)
class Manner:
    """The options of proving and writing a result.

    `wanted` are the options about inputs, engines and tolerances, `trying` those of `--try`. `preparation` runs before
    the stages. `beside` are other files that the command writes. With `together`, other models are written to the same
    folder. `nchwc_width` is the width of channel blocks if the model does not tell it.
    """

    external_data: str | None = None
    packing: external.Packing = external.WHOLE_FILE
    verify: bool = True
    dry_run: bool = False
    together: bool = False
    wanted: Asked = DRAWN
    trying: Trying | None = None
    nchwc_width: int | None = None
    preparation: Preparation | None = None
    beside: tuple[str, ...] = ()


Report = Callable[[Outcome, ModelProto, ModelProto], AbstractContextManager[None]]
"""Writes a report from the outcome and both models, as a context: its body puts the result in its place."""


def rewrite(
    model: Path, output: Path, goal: Goal, manner: Manner, report: Report | None = None, *, sort: bool = False
) -> tuple[int, Outcome]:
    """Convert one file; returns the exit code and the outcome.

    Writes the output only if the code is 0, and only if the report can be written. The command line calls it for one
    file, and a batch for each of its files. A model whose nodes are not in order is converted again with `sort`, which
    puts them in order first.

    Raises:
        InvalidModel, Refused, ValueError, OSError: as `opshift.api` and `opshift.files.model_file` do.
    """
    try:
        with assume_width(manner.nchwc_width):
            started, output = perf_counter(), follow_link(output)
            progress.tell(f"read {model.name}")
            network = formats.read(model) if formats.is_foreign(model) else None
            imported: list[str] = []
            source = model_file.read(model, imported=imported) if network is None else network.model
            read = network.changes if network is not None else tuple(map(_import_change, imported))
            if sort:
                source, read = put_in_order(source), (*read, _SORTED)
            folder, seconds = str(model.resolve().parent), {"read": perf_counter() - started}
            external.check_outputs([output, *manner.beside], source, folder)
            prepared = _prepare(source, model, manner)
            if prepared is not None:
                first, source, folder = source, prepared.model, prepared.folder
                external.check_outputs([output, *manner.beside], source, folder)
                read, manner = (*read, *prepared.changes), replace(manner, wanted=_inputs_for_prepared(prepared, goal))
                seconds["prepare"] = perf_counter() - started - seconds["read"]
                if prepared.stop is not None:
                    one, other = facts(first, os.path.getsize(model)), facts(source, model_file.size(source))
                    failed = Outcome(str(model), "", one, other, read, (), "exact", seconds, verification=prepared.stop)
                    return code_of(prepared.stop), failed
            else:
                first = source
            compared = goal.with_ends(source)
            manner, values = _check_inputs(manner, goal, compared)
            side = Side(source, folder, str(model) if network is not None and prepared is None else None)
            job = _Job(model, side, replace(side, model=compared), read, output, manner, seconds, values, report)
            job = replace(job, remark=prepared.remark) if prepared is not None else job
            started = perf_counter()
            if manner.trying is None and goal.types is not None and manner.verify and not manner.dry_run:
                from opshift.jobs.narrowing import narrow  # as below

                (result, narrowed), tried = narrow(goal, source, job.rewrite_source, folder, manner.wanted), None
                job = replace(job, narrowed=narrowed)
                goal = replace(goal, types=narrowed.types) if narrowed is not None else goal
            elif manner.trying is None:
                with process.ours():
                    result, tried = goal.run(source, folder), None
            else:
                result, tried = job.try_in_backend(goal, manner.trying)
            result = replace(result, changes=(*read, *result.changes))
            seconds["convert" if tried is None else "try"] = perf_counter() - started
            # a refusal looks for opsets near the targets, for which every operator has been counted
            calls = result.before if (goal.targets or goal.types) and first is source else None
            before = facts(first, os.path.getsize(model), calls)
            result = result if tried is not None else goal.refuse_open_inputs(source, result, folder)
            outcome = Outcome(str(model), "", before, None, result.changes, result.refusals, "", seconds)
            outcome = replace(outcome, absent=result.absent, target=goal.description, tried=tried, stages=result.stages)
            if goal.backend is not None and tried is None:
                outcome = replace(outcome, untried=goal.backend.name)
            if result.model is None:
                return REFUSED, _add_advice(outcome, source, goal, result, folder)
            outcome = replace(outcome, unread=goal.find_unread(result.model, folder))
            unproved, outcome = outcome, _add_result(result, outcome)
            if tried is not None and not tried.agrees:
                result_facts = facts(result.model, model_file.size(result.model), result.after)
                return DIFFERENT if tried.differs else REFUSED, replace(outcome, after=result_facts)
            if manner.dry_run:
                return DONE, replace(outcome, after=facts(result.model, model_file.size(result.model), result.after))
            if tried is not None and tried.fixed:
                job = replace(job, manner=replace(manner, wanted=at(manner.wanted, tried.fixed, compared)))
            code, found = job.write_proved(result, unproved)
            proof = found.verification
            if proof is not None and not proof.equal and result.optional and tried is None:
                from opshift.jobs.yielding import take_back

                started = perf_counter()
                part = take_back(goal, job.attempt, job.prove_result, result, proof)
                seconds["take back"] = perf_counter() - started
                if part is not None:
                    return job.write_proved(part.result, unproved, part.taken_back)
            return code, found
    except OutOfOrder:  # rare, so the order of other files is not checked before
        if sort:
            raise
        return rewrite(model, output, goal, manner, report, sort=True)


_SORTED = Change("", "graph", "", 0, 0, "Put the nodes in order: some read what later ones compute")


def _prepare(source: ModelProto, model: Path, manner: Manner) -> Prepared | None:
    """Cut out or join, for `extract` and `merge`; None for other commands. Runs before the stages."""
    if manner.preparation is None:
        return None
    progress.tell(manner.preparation.name)
    return manner.preparation.prepare(source, model, manner.wanted, verify=manner.verify and not manner.dry_run)


def _inputs_for_prepared(prepared: Prepared, goal: Goal) -> Asked:
    """Choose inputs for the proof of a prepared model: captured inputs fit only if its sizes and names did not change.

    Only for `extract` and `merge`.
    """
    if goal.fixed or goal.rebatch is not None or goal.ends.renamed:
        return replace(prepared.wanted, inputs=None)
    return prepared.wanted


def _add_result(result: Result, outcome: Outcome) -> Outcome:
    """Add to an outcome what a successful result says: nodes, opsets, stages. Runs once the stages are done."""
    outcome = replace(outcome, grade=result.grade, changes=result.changes)
    outcome = replace(outcome, control_flow=result.control_flow)
    return replace(outcome, folded=result.folded, stays=result.stays, stages=result.stages, types=result.types)


def _check_inputs(manner: Manner, goal: Goal, source: ModelProto) -> tuple[Manner, Mapping[str, Any]]:
    """Check the user's inputs for the proof; with `--rebatch`, only the values of `--set` are returned.

    With `--rebatch`, the inputs are checked later, as they belong to the result, which does not exist yet.
    """
    if goal.rebatch is not None:
        if manner.trying is not None:
            raise ValueError("--try and --rebatch cannot be combined; run --rebatch first, then --try on its output")
        return manner, resolve(goal.fixed, source).values
    if manner.verify or manner.trying is not None:
        manner = replace(manner, wanted=at(manner.wanted, goal.fixed, source))
    return manner, {}


def _add_advice(outcome: Outcome, source: ModelProto, goal: Goal, result: Result, folder: str) -> Outcome:
    """Add to a refused outcome the nearest opset and hints. A batch that cannot change gets none. Runs after a
    refusal.
    """
    if goal.rebatch is not None:
        from opshift.passes.inputs.sizes import CANNOT_CHANGE

        if any(refusal.why.startswith(CANNOT_CHANGE) for refusal in result.refusals):
            return outcome
    from opshift.jobs.advice import advice  # slow to import, and not wanted elsewhere

    with process.ours():
        nearest = goal.find_nearest_opset(source, result, folder)
        return replace(outcome, nearest=nearest, tries=advice(source, goal, result, nearest, folder))


def _explain_unloaded(source: ModelProto, result: ModelProto) -> str:
    """Warn if the installed onnxruntime loads the source but not the result. Runs once the result is written."""
    if opsets(result).get("", 0) <= opsets(source).get("", 0):
        return ""
    from opshift.verification import missing_kernels  # slow to import, and not wanted without a proof

    missing = missing_kernels.without(result)
    return missing if missing and not missing_kernels.without(source) else ""


def _import_change(domain: str) -> Change:
    return Change("", "opset_import", domain, 0, 1, f"Imported {domain}, whose operators the model uses")


@dataclass(frozen=True)
class _Job:
    """The source and the output of one conversion."""

    model: Path
    source: Side
    compared: Side
    """The source with the inputs and outputs of the result, for the proof; for example tensors in place of maps."""
    read: tuple[Change, ...]
    """The changes that reading the source made."""
    output: Path
    manner: Manner
    seconds: dict[str, float]
    values: Mapping[str, Any]
    """With `--rebatch`: the values of `--set`, which the source is fed for each sample."""
    report: Report | None
    remark: str = ""
    """How the prepared source was compared with the models in the files."""
    narrowed: Narrowed | None = None

    def rewrite_source(self, goal: Goal, allowance: Allowance | None = None) -> Result:
        """Apply the goal's stages to the source."""
        with process.ours():
            return goal.run(self.source.model, self.source.folder, allowance)

    def attempt(self, goal: Goal, allowance: Allowance | None = None) -> Result:
        """Apply the goal's stages to the source, and add the changes of reading it from OpenVINO IR."""
        result = self.rewrite_source(goal, allowance)
        return replace(result, changes=(*self.read, *result.changes))

    def try_in_backend(self, goal: Goal, trying: Trying) -> tuple[Result, Tried]:
        """Search for a form of the model that runs in an installed backend (`--try`)."""
        from opshift.trying.door import attempt

        return attempt(self.source, goal, trying, self.manner.wanted)

    def write_proved(
        self, result: Result, outcome: Outcome, taken_back: tuple[TakenBack, ...] = ()
    ) -> tuple[int, Outcome]:
        """Write a result beside the output, prove it, and rename it if it is equal; returns the exit code and the
        outcome. Runs once the stages succeed.
        """
        assert result.model is not None, "what is refused is not written"
        manner, started = self.manner, perf_counter()
        draft = model_file.Draft(
            result.model,
            self.output,
            self.source.folder,
            manner.external_data or (external.PACK if manner.preparation is not None else None),
            manner.packing,
            together=manner.together,
        )
        progress.tell("write")
        with draft:
            for path in manner.beside:
                if os.path.realpath(path) in draft.places:
                    raise ValueError(f"{path} is to hold weights of the output: give another path")
            self.seconds["write"] = perf_counter() - started
            verification = None
            if manner.verify:
                started = perf_counter()
                after = Side(draft.read_back(), str(self.output.parent))
                verification = self._verify_result(after, result, manner.wanted)
                self.seconds["verify"] = perf_counter() - started
            proved = replace(_add_result(result, outcome), verification=verification, taken_back=taken_back)
            proved = replace(proved, deviations=self.narrowed.deviations if self.narrowed is not None else ())
            proved = replace(proved, after=facts(result.model, draft.size, result.after))
            code = code_of(verification)
            if code == DONE and verification is not None:
                proved = replace(proved, unloaded=_explain_unloaded(self.source.model, result.model))
            if code == DONE:
                proved = replace(proved, output=str(self.output))
                report = self.report(proved, self.source.model, result.model) if self.report else nullcontext()
                with self._write_evidence(draft, result, verification), report:
                    draft.publish()
        return code, proved

    def _write_evidence(
        self, draft: model_file.Draft, result: Result, found: Verification | None
    ) -> AbstractContextManager[None]:
        """Write the evidence file of a proof that holds (`--evidence`), before the result may replace the source."""
        if self.manner.wanted.evidence is None or found is None:
            return nullcontext()
        from opshift.jobs import evidence

        how = {"grade": result.grade, "promise": True, "plain": not result.optional, "rounded_to": result.computed_in}
        before, after = evidence.digests(str(self.model)), evidence.digests(str(self.output), draft)
        return evidence.write(self.manner.wanted.evidence, before, after, found, how, self.manner.wanted)

    def prove_result(self, result: Result) -> Verification:
        """Prove a result without writing it. Runs while changes are taken back."""
        assert result.model is not None, "what is optional refuses nothing"
        quietly = replace(self.manner.wanted, save=None, repro=None)
        return self._verify_result(Side(result.model, self.source.folder), result, quietly)

    def _verify_result(self, after: Side, result: Result, wanted: Asked) -> Verification:
        """Prove that the result computes what the source does, by the method that fits what was changed.

        Runs after the stages, unless `--no-verify`.

        A changed batch is proved sample by sample, changed types within their budget, all else part by part.
        """
        from opshift.verification.of_blocks import running  # slow to import, and not wanted without a proof
        from opshift.verification.verify import apart, verify_apart

        plain = not result.optional
        before, remarks = running(self.compared)
        after, _ = running(after)  # which keeps its blocks where only the opset changes
        grade = "close" if result.grade == "narrowed" else result.grade

        def prove(after: Side) -> Verification:
            """Prove that a model computes what the source does, for a change of types that wants to call it itself."""
            if result.batch is not None:
                from opshift.verification.cutting import verify_samples

                given, values = check_inputs(wanted, after.model), self.values
                return apart(verify_samples, self.compared, after, result.batch, values, grade=grade, wanted=given)
            return verify_apart(
                before, after, grade=grade, wanted=wanted, plain=plain, promise=True, rounded_to=result.computed_in
            )

        if self.narrowed is not None and result.types is not None:
            from opshift.jobs.narrowing import verify

            verification = verify(self.compared, after, result.types, self.narrowed, prove, wanted)
        else:
            verification = prove(after)
        verification = replace(verification, remarks=(*verification.remarks, *remarks, *filter(None, [self.remark])))
        cast = [name for name in verification.cast if name not in result.retyped]
        if cast:  # two models may differ in that; one and what becomes of it only where it is asked for
            return replace(verification, status="different", why=f"of another type: {', '.join(cast)}")
        return verification
