"""Change element types (`--types`): measured ranges decide where, and outputs may move no further than allowed."""

from __future__ import annotations

from collections.abc import Callable

from opshift.jobs.loading import describe_crash
from opshift.jobs.measuring import Deviation, Measured, compare, measure
from opshift.passes.changes import Allowance, Result, TypesReport
from opshift.passes.goals import Goal
from opshift.passes.inputs.wanted import Wanted
from opshift.passes.inputs.writing import write_into_copy
from opshift.passes.model.messages import ModelProto, TensorProto
from opshift.passes.model.named_types import named_types
from opshift.passes.records import dataclass, replace
from opshift.passes.types.door import BUDGETS, Seen, Types, Undoing, change, check_names
from opshift.verification.feeding.asked import Asked, check_inputs, remaining
from opshift.verification.side import Side
from opshift.verification.verdict import DIFFERENT, EQUAL, UNVERIFIED, Verification


@dataclass(frozen=True)
class Narrowed:
    """A result with other element types.

    Attributes:
        base: the model before its types were changed.
        types: the wanted types, with the measured ranges.
        measured: how far outputs move; None if nothing was run.
    """

    base: ModelProto
    types: Types
    measured: Measured | None = None

    @property
    def deviations(self) -> tuple[Deviation, ...]:
        """How far each output moves."""
        return self.measured.deviations if self.measured is not None else ()


def narrow(
    goal: Goal,
    source: ModelProto,
    attempt: Callable[[Goal, Allowance | None], Result],
    folder: str | None,
    wanted: Asked,
) -> tuple[Result, Narrowed | None]:
    """Apply all other stages, run the result to measure its values, and change types where outputs allow it.

    Runs for `--types`, unless `--no-verify` forbids to run the model.
    """
    types = goal.types.find_in(source) if goal.types is not None else None
    if types is not None and not types.narrows:  # widening goes first: an old opset may lack the narrow types
        return attempt(replace(goal, types=types), None), Narrowed(source, types)
    base = attempt(replace(goal, types=None), None)
    if base.model is None or types is None:
        return base, None
    check_names(types, base.model)
    wanted = remaining(wanted, base.model)
    if types.of_integers:
        types = replace(types, given=wanted.ranges, bounds=_at_bounds(base.model, wanted))
        return attempt(replace(goal, types=types), None), Narrowed(base.model, types)
    if any(target == TensorProto.BFLOAT16 for target in types.mapping.values()):
        # most operators take bfloat16 from opset 22 on only, so try without the ranges of a run first
        refused = change(base.model, replace(types, seen=Seen()), folder, demanded=True)
        if refused.refusals:
            return refused, None
    measured = measure(Side(base.model, folder), types, check_inputs(wanted, base.model))
    result = attempt(replace(goal, types=measured.types), None)
    return result, Narrowed(base.model, measured.types, measured)


def _at_bounds(model: ModelProto, wanted: Asked) -> ModelProto | None:
    """Copy the model with the sizes of `--input-shape`, which are the largest that inputs have."""
    if not (wanted.shapes or wanted.sizes):
        return None
    return write_into_copy(model, Wanted(wanted.shapes, wanted.sizes))


def verify(
    source: Side,
    after: Side,
    report: TypesReport,
    narrowed: Narrowed,
    prove: Callable[[Side], Verification],
    wanted: Asked,
) -> Verification:
    """Prove that nothing but types differs, and tell whether outputs moved further than allowed.

    `after` is the result as it was written, `prove` compares a model with the source.
    """
    if not narrowed.types.narrows:
        return _widen(source, after, narrowed.types)
    undoing = Undoing(after.model, after.folder, narrowed.base, source.folder, narrowed.types, report)
    lost = undoing.changed_constant()
    if lost:
        return Verification(DIFFERENT, tensor=lost, why="the constant is not its source, rounded once")
    found = prove(Side(undoing.restore(), source.folder))
    if narrowed.types.of_integers:
        base = Side(narrowed.base, source.folder)  # it has the batch size of the result; the source may have another
        return _of_integers(base, after, narrowed, found, wanted) if found.equal else found
    measured = narrowed.measured
    if not found.equal or measured is None:
        return found
    if measured.why:
        return replace(found, remarks=(*found.remarks, f"ranges and outputs were not measured: {measured.why}"))
    missed = next((each for each in measured.deviations if not each.holds), None)
    if missed is not None:
        why = missed.why or f"it moves by {missed.error:.2g}, allowed {missed.allowed:.2g}"
        return replace(found, status=DIFFERENT, tensor=missed.output, why=why)
    crash = describe_crash(after) if TensorProto.FLOAT16 in narrowed.types.mapping.values() else ""
    return replace(found, remarks=(*found.remarks, crash)) if crash else found


def _of_integers(base: Side, after: Side, narrowed: Narrowed, found: Verification, wanted: Asked) -> Verification:
    """Prove a change of integer types: nodes compute the same at the ends of their ranges, and both models agree
    when run.
    """
    from opshift.passes.types.door import probes
    from opshift.verification.ends import compare_runs, run_ends
    from opshift.verification.verify import apart

    ends = run_ends(probes(base.model, narrowed.types, base.folder))
    if ends.why:
        return replace(found, status=DIFFERENT if ends.node else UNVERIFIED, tensor=ends.node, why=ends.why)
    runs = apart(compare_runs, base, after, wanted)
    said = f"{ends.kinds} kinds of nodes compute the same at the limits of their ranges" if ends.kinds else ""
    remarks = (*found.remarks, *filter(None, [said]))
    if runs.status == DIFFERENT:
        return replace(runs, remarks=remarks)
    return replace(found, remarks=remarks if runs.equal else (*remarks, f"outputs were not compared: {runs.why}"))


def _widen(source: Side, after: Side, types: Types) -> Verification:
    """Prove a change to wider types: run both models, and compare how far outputs move."""
    from opshift.verification.feeding.asked import DRAWN

    if TensorProto.BFLOAT16 in types.mapping and TensorProto.BFLOAT16 in named_types(source.model):  # less rounding
        types = replace(types, budgets={"": BUDGETS[TensorProto.BFLOAT16], **types.budgets})
    measured = compare(source, after, types, DRAWN)
    if measured.why:
        return Verification(UNVERIFIED, why=measured.why)
    missed = next((each for each in measured.deviations if not each.holds), None)
    if missed is not None:
        return Verification(DIFFERENT, tensor=missed.output, why=f"it moves by {missed.error:.2g}")
    moved = (
        f'output "{one.output}" moves by {one.error:.2g}, allowed {one.allowed:.2g}' for one in measured.deviations
    )
    return Verification(EQUAL, engine="onnxruntime", runs=1, remarks=tuple(moved))
