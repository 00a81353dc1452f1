"""Compare a part with the whole model, a joined model with its two models, and a batch with its samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opshift.passes import progress
from opshift.passes.changes import Batch
from opshift.passes.records import dataclass, replace
from opshift.verification import isolation
from opshift.verification.engines import ENGINES, EngineError, Feeds
from opshift.verification.feeding import inputs as feeding
from opshift.verification.feeding.asked import Asked
from opshift.verification.side import Side
from opshift.verification.verdict import UNVERIFIED, Verification
from opshift.verification.whole import OutputJudge, Run, in_first_engine


@dataclass(frozen=True)
class Captured:
    """Values of a model, captured in several runs; or why it was not run.

    Attributes:
        given: the inputs of each run.
        values: the wanted values of each run, by name.
        engine: the name of the engine.
        why: why the model was not run; empty if it was.
    """

    given: tuple[Mapping[str, Any], ...] = ()
    values: tuple[Mapping[str, Any], ...] = ()
    engine: str = ""
    why: str = ""


def capture(whole: Side, names: Sequence[str], wanted: Asked) -> Captured:
    """Run a model in a process of its own, and keep its inputs and the values of these names."""
    try:
        return isolation.call(_capture, whole, names, wanted)
    except (isolation.Ended, EngineError) as error:
        return Captured(why=str(error))


def _capture(whole: Side, names: Sequence[str], wanted: Asked) -> Captured:
    """Do the work of `capture`, in its process."""
    outputs = [value.name for value in whole.model.graph.output]
    more = [name for name in names if name not in outputs]

    def run(side: Side) -> Captured:
        """Run the model in the engine of a side."""
        session = side.open(more)
        progress.tell("run the whole model")
        runs = list(feeding.running(side, session.run, wanted))
        by_name = [dict(zip([*outputs, *more], fed.outputs, strict=True)) for fed in runs]
        values = tuple({name: run[name] for name in names} for run in by_name)
        return Captured(tuple(fed.given for fed in runs), values, session.engine)

    return in_first_engine(run, whole)


def verify_part(part: Side, captured: Captured) -> Verification:
    """Run an extracted part on values that the whole model had there, and compare its outputs with those of the whole.

    Used by `opshift extract`, in another process.
    """
    if captured.why:
        return Verification(UNVERIFIED, why=captured.why)
    names = [value.name for value in part.model.graph.output]
    taken = {value.name for value in part.model.graph.input}
    side = replace(part, engine=next(one for one in ENGINES if one.engine == captured.engine))
    session, judge = side.open(), OutputJudge(side, "exact", {}, names)
    judge.found.engine = captured.engine
    for number, (given, values) in enumerate(zip(captured.given, captured.values, strict=True)):
        progress.tell("run the part", number + 1, len(captured.given))
        fed = {name: value for name, value in {**given, **values}.items() if name in taken}
        try:
            actual = session.run(fed)
        except EngineError as error:
            judge.fail(fed, f"the part fails: {error}")
            break
        # `judge` measures the noise with the part, so `actual` comes first
        if not judge.add(fed, actual, [values[name] for name in names]):
            break
    return judge.found.answer(judge.found.status)


@dataclass(frozen=True)
class Names:
    """The names of inputs and outputs of two models in the joined model."""

    first: Mapping[str, str]
    second: Mapping[str, str]


def verify_in_turn(
    first: Side, second: Side, joined: Side, passed: Mapping[str, str], names: Names, wanted: Asked, grade: str
) -> Verification:
    """Run a merged model, then its two models one after the other, and compare outputs.

    Used by `opshift merge`, in another process.

    Args:
        first, second, joined: the models.
        passed: for each input of the second model, the output or input of the first that it reads.
        names: the names of inputs and outputs of both models in the joined one.
        wanted: the user's options about the inputs of the joined model.
        grade: `exact`, or `close` if one of the models was converted.
    """
    outputs = [[value.name for value in side.model.graph.output] for side in (first, second)]
    shown = [value.name for value in joined.model.graph.output]

    def run(*sides: Side) -> Verification:
        """Run all three models in one engine."""
        one, other, both = (side.open() for side in sides)
        judge = OutputJudge(sides[2], grade, wanted.tolerances, shown)
        judge.found.engine = both.engine
        for fed in feeding.running(sides[2], both.run, wanted):
            progress.tell("run one model after the other", judge.found.runs + 1, 0)
            given = {own: fed.given[name] for own, name in names.first.items() if name in fed.given}
            first_outputs = dict(zip(outputs[0], one.run(given), strict=True))
            later = {own: fed.given[name] for own, name in names.second.items() if name in fed.given}
            later |= {
                taken: first_outputs[name] if name in first_outputs else given[name] for taken, name in passed.items()
            }
            last = dict(zip(outputs[1], other.run(later), strict=True))
            expected = {names.first[own]: value for own, value in first_outputs.items() if own in names.first}
            expected |= {names.second[own]: value for own, value in last.items()}
            if not judge.add(fed.given, fed.outputs, [expected[name] for name in shown]):
                break
        return judge.found.answer(judge.found.status)

    return in_first_engine(run, first, second, joined)


def verify_samples(before: Side, after: Side, of: Batch, values: Feeds, *, grade: str, wanted: Asked) -> Verification:
    """Run the second model on a batch, and the first on one sample after the other. Used for `--rebatch`."""
    names = [value.name for value in before.model.graph.output]

    def by_samples(run: Run) -> Run:
        return lambda given: once_a_sample(run, {**given, **values}, of, names)

    def run(*sides: Side) -> Verification:
        """Run both models in one engine."""
        one, other = (side.open() for side in sides)
        judge = OutputJudge(sides[0], grade, wanted.tolerances, names, by_samples)
        judge.found.engine = f"{other.engine}, the source once a sample"
        for fed in feeding.running(sides[1], other.run, wanted):
            progress.tell("run the source once a sample", judge.found.runs + 1, 0)
            if not judge.add(fed.given, by_samples(one.run)(fed.given), fed.outputs):
                break
        return judge.found.answer(judge.found.status)

    return in_first_engine(run, before, after)


def once_a_sample(run: Run, given: Feeds, of: Batch, names: Sequence[str]) -> list[Any]:
    """Run a model with batch size `of.size` over all samples, and join the outputs; the last batch is padded."""
    import numpy as np

    count = min(given[name].shape[axis] for name, axis in of.inputs.items() if name in given)
    parts = []
    for start in range(0, count, of.size):
        places = np.minimum(np.arange(start, start + of.size), count - 1)
        parts.append(run({n: np.take(v, places, axis=of.inputs[n]) if n in of.inputs else v for n, v in given.items()}))
    if not parts:
        raise EngineError("the batch is empty")
    outputs = []
    for index, name in enumerate(names):
        axis = of.outputs.get(name)
        values = [part[index] for part in parts]
        outputs.append(values[0] if axis is None else np.concatenate(values, axis=axis).take(range(count), axis=axis))
    return outputs
