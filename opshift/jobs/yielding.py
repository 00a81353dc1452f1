"""Take back optional changes that the proof rejects, and keep the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from opshift.passes import progress
from opshift.passes.changes import Allowance, Change, Result
from opshift.passes.goals import Goal

if TYPE_CHECKING:
    from opshift.verification.verdict import Verification

MOST_PROOFS, MOST_SECONDS = 10, 60.0
"""How often a result is proved, and how long there is a next time, before all that was optional is taken back."""
_ALIKE = 2
"""At fault so often, a manner of change is taken back wherever it was made."""

Attempt = Callable[[Goal, Allowance], Result]
Prove = Callable[[Result], "Verification"]


class TakenBack(NamedTuple):
    """An optional change that was taken back, and what the proof found with it."""

    change: Change
    why: str


class Yielded(NamedTuple):
    """A proved result, and the changes that were taken back for it."""

    result: Result
    taken_back: tuple[TakenBack, ...]


def take_back(goal: Goal, attempt: Attempt, prove: Prove, whole: Result, seen: Verification) -> Yielded | None:
    """Make the result again without the optional changes that the proof rejects.

    Runs only if the proof of the whole result fails.

    Args:
        goal: what was asked.
        attempt: makes a result of a goal.
        prove: proves a result.
        whole: the result that is not proved.
        seen: what its proof found.

    Returns:
        A result that is proved; None if nothing was optional, or if what the target demands is not proved either.
    """
    all_changes, reasons = whole.optional, dict[tuple[str, str, str], str]()
    started, proofs = perf_counter(), 0
    while whole.optional and proofs < MOST_PROOFS and perf_counter() - started < MOST_SECONDS:
        blamed = _list_blamed_changes(whole.optional, seen)
        if not blamed and not proofs and not prove(_make_without(goal, attempt, (), 0)).equal:
            break  # no optional change is at fault: an engine may not run the source
        for change in blamed or [_find_fault(goal, attempt, prove, whole, reasons.keys())]:
            why = _spell_reason(seen)
            if sum(key[1:] == _key(change)[1:] for key in reasons) + 1 >= _ALIKE:
                reasons["", change.op, change.how] = why
            reasons[_key(change)] = why
        whole = _make_without(goal, attempt, reasons.keys())
        proofs += 1
        progress.tell("verify without the changes that differ", proofs, MOST_PROOFS)
        seen = prove(whole)
        if seen.equal:
            reason_of = {change: _reason(change, reasons) for change in all_changes}
            return Yielded(whole, tuple(TakenBack(change, why) for change, why in reason_of.items() if why))
    if not all_changes:
        return None
    floor = attempt(goal.plain, Allowance())
    if not prove(floor).equal:
        return None
    return Yielded(
        floor, tuple(TakenBack(change, _reason(change, reasons) or _spell_reason(seen)) for change in all_changes)
    )


def _list_blamed_changes(optional: Iterable[Change], seen: Verification) -> list[Change]:
    """List the optional changes of nodes in parts that differ."""
    return [change for change in optional if change.node in seen.blamed]


def _find_fault(
    goal: Goal, attempt: Attempt, prove: Prove, whole: Result, withheld: Iterable[tuple[str, str, str]]
) -> Change:
    """Find one change at fault by halving the list of changes: the proof fails with it and holds without it.

    Used if the proof names no node at fault.
    """
    proved, failing, fault = 0, len(whole.optional), whole.optional[-1]
    until = perf_counter() + MOST_SECONDS / 4
    while failing - proved > 1 and perf_counter() < until:
        middle = (proved + failing) // 2
        progress.tell("find the change that differs", len(whole.optional) - failing + proved, len(whole.optional))
        part = _make_without(goal, attempt, withheld, middle)
        if prove(part).equal:
            proved = middle
        else:
            failing, fault = middle, part.optional[-1]
    return fault


def _make_without(
    goal: Goal, attempt: Attempt, withheld: Iterable[tuple[str, str, str]], most: int | None = None
) -> Result:
    """Make the result without some changes; `most`: with only the first of the others."""
    return attempt(goal, Allowance(frozenset(withheld), most))


def _key(change: Change) -> tuple[str, str, str]:
    return change.node, change.op, change.how


def _reason(change: Change, reasons: dict[tuple[str, str, str], str]) -> str:
    return reasons.get(_key(change)) or reasons.get(("", change.op, change.how), "")


def _spell_reason(found: Verification) -> str:
    place = f'"{found.tensor}": ' if found.tensor else ""
    return f"{place}{found.why}" if found.status == "different" else f"not proved: {found.why}"
