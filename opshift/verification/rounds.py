"""Rounds of their own: numbers and sizes at which forms of one function may part, though they agree elsewhere.

Zeros, denormals, infinities, NaN, the extremes of types; sizes 0 and 1. Where the first does not run, nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from opshift.verification import isolation
from opshift.verification.compare import compare
from opshift.verification.engines import EngineError, Feeds, OnnxRuntime, Reference
from opshift.verification.feeding.inputs import Fed
from opshift.verification.feeding.search import Problem
from opshift.verification.side import Side

Run = Callable[[Feeds], list[Any]]
Round = tuple[str, Feeds]
_SECONDS = 0.25  # for all rounds, or half as long as the ordinary runs took
_DENORMALS = 64  # elements that may be denormal: processors take their time for each
_LIMIT = 20  # seconds that the other engine has for its opinion, and a round for its end


@dataclass(frozen=True)
class Parting:
    """A round in which two forms part: which, where, and how."""

    round: str
    tensor: str
    why: str
    number: int = 0

    def __str__(self) -> str:
        return f"with {self.round}, {self.why}{f' ({self.tensor!r})' if self.tensor else ''}"


@dataclass(frozen=True)
class Tried:
    """The rounds in which both ran, where they part, and where an engine alone is to blame."""

    rounds: tuple[str, ...] = ()
    partings: tuple[Parting, ...] = ()
    excused: tuple[Parting, ...] = ()


def tried(sides: tuple[Side, Side], runs: tuple[Run, Run], problem: Problem, fed: Fed, seconds: float) -> Tried:
    """Run both in each round, in a process of its own, as long as there is time; `fed` is what both have run on."""
    if not isolation.forks():  # sessions cannot be sent to another process
        return Tried()
    until = perf_counter() + max(_SECONDS, seconds / 2)
    names = [value.name for value in sides[0].model.graph.output]
    rounds = list(_rounds(problem, fed))
    try:
        outcomes = isolation.call(_all, runs, rounds, names, until)
    except isolation.Ended:
        outcomes = [outcome for one in rounds for outcome in _alone(runs, one, names, until)]
    partings = [outcome for outcome in outcomes if outcome.why]
    agreed = [_is_agreed(sides, rounds[parting.number][1], parting, names) for parting in partings]
    return Tried(
        tuple(dict.fromkeys(outcome.round for outcome in outcomes)),
        tuple(parting for parting, real in zip(partings, agreed, strict=True) if real),
        tuple(parting for parting, real in zip(partings, agreed, strict=True) if not real),
    )


def _all(runs: tuple[Run, Run], rounds: Sequence[Round], names: Sequence[str], until: float) -> list[Parting]:
    """What came of each round in which the first model runs."""
    isolation.end_after(math.ceil(max(until - perf_counter(), 0)) + _LIMIT)
    found = []
    for number, (name, given) in enumerate(rounds):
        outcome = _compared(*runs, given, names) if perf_counter() < until else None
        if outcome is not None:
            found.append(replace(outcome, round=name, number=number))
    return found


def _alone(runs: tuple[Run, Run], one: Round, names: Sequence[str], until: float) -> list[Parting]:
    """The same of one round; nothing is known of what ends the process, which may be the first model's doing."""
    try:
        return isolation.call(_all, runs, [one], names, until)
    except isolation.Ended:
        return []


def _compared(first: Run, second: Run, given: Feeds, names: Sequence[str]) -> Parting | None:
    """Where two forms part on the same inputs; nothing where the first does not run."""
    try:
        expected = first(given)
    except EngineError:
        return None
    try:
        actual = second(given)
    except EngineError as error:
        return Parting("", "", f"the second model fails: {error}")
    for name, a, b in zip(names, expected, actual, strict=True):
        found = compare(a, b)
        if not found.equal and compare(a, first(given)[names.index(name)]).equal:  # nothing is drawn
            return Parting("", name, found.why)
    return Parting("", "", "")


def _is_agreed(sides: tuple[Side, Side], given: Feeds, seen: Parting, names: Sequence[str]) -> bool:
    """Whether the other engine parts them, too: engines compute some special values otherwise than the texts say."""
    other = Reference if sides[0].engine is OnnxRuntime else OnnxRuntime
    try:
        before, after = (replace(side, engine=other) for side in sides)
        found = isolation.call(_opinion, (before, after), given, names)
    except isolation.Ended:
        return False
    return found is not None and bool(found.why) and bool(found.tensor) == bool(seen.tensor)


def _opinion(sides: tuple[Side, Side], given: Feeds, names: Sequence[str]) -> Parting | None:
    isolation.end_after(_LIMIT)
    try:
        first, second = (side.open().run for side in sides)
    except EngineError:
        return None
    return _compared(first, second, given, names)


def _rounds(problem: Problem, fed: Fed) -> Iterator[tuple[str, Feeds]]:
    for name, numbers in _NUMBERS.items():
        given = {key: _holding(value, numbers) if _is_open(problem, key) else value for key, value in fed.given.items()}
        if any(given[key] is not fed.given[key] for key in given):
            yield name, given
    held = {dim: fed.choice.sizes.get(dim, fed.choice.size) for dim in problem.open_dims()}
    for size in (0, 1):
        for dims in dict.fromkeys([tuple(held), *((dim,) for dim in held)]):
            if dims and any(held[dim] != size for dim in dims):
                choice = replace(fed.choice, sizes={**fed.choice.sizes, **dict.fromkeys(dims, size)})
                yield f"size {size}", problem.draw(choice)


def _is_open(problem: Problem, name: str) -> bool:
    """Whether an input may hold any number."""
    return problem.wanted.range_of(name) is None and name not in problem.meanings.used


_NUMBERS: dict[str, Callable[[Any], list[float]]] = {
    "infinities": lambda of: [float("inf"), -float("inf"), 1.0, -2.5],
    "NaN": lambda of: [1.0, float("nan"), -0.5, 3.0],
    "zeros and denormals": lambda of: [0.0, -0.0, of.smallest_subnormal, -of.smallest_subnormal, of.tiny, 1.0],
    "extremes": lambda of: [of.max, of.min, 1.0, of.eps, -of.tiny, -1.0],
}


def _holding(value: Any, numbers: Callable[[Any], list[float]]) -> Any:
    """An array of the same type and shape that holds these numbers in turn; extremes alone for integers."""
    import numpy as np

    if not isinstance(value, np.ndarray) or not value.size or value.dtype.isbuiltin != 1:
        return value
    if value.dtype.kind == "f":
        of = np.finfo(value.dtype)
        with np.errstate(all="ignore"):
            made = np.resize(np.array(numbers(of), value.dtype), value.shape)
        made.reshape(-1)[_DENORMALS:][np.abs(made.reshape(-1)[_DENORMALS:]) < of.tiny] = 0
        return made
    if value.dtype.kind in "iu" and numbers is _NUMBERS["extremes"]:
        held = np.iinfo(value.dtype)
        whole = [held.max, held.min, 1, held.max - 1, *(n for n in (2**24 + 1, 2**53 + 1) if n < held.max)]
        return np.resize(np.array(whole, value.dtype), value.shape)
    return value
