"""Optional changes yield to the proof: those that make outputs differ are found by bisection, and taken back."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from opshift.passes import progress
from opshift.passes.changes import Change, Result, Withheld
from opshift.passes.goals import Goal
from opshift.passes.records import replace

if TYPE_CHECKING:
    from opshift.verification.verdict import Verification

MOST_TRIES, MOST_SECONDS = 60, 120.0
"""How often a rewritten model is run, and how long there is a next time, before all that was optional is taken back."""
_ALIKE = 2
"""At fault so often, a manner of change is taken back wherever it was made."""

Attempt = Callable[[Goal], Result]
Prove = Callable[[Result], "Verification"]


class TakenBack(NamedTuple):
    """An optional change that the result does without, and what was seen with it."""

    change: Change
    why: str


class Yielded(NamedTuple):
    """A result whose optional changes are all proved, and what was taken back for it."""

    result: Result
    taken_back: tuple[TakenBack, ...]


def yielded(goal: Goal, attempt: Attempt, prove: Prove, whole: Result, seen: Verification) -> Yielded | None:
    """The largest part of `whole`, which is not proved, that is: `seen` says what differs there.

    None if nothing of it is optional, or if what the target demands is not proved either.
    """
    if not whole.optional:
        return None
    floor = attempt(goal.plain)
    if not prove(floor).equal:
        return None
    search = _Search(goal, attempt, prove)
    made, reasons = whole.optional, dict[tuple[str, str, str], str]()
    while search.goes_on() and whole.optional:
        fault, why = search.first_fault(whole, seen)
        alike = [key for key in reasons if key[1:] == _key(fault)[1:]]
        reasons[_key(fault)] = why
        if len(alike) + 1 >= _ALIKE:
            reasons["", fault.op, fault.how] = why
        search.withheld = frozenset(reasons)
        whole = search.refined(None)
        seen = search.proved(whole)
        if seen.equal:
            found = {change: _reason(change, reasons) for change in made}
            return Yielded(whole, tuple(TakenBack(change, why) for change, why in found.items() if why))
    return Yielded(floor, tuple(TakenBack(change, _reason(change, reasons) or _told(seen)) for change in made))


class _Search:
    """Tries parts of what is optional."""

    def __init__(self, goal: Goal, attempt: Attempt, prove: Prove):
        self._goal = goal
        self._attempt = attempt
        self._prove = prove
        self._tries = 0
        self._started = perf_counter()
        self.withheld: Withheld = frozenset()

    def goes_on(self) -> bool:
        return self._tries < MOST_TRIES and perf_counter() - self._started < MOST_SECONDS

    def refined(self, most: int | None) -> Result:
        wanted = replace(self._goal.refinement, withheld=self.withheld, most=most)
        return self._attempt(replace(self._goal, refinement=wanted))

    def proved(self, result: Result) -> Verification:
        self._tries += 1
        progress.tell("look for the change at fault", self._tries, MOST_TRIES)
        return self._prove(result)

    def first_fault(self, whole: Result, seen: Verification) -> tuple[Change, str]:
        """The change with which the first changes are not proved any more, though without it they are."""
        equal, different, fault = 0, len(whole.optional), whole.optional[-1]
        while different - equal > 1 and self.goes_on():
            middle = (equal + different) // 2
            part = self.refined(middle)
            found = self.proved(part)
            if found.equal:
                equal = middle
            else:
                different, fault, seen = middle, part.optional[-1], found
        return fault, _told(seen)


def _key(change: Change) -> tuple[str, str, str]:
    return change.node, change.op, change.how


def _reason(change: Change, reasons: dict[tuple[str, str, str], str]) -> str:
    return reasons.get(_key(change)) or reasons.get(("", change.op, change.how), "")


def _told(found: Verification) -> str:
    place = f'tensor "{found.tensor}": ' if found.tensor else ""
    return f"{place}{found.why}" if found.status == "different" else f"cannot be verified: {found.why}"
