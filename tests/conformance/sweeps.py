"""The sweeps: what becomes of derived cases at each boundary of their operator. What engines compute from the source is what
its converted forms have to compute."""

from __future__ import annotations

from collections.abc import Iterable

from opshift.passes.model import schemas

from opshift.verification import isolation
from opshift.verification.engines import EngineError
from tests.conformance.cases import Case, digest
from tests.conformance.judge import UNJUDGED, Verdict, checked, judge
from tests.conformance.sweep.bases import OLDEST, Base, version
from tests.conformance.sweep.calling import Calling, guarded, plain, timed
from tests.conformance.sweep.changes import SWEEPS
from tests.conformance.sweep.declared import Change, declared, every
from tests.conformance.sweep.source import settled
from tests.undefined import undefined


def derived(changes: Iterable[Change], calling: Calling = plain) -> list[Case]:
    """The cases that changes make and some engine runs, each once."""
    found: dict[str, Case] = {}
    for change in changes:
        if not change.forms or _is_open(change, calling):
            continue
        outputs = settled(change, calling)
        if outputs is None or checked(declared(change, "", (), every, *outputs).model):
            continue  # where onnx.checker takes it only with sizes untold, what engines run says nothing
        for case in (declared(change, *form, *outputs) for form in change.forms):
            if not checked(case.model):
                found.setdefault(digest(case), case)
    return list(found.values())


def _is_open(change: Change, calling: Calling) -> bool:
    """Whether texts leave open what comes out; of what does not come to an end they say nothing."""
    try:
        return bool(calling(undefined, change.bare.model, change.given))
    except EngineError:
        return True


def verdicts(of: Iterable[Base], sweep: str) -> list[Verdict]:
    """What becomes of all that a sweep makes of cases."""
    return _verdicts([change for base in of for change in SWEEPS[sweep](base)])


def _verdicts(changes: list[Change]) -> list[Verdict]:
    """What becomes of what changes make; where an engine ends its process, or does not end, of less and less at once."""
    try:
        return isolation.call(_judged, changes, timed)
    except isolation.Ended:
        if len(changes) == 1:
            return _judged(changes, guarded)
        half = len(changes) // 2
        return [*_verdicts(changes[:half]), *_verdicts(changes[half:])]


def _judged(changes: list[Change], calling: Calling) -> list[Verdict]:
    found = []
    for case in derived(changes, calling):
        for target in targets(case):
            try:
                found.append(calling(judge, case, target, strict=True))
            except EngineError as ended:
                found.append(Verdict(case.name, case.release, case.opset, target, UNJUDGED, str(ended)))
    return found


def targets(case: Case) -> list[int]:
    """Just behind the next boundary of the operator of a case in both directions, and behind the last one."""
    (op,) = case.ops
    _, own = version(case)
    above = [first for first in schemas.versions("", op) if first > case.opset]
    below = [side for side in (OLDEST, own - 1) if OLDEST <= side < own]
    return sorted({*below, *above[:1], *above[-1:]})
