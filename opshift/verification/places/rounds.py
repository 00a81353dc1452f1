"""Rounds of their own: numbers and sizes at which forms of one function may part, though they agree elsewhere.

Zeros, denormals, infinities, NaN, the extremes of types; sizes 0 and 1. Where the first does not run, nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from time import perf_counter, process_time
from typing import Any

from opshift.passes.records import dataclass, replace
from opshift.verification import isolation
from opshift.verification.compare import compare
from opshift.verification.engines import EngineError, Feeds, OnnxRuntime, Reference
from opshift.verification.feeding.inputs import Fed
from opshift.verification.feeding.search import Problem
from opshift.verification.judge import Pair
from opshift.verification.places import locate, repro
from opshift.verification.turns import Turns

Round = tuple[str, Feeds]
_SECONDS = 0.25  # of a processor, for all rounds, or half as long as the ordinary runs took
_DENORMALS = 64  # elements that may be denormal: processors take their time for each
_LIMIT = 20  # seconds that the other engine has for its opinions, and a round for its end


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


def tried(turns: Turns, pair: Pair, problem: Problem, fed: Fed, seconds: float) -> Tried:
    """Run both in each round, in a process of its own, as long as there is time; `fed` is what both have run on."""
    if not isolation.forks():  # sessions cannot be sent to another process
        return Tried()
    seconds = max(_SECONDS, seconds / 2)
    rounds = list(_rounds(problem, fed))
    try:
        outcomes = isolation.call(_all, turns, pair, rounds, seconds)
    except isolation.Ended:
        outcomes = [outcome for one in rounds for outcome in _alone(turns, pair, one, seconds)]
    until, agreed, excused = perf_counter() + _LIMIT, list[Parting](), list[Parting]()
    for parting in (outcome for outcome in outcomes if outcome.why and not agreed):  # one is enough
        real = perf_counter() < until and _is_agreed(pair, rounds[parting.number][1], parting)
        (agreed if real else excused).append(parting)
    return Tried(tuple(dict.fromkeys(outcome.round for outcome in outcomes)), tuple(agreed), tuple(excused))


def _all(turns: Turns, pair: Pair, rounds: Sequence[Round], seconds: float) -> list[Parting]:
    """What came of each round in which the first model runs before its time is over; the second one has as much.

    The time is the processor's: which rounds are run does not hang on what else a machine does.
    """
    isolation.end_after(math.ceil(2 * seconds) + _LIMIT)
    now, expected = process_time(), {}
    for number, (_, given) in enumerate(rounds):
        if process_time() - now < seconds:
            with suppress(EngineError):
                expected[number] = turns.first(given)
    found = []
    for number, values in expected.items():
        if process_time() - now < 2 * seconds:
            outcome = _compared(turns, pair, rounds[number][1], values)
            found.append(replace(outcome, round=rounds[number][0], number=number))
    return found


def _alone(turns: Turns, pair: Pair, one: Round, seconds: float) -> list[Parting]:
    """The same of one round; nothing is known of what ends the process, which may be the first model's doing."""
    try:
        return isolation.call(_all, turns, pair, [one], seconds)
    except isolation.Ended:
        return []


def _compared(turns: Turns, pair: Pair, given: Feeds, expected: Sequence[Any]) -> Parting:
    """Where two forms part on the same inputs."""
    try:
        actual = turns.second(given)
    except EngineError as error:
        return Parting("", "", f"the second model fails: {error}")
    for name, a, b in zip(pair.names, expected, actual, strict=True):
        why = pair.parted(a, b, name)
        if why and compare(a, turns.first(given)[pair.names.index(name)]).equal:  # nothing is drawn
            return Parting("", name, why)
    return Parting("", "", "")


def _is_agreed(pair: Pair, given: Feeds, seen: Parting) -> bool:
    """Whether the other engine parts them, too: engines compute some special values otherwise than the texts say."""
    try:
        found = isolation.call(_opinion, pair, given, seen.tensor)
    except isolation.Ended:
        return False
    return found is not None and bool(found.why) and bool(found.tensor) == bool(seen.tensor)


def _opinion(pair: Pair, given: Feeds, tensor: str) -> Parting | None:
    """What the other engine says; of large models it runs only the part where they differ first."""
    isolation.end_after(_LIMIT)
    other = Reference if pair.before.engine is OnnxRuntime else OnnxRuntime
    try:
        if pair.before.is_large or pair.after.is_large:
            if not tensor:  # the second one fails as a whole
                return None
            place = locate.locate(pair.before, pair.after, given, tensor, pair.parted)
            sides, given = repro.cut(pair.before, pair.after, place.tensor, place.values)
            pair = Pair(sides[0], sides[1], pair.grade)
        turns = Turns(replace(pair.before, engine=other), replace(pair.after, engine=other))
        turns.open()
        return _compared(turns, pair, given, turns.first(given))
    except EngineError:
        return None


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
    wanted, meanings = problem.wanted, problem.meanings
    if name in meanings.used or name in meanings.divided:
        return False
    return wanted.range_of(name) is None and name not in wanted.values


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
