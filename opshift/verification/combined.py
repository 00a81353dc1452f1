"""Combine regions and whole models into one answer: equal, different, or not proved."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from time import process_time  # what else the machine does decides nothing

from opshift.files import external
from opshift.passes import progress
from opshift.passes.analysis.scope import of_model
from opshift.passes.model import imports
from opshift.passes.model.formats import FORMATS
from opshift.passes.model.named_types import named_types
from opshift.passes.model.types import element_name
from opshift.passes.records import replace
from opshift.verification import interfaces
from opshift.verification.aligning import align
from opshift.verification.bounds import FLIPS
from opshift.verification.engines import EngineError
from opshift.verification.feeding.asked import DRAWN, Asked
from opshift.verification.proof import CAPTURED, Failure, Manner, Prover
from opshift.verification.regions import Body
from opshift.verification.side import Side
from opshift.verification.verdict import DIFFERENT, EQUAL, UNCOVERED, UNVERIFIED, Verification, shorten
from opshift.verification.whole import WholeRun, bound_loops, draw_inputs, run_whole, runnable_part


def verify_sides(
    before: Side,
    after: Side,
    *,
    grade: str = "exact",
    wanted: Asked = DRAWN,
    plain: bool = True,
    promise: bool = False,
    rounded_to: int = 0,
) -> Verification:
    """Compare two models; `grade` sets how far apart they may be (see `opshift.verification.bounds`).

    Args:
        before, after: the models.
        grade: `exact` or `close`.
        wanted: the user's options about inputs, engines and tolerances.
        plain: whether nothing was folded or optimized; then NaN and infinities have to agree if the grade is exact.
        promise: whether opshift made the second model, so that equal names mean equal values; else they may not.
        rounded_to: the type in which the first model computes, if the second stores it in a wider one; else 0.
    """
    before, after = (replace(side, model=bound_loops(side.model)) for side in (before, after))
    before, after, why, remarks = interfaces.match(before, after, wanted)
    if why:
        return Verification(DIFFERENT, why=why)
    for side in (before, after):
        if side.folder is not None and (missing := external.find_lost(side.model, side.folder)):
            return Verification(UNVERIFIED, why=missing)
    started = process_time()
    whole = run_whole(before, after, grade, wanted, rounded_to=rounded_to)
    if wanted.sets and not whole.engine and not whole.is_different:
        return Verification(UNVERIFIED, why=whole.why, remarks=tuple(remarks))
    fails = whole.is_different and whole.why.startswith("the second model")
    if before.network is not None and not whole.engine and not whole.is_different:
        return Verification(UNVERIFIED, why=whole.why, remarks=tuple(remarks))
    if rounded_to:
        remarks.append(f"compared in {element_name(rounded_to)}, in which the first model computes")
    if wanted.engines or wanted.tolerances or whole.cast or rounded_to or (fails and not promise):
        return whole.answer(whole.status, (), remarks)
    seconds = max(_LEAST_SECONDS, process_time() - started)
    manner = Manner(grade, plain and promise, seconds, wanted.seed, wanted.ranges, promise)
    with suppress(EngineError):
        return _with_regions(before, after, whole, manner, wanted, remarks, promise=promise)
    return whole.answer(whole.status, (), remarks)


_LEAST_SECONDS = 1.0
"""The least time for runs on drawn values."""


def _with_regions(
    before: Side,
    after: Side,
    whole: WholeRun,
    manner: Manner,
    wanted: Asked,
    remarks: Sequence[str],
    *,
    promise: bool,
) -> Verification:
    """Prove the regions that differ, and combine this with the run of the whole models into one answer."""
    if not promise:
        after = align(Body(before), Body(after))
    bodies, feeds, shown = (Body(before), Body(after)), whole.feeds, replace(before, engine=whole.first)
    if not feeds and (part := runnable_part(before)) is not None:
        shown, whole.why = part
        feeds = draw_inputs(shown, wanted)
    prover = Prover(*bodies, feeds, manner, shown=shown)
    findings = prover.prove(_find_retyped(before, after), drawn=promise)
    first = prover.failures
    if not promise and not whole.is_different:
        findings = prover.give_up_names(findings)
    failures = prover.failures
    remarks = [
        *remarks,
        *whole.remarks,
        *(f"{_say_names(list(names))}: {said}" for said, names in prover.remarks.items()),
    ]
    if whole.empty and ((manner.special and manner.grade == "exact") or not promise):
        whole.is_different, whole.why = True, whole.why or whole.empty
    elif whole.empty:
        remarks.append(whole.empty)
    if whole.is_different and not failures and 0 < whole.part <= FLIPS and all(one.status == EQUAL for one in findings):
        # every changed part is the same: rounding moved some elements to the other side of a decision
        remarks.append(f'{whole.part:.2%} of "{whole.tensor}" fell otherwise by rounding: {whole.why}')
        whole.is_different = False
    if failures and not whole.is_different and not promise and not any(one.is_taken for one in failures):
        why = f"{failures[0].why}; no test input took that branch"
        return replace(whole.answer(UNVERIFIED, findings, remarks), why=why)
    if whole.is_different or failures:
        verification = whole.answer(DIFFERENT, findings, remarks)
        return _add_first_difference(verification, first or failures, before, after, wanted)
    uncovered = [verification for verification in findings if verification.status == UNCOVERED]
    open_parts = [
        verification for verification in uncovered if not whole.engine or whole.nan or not verification.is_reached
    ]
    if open_parts:
        one = open_parts[0]
        why = f"{'+'.join(one.after) or '+'.join(one.before)} at {one.values[0]!r} could not be run: {one.why}"
        return replace(whole.answer(UNVERIFIED, findings, remarks), why=why)
    remarks += [
        f'"{verification.values[0]}" could only be tested in the whole models ({verification.why})'
        for verification in uncovered
    ]
    verification = whole.answer(EQUAL, findings, remarks)
    if not whole.engine and whole.why:
        verification = replace(verification, why=whole.why)
    return verification


def _say_names(names: Sequence[str]) -> str:
    """Write the first of the values of which something is said, and how many more there are."""
    return f'"{shorten(names[0])}"{f" and {len(names) - 1} more" if len(names) > 1 else ""}'


def _find_retyped(before: Side, after: Side) -> set[str]:
    """Find values whose type the second model does not have: they are other values there, even under the same name.

    Runs before regions are compared.
    """
    gone = set(named_types(before.model)).difference(named_types(after.model)) & FORMATS.keys()
    if not gone:
        return set()
    scope = of_model(before.model, imports.opsets(before.model).get("", 1))
    names = (name for node in before.model.graph.node for name in node.output if name)
    return {name for name in names if scope.elem_type(name) in gone}


def _add_first_difference(
    found: Verification,
    failures: Sequence[Failure],
    before: Side,
    after: Side,
    wanted: Asked,
) -> Verification:
    """Add to the verification the first region that differs, and write it to the user's folder."""
    if not failures:
        return found
    progress.tell("look for the first value that differs")
    failure = failures[0]
    blamed = tuple(dict.fromkeys(n for one in failures for n in (*one.nodes, *one.made, *one.region.outputs)))
    found = replace(
        found,
        tensor=failure.tensor,
        why=f"{failure.why}, on {failure.label}" if failure.label not in ("", CAPTURED) else failure.why,
        node=failure.made[-1] if failure.made else "",
        op=failure.op,
        parts=failure.nodes,
        blamed=blamed,
        weights=failure.weights,
    )
    if wanted.repro is not None:
        from opshift.verification import repro

        if repro.write(wanted.repro, before, after, failure):
            found = replace(found, repro=wanted.repro)
    return found
