"""Choose inputs to run a model on: the user's, or seeded ones such as users would feed."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from time import process_time
from typing import Any

from opshift.passes.inputs.interface import required_inputs
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass, replace
from opshift.verification import trees
from opshift.verification.engines import EngineError, Feeds
from opshift.verification.feeding import files
from opshift.verification.feeding.asked import Asked
from opshift.verification.feeding.filling import FALLBACKS, Choice
from opshift.verification.feeding.meanings import meanings
from opshift.verification.feeding.search import Problem, Run, Search, name_nodes_by_number
from opshift.verification.feeding.sizes import BATCH, Plan, roles, unite
from opshift.verification.side import Side

_LEISURE = 1.0  # seconds for the first two sets of a search, in which there is a third one
_ATTEMPTS = 24  # at one set of inputs
_WITHOUT = 6  # sets that are tried where outputs hold no numbers


@dataclass(frozen=True)
class Fed:
    """A set of inputs, and the outputs of the first model for it."""

    given: dict[str, Any]
    outputs: list[Any]
    choice: Choice


def shape_of(value: Any) -> Any:
    """Describe an input for reports by its shape; a single integer by its value."""
    if isinstance(value, list):
        return [shape_of(one) for one in value]
    if getattr(value, "size", 0) == 1 and value.dtype.kind in "iu" and not value.ndim:
        return int(value)
    return list(getattr(value, "shape", ()))


def running(
    side: Side,
    run: Run,
    wanted: Asked,
    *,
    beside: ModelProto | None = None,
    single: bool = False,
) -> Iterator[Fed]:
    """Yield sets of inputs that a model runs on, with its outputs. Every proof begins with this.

    The first two sets differ in every dynamic size. A set whose float outputs are all NaN is used only if no other is
    found.

    Args:
        side: the model, and the engine that runs it.
        run: runs a session of the model.
        wanted: what the user says of the inputs.
        beside: a second model, which is to take the same inputs.
        single: whether to draw one sample a set.

    Raises:
        EngineError: the model takes no inputs that could be found, or the second model takes others.
    """
    yielded = []
    problem = problem_of(side.model, wanted, beside)
    if single:
        dims = roles(problem.taken, problem.free_dims())
        samples = dict.fromkeys((dim for dim, role in dims.items() if role == BATCH), 1)
        problem = replace(problem, wanted=replace(wanted, sizes={**wanted.sizes, **samples}))

    def open_marked() -> Run:
        """Open the model with nodes whose numbers an error tells. Used where no usual inputs fit."""
        return replace(side, model=name_nodes_by_number(side.model)).open().run

    for fed in _complete_given(side, run, problem) if wanted.sets else _search_feeds(side, run, problem, open_marked):
        yielded.append(fed.given)
        if wanted.save is not None:  # each as it comes: what ends the process is kept, too
            files.save(wanted.save, yielded, required_inputs(side.model))
        yield fed


def problem_of(model: ModelProto, wanted: Asked, beside: ModelProto | None = None) -> Problem:
    """Describe the inputs of a model, with the sizes that the model `beside` it has fixed.

    Runs before inputs are drawn.
    """
    taken = required_inputs(model)
    if beside is not None:
        kept = {name: value_type for name, value_type in taken.items() if name not in wanted.values}
        others = {name: value_type for name, value_type in required_inputs(beside).items() if name not in wanted.values}
        taken = {**taken, **unite(kept, others)}
    return Problem(model, taken, meanings(model, taken), wanted)


def _complete_given(side: Side, run: Run, problem: Problem) -> Iterator[Fed]:
    """Yield the inputs that the user gave; draw those that are left out, in the sizes that the others have.

    Runs if the user gave inputs.
    """
    wanted = problem.wanted
    all_given = all(len(held) >= len(problem.taken) for held in wanted.sets)
    usual = {} if all_given else next(_plan(side, problem).sizes(0))
    for number, held in enumerate(wanted.sets[: wanted.runs]):
        choice = Choice(sizes={**usual, **_sizes(problem, held)}, seed=wanted.seed + number)
        given = {} if all_given else problem.draw(choice)
        given = {**given, **held, **wanted.values}
        try:
            yield Fed(given, run(given), choice)
        except EngineError as error:
            raise EngineError(
                f"{side.engine_name}: the first model does not accept the given inputs: {error}"
            ) from None


def _sizes(problem: Problem, held: Feeds) -> dict[str, int]:
    """Read the sizes of dimensions from inputs that are given. Used before missing inputs are drawn."""
    return {
        symbol: held[name].shape[axis]
        for symbol, places in problem.open_dims().items()
        for name, axis in places
        if hasattr(held.get(name), "shape")
    }


def _plan(side: Side, problem: Problem) -> Plan:
    return Plan(side, problem.taken, problem.free_dims(), problem.shape_of)


def _search_feeds(side: Side, run: Run, problem: Problem, open_marked: Callable[[], Run]) -> Iterator[Fed]:
    """Yield inputs of the sizes that users feed; search for others where the model does not run on these.

    Each run feeds another number that the model compares an input with, as the model may take another branch for it.
    """
    wanted, why = problem.wanted, ""
    turns = 1 + max(map(len, problem.meanings.compared.values()), default=0)
    plan, bases, fits = _plan(side, problem), dict[int, Choice](), list[Choice]()
    count = wanted.runs or (3 if problem.open_dims() else 2)
    until = process_time() + _LEISURE
    for number in range(count):
        if number > 1 and not wanted.runs and len(fits) > 1 and process_time() > until:
            break
        turn, fed = number % turns, None
        start = Choice(turn=turn, seed=wanted.seed + number)
        starts = [replace(start, sizes=sizes) for sizes in plan.sizes(number)]
        if turn not in bases:
            others = (replace(starts[0], fallback=fallback) for fallback in FALLBACKS[1:])
            fed, failure = _try_choices(problem, run, _distinct([*starts, *others]))
            why = why or failure
        if fed is None and number < turns:
            base = Search(problem, open_marked(), side.folder).find(starts[0])
            if base is not None:
                bases[turn] = base
                fed, _ = _try_choices(problem, run, [base])
        if fed is None and (base := bases.get(turn) or next(iter(fits), None)) is not None:
            fed, _ = _try_choices(
                problem, run, _near(plan, replace(base, turn=turn, seed=start.seed), number, problem.meanings.compared)
            )
        if fed is not None:
            fits.append(fed.choice)
            yield fed
    if not fits:
        raise EngineError(f"{side.engine_name}: found no inputs that the first model accepts: {why}")
    if not wanted.runs and trees.is_classical(side.model):
        yield from _feed_many_rows(problem, run, plan, fits[0])


def _feed_many_rows(problem: Problem, run: Run, plan: Plan, base: Choice) -> Iterator[Fed]:
    """Yield one set of many rows, if a classical model takes them. Runs after the other sets."""
    batch = [dim for dim, role in plan.roles.items() if role == BATCH]
    choice = replace(base, sizes={**base.sizes, **dict.fromkeys(batch, trees.WHOLE_ROWS)})
    with suppress(EngineError):
        if batch:
            given = problem.draw(choice)
            yield Fed(given, run(given), choice)


def _near(plan: Plan, base: Choice, number: int, compared: Container[str]) -> Iterator[Choice]:
    """Yield choices near one that runs: multiples of its sizes, and several samples, as far as the model takes them.

    Inputs that are `compared` with constants first lose the number that the search found for them: each run feeds
    another of these constants.
    """
    batches = {dim: size for dim, size in list(plan.sizes(number))[-1].items() if plan.roles[dim] == BATCH}
    turned = replace(base, fills={name: fill for name, fill in base.fills.items() if name not in compared})
    places = {role: place for place, role in enumerate(sorted({*plan.roles.values()} - {BATCH}))}
    for spread, times, more in ((1, 1 + number, 0), (0, 1 + number, 0), (0, 1, number), (0, 1, 0)):
        sizes = dict(base.sizes)
        for dim in sizes.keys() - batches.keys():
            sizes[dim] = sizes[dim] * (times + spread * places.get(plan.roles.get(dim, ""), 0)) + more
        for samples in (batches, {}):
            yield from _distinct([replace(one, sizes={**sizes, **samples}) for one in (turned, base)])
    yield replace(base, turn=0)


def _distinct(choices: Sequence[Choice]) -> Iterator[Choice]:
    return (choice for number, choice in enumerate(choices) if choice not in choices[:number])


def _try_choices(problem: Problem, run: Run, choices: Iterable[Choice]) -> tuple[Fed | None, str]:
    """Run choices until outputs hold numbers; return the first that ran if none does, and the first error."""
    without, why = list[Fed](), ""
    for choice in islice(choices, _ATTEMPTS):
        try:
            given = problem.draw(choice)
            fed = Fed(given, run(given), choice)
        except EngineError as error:
            why = why or str(error)
            continue
        if not _has_no_number(fed.outputs):
            return fed, ""
        without.append(fed)
        if len(without) == _WITHOUT:
            break
    return next(iter(without), None), why


def _has_no_number(values: Sequence[Any]) -> bool:
    """Tell whether all floats are NaN or infinite, or all outputs are empty.

    Such a run proves nothing, so other inputs are tried.
    """
    import numpy as np

    if values and all(getattr(value, "size", 1) == 0 for value in values):
        return True
    floats = [value for value in values if isinstance(value, np.ndarray) and value.dtype.kind in "fc" and value.size]
    return bool(floats) and not any(np.isfinite(value).any() for value in floats)
