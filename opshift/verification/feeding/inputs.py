"""Inputs to run a model on: those that a user gives, or such as the model takes, seeded."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from opshift.files.writing import scratch
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass, replace
from opshift.passes.specialization.interface import required
from opshift.verification import isolation
from opshift.verification.engines import EngineError, Feeds
from opshift.verification.feeding import files, responding
from opshift.verification.feeding.asked import Asked
from opshift.verification.feeding.filling import FALLBACKS, Choice, undrawable
from opshift.verification.feeding.meanings import meanings
from opshift.verification.feeding.search import Problem, Search
from opshift.verification.feeding.stops import names
from opshift.verification.side import Side

_LONGEST = 60  # seconds of a search: a copy of a process may wait for a thread that it does not have
SIZES = (3, 1, 4)  # what a symbolic dimension becomes, in turn
_MORE = (2, 5, 7)  # where more runs are asked for
_ENDS = 8  # of processes, after which nothing more is tried
_NEAR = 4  # tries of sizes before a search
_ATTEMPTS = 24  # at one set of inputs
_SCALES = (1.0, 2.0**6, 2.0**12, 2.0**18)  # how much larger numbers become where an output does not move
_SIZES = 3  # that are tried as lengths then
_LONG = (64, 512, 4096)  # sizes of axes behind the first, of sound for one
_ROOM = 1 << 18  # elements of an input that is made so long: of images far fewer pixels than of sound

Run = Callable[[Feeds], list[Any]]


@dataclass(frozen=True)
class Fed:
    """A set of inputs, and what the model makes of it."""

    given: dict[str, Any]
    outputs: list[Any]
    choice: Choice

    @property
    def shapes(self) -> dict[str, Any]:
        """The shape of each input; of a single integer, its value."""
        return {name: shape_of(value) for name, value in self.given.items()}


def shape_of(value: Any) -> Any:
    """The shape of an input as a report shows it; of a single integer, its value."""
    if isinstance(value, list):
        return [shape_of(one) for one in value]
    if getattr(value, "size", 0) == 1 and value.dtype.kind in "iu" and not value.ndim:
        return int(value)
    return list(getattr(value, "shape", ()))


def running(side: Side, run: Run, wanted: Asked, *, sought: bool = False) -> Iterator[Fed]:
    """Sets of inputs that a model runs on, with its outputs; `run` is what a session of it does.

    They are `sought` in copies of this process where some are known to end the one that runs them.

    Raises:
        EngineError: there is none that it takes.
    """
    found = []
    kept = run if isolation.forks() and not sought else None
    run = _surviving(run) if sought else run
    for fed in _given(side, run, wanted) if wanted.sets else _found(side, run, wanted, kept):
        found.append(fed.given)
        if wanted.save is not None:  # each as it comes: what ends the process is kept, too
            files.save(wanted.save, found, required(side.model))
        yield fed


def _given(side: Side, run: Run, wanted: Asked) -> Iterator[Fed]:
    """Those of the user; what is left out is drawn, of the sizes that the others have."""
    problem = problem_of(side.model, wanted)
    for number, held in enumerate(wanted.sets[: wanted.runs]):
        choice = Choice(SIZES[0], _sizes(problem, held), seed=wanted.seed + number)
        given = problem.draw(choice) if len(held) < len(problem.taken) else {}
        given = {**given, **held, **wanted.values}
        try:
            yield Fed(given, run(given), choice)
        except EngineError as error:
            raise EngineError(f"{side.named}: the first model does not take the inputs given: {error}") from None


def _sizes(problem: Problem, held: Feeds) -> dict[str, int]:
    """What symbolic dimensions are in inputs that are given."""
    return {
        symbol: held[name].shape[axis]
        for symbol, places in problem.open_dims().items()
        for name, axis in places
        if hasattr(held.get(name), "shape")
    }


def _surviving(run: Run) -> Run:
    """The same in a copy of this process for each run, whose end is an error."""

    def survived(given: Feeds) -> list[Any]:
        try:
            return isolation.call(run, given)
        except isolation.Ended as ended:
            raise EngineError(str(ended)) from None

    return survived


def _found(side: Side, run: Run, wanted: Asked, kept: Run | None) -> Iterator[Fed]:
    """Such as it takes: of small sizes where they fit, else of sizes that are looked for.

    Each number that an input is compared with has its turn, as something else is done for it. `kept` is what runs in
    copies of this process, too.
    """
    nothing_fits = f"{side.named}: no inputs could be found that the first model takes"
    problem = problem_of(side.model, wanted)
    if why := undrawable(problem.taken):
        raise EngineError(f"{nothing_fits}: {why}")
    turns = 1 + max(map(len, problem.meanings.compared.values()), default=0)
    bases: dict[int, Choice] = {}  # that were looked for, by turn
    fits: Choice | None = None
    outputs: list[list[Any]] = []
    for number in range(wanted.runs or len(SIZES if problem.open_dims() else SIZES[:2])):
        turn, seed = number % turns, wanted.seed + number
        size = [*SIZES, *_MORE][number % (len(SIZES) + len(_MORE))]
        plain = Choice(size, turn=turn, seed=seed, wide=number > 0)
        tries = _varied(problem, bases[turn], number, seed) if turn in bases else _tries(plain)
        fed, failure = _first_that_runs(problem, run, tries)
        why = why or failure
        if fed is None and number < turns:
            start = replace(fits or Choice(SIZES[0]), turn=turn, seed=seed)
            base = _searched(side, problem, start, kept)
            if base is not None:
                bases[turn] = base
                fed, _ = _first_that_runs(problem, run, iter([base]))
        if fed is None and fits is not None:
            fed, _ = _first_that_runs(problem, run, _varied(problem, fits, number, seed))
        if fed is not None:
            fits = fits or fed.choice
            outputs.append(fed.outputs)
            yield fed
    if fits is None:
        raise EngineError(f"{nothing_fits}: {why}")
    if wanted.runs is None:
        yield from _moving(problem, run, fits, outputs)


def _moving(problem: Problem, run: Run, fits: Choice, outputs: list[list[Any]]) -> Iterator[Fed]:
    """More sets for what does not move with the inputs: a dead Relu, an index that is always the same."""
    still = responding.unmoved(problem.model, outputs)
    for choice in _stronger(problem, fits, len(outputs)) if still else ():
        fed, _ = _first_that_runs(problem, run, iter([choice]))
        if fed is None or not _is_finite(fed.outputs):
            continue
        left = responding.unmoved(problem.model, [*outputs, fed.outputs])
        if left != still:
            outputs.append(fed.outputs)
            yield fed
        if not left:
            return
        still = left


def _stronger(problem: Problem, fits: Choice, number: int) -> Iterator[Choice]:
    """Other numbers, larger ones, the sizes that there are for integers that may be lengths, and larger sizes."""
    varied = replace(fits, seed=fits.seed + number)
    yield from (replace(varied, scale=scale) for scale in _SCALES)
    yield from _lengths(problem, varied, problem.draw(varied))
    inner = [dim for dim, places in problem.open_dims().items() if any(axis for _, axis in places)]
    for size in _LONG if inner else ():
        larger = replace(varied, sizes={**fits.sizes, **dict.fromkeys(inner, size)})
        try:
            given = problem.draw(larger, _ROOM)
        except EngineError:  # too large
            return
        yield larger
        yield from _lengths(problem, larger, given)


def _lengths(problem: Problem, choice: Choice, given: Feeds) -> Iterator[Choice]:
    """The same with each integer being one of the sizes."""
    sizes = sorted({size for value in given.values() for size in getattr(value, "shape", ())} - {0, 1}, reverse=True)
    for name in problem.numbers():
        if given[name].dtype.kind in "iu":
            yield from (replace(choice, fills={**choice.fills, name: size}) for size in sizes[:_SIZES])


def problem_of(model: ModelProto, wanted: Asked) -> Problem:
    taken = required(model)
    return Problem(model, taken, meanings(model, taken), wanted)


def _tries(choice: Choice) -> Iterator[Choice]:
    return (replace(choice, fallback=fallback) for fallback in FALLBACKS)


def _varied(problem: Problem, base: Choice, number: int, seed: int) -> Iterator[Choice]:
    """What runs, varied: another of the numbers that an input is compared with, and another size of some dimensions.

    Dimensions of one size are changed together before each is changed alone; at last only the numbers are others.
    """
    base = replace(base, turn=number, seed=seed, wide=True)
    compared = problem.meanings.compared
    turned = replace(base, fills={name: fill for name, fill in base.fills.items() if not compared.get(name)})
    held = {dim: base.sizes.get(dim, base.size) for dim in problem.open_dims()}
    alike = [[dim for dim in held if held[dim] == size] for size in dict.fromkeys(held.values())]
    groups = [group for group in alike if len(group) > 1] + [[dim] for dim in held]
    for way in (turned, base)[turned == base :]:
        for group in groups:
            size = held[group[0]]
            for other in (SIZES[number % len(SIZES)], 2, size + number, 2 * size):
                if other != size:
                    yield replace(way, sizes={**base.sizes, **dict.fromkeys(group, other)})
    yield from (turned, base, replace(base, turn=0))


def _first_that_runs(problem: Problem, run: Run, choices: Iterator[Choice]) -> tuple[Fed | None, str]:
    why = ""
    for choice in islice(choices, _ATTEMPTS):
        try:
            given = problem.draw(choice)
            fed = Fed(given, run(given), choice)
            if choice.wide and not _is_finite(fed.outputs):  # too large for what is computed of them
                choice = replace(choice, wide=False)
                given = problem.draw(choice)
                fed = Fed(given, run(given), choice)
            return fed, ""
        except EngineError as error:
            why = why or str(error)
            if choice.wide and problem.meanings.is_any:  # they may be too large for what is done with them
                found, _ = _first_that_runs(problem, run, iter([replace(choice, wide=False)]))
                if found is not None:
                    return found, ""
    return None, why


def _is_finite(values: Sequence[Any]) -> bool:
    """Whether no float is NaN or infinite, as far as these are arrays."""
    import numpy as np

    arrays = [value for value in values if isinstance(value, np.ndarray) and value.dtype.kind in "fc"]
    return all(np.isfinite(value).all() for value in arrays)


def _searched(side: Side, problem: Problem, first: Choice, run: Run | None = None) -> Choice | None:
    """A choice that fits, looked for in a process of its own: what is tried may end it.

    Of inputs that are only numbers to compute with, the next sizes are as harmless as the first ones were.
    """
    if run is not None and not problem.numbers() and not problem.meanings.is_any and names(side.model):
        near = Search(problem, side, run=run, tries=_NEAR).find(first)
        if near is not None:
            return near
    with scratch() as folder:
        log, deadly = os.path.join(folder, "tries"), set[int]()
        for _ in range(_ENDS):
            try:
                return isolation.call(_search, side, problem, first, log, deadly, run)
            except isolation.Ended as ended:
                run = None  # a copy that is stuck is begun afresh, where nothing is open
                if not os.path.exists(log):
                    break
                if not ended.late:
                    deadly.add(int(Path(log).read_text(encoding="ascii")))
    return None


def _search(
    side: Side, problem: Problem, first: Choice, log: str, deadly: Container[int], run: Run | None = None
) -> Choice | None:
    isolation.end_after(_LONGEST)
    return Search(problem, side, log, deadly, run).find(first)
