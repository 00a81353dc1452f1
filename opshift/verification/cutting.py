"""Runs a model with a part of it, or two models in turn, and compares: they compute what the one model does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from opshift.passes import progress
from opshift.passes.model import tensor_data
from opshift.passes.records import dataclass, field, replace
from opshift.verification import isolation
from opshift.verification.bounds import identical
from opshift.verification.engines import ENGINES, EngineError, OnnxRuntime, time_limit
from opshift.verification.feeding import inputs as feeding
from opshift.verification.feeding.asked import Asked
from opshift.verification.side import Side
from opshift.verification.verdict import DIFFERENT, EQUAL, UNVERIFIED, OutputReport, Verification
from opshift.verification.whole import MOST, OutputJudge

_PATIENCE = 15.0
"""Seconds that onnx.reference has for all runs."""


@dataclass(frozen=True)
class Captured:
    """What a model was fed, and what some of its values were, run by run; or why it was not run.

    Attributes:
        given: its inputs.
        values: the values that were asked for, by name.
        engine: what ran it.
        why: it was not run; empty where it was.
    """

    given: tuple[Mapping[str, Any], ...] = ()
    values: tuple[Mapping[str, Any], ...] = ()
    engine: str = ""
    why: str = ""


def too_large(wanted: Asked, *sides: Side) -> str:
    """Say why models are not run: their weights are too large, and the user gives no runs, inputs or engine.

    Empty if they are run.
    """
    size = max(sum(map(tensor_data.nbytes, side.model.graph.initializer)) for side in sides)
    if size > MOST and not (wanted.runs or wanted.sets or wanted.engines):
        return f"{size >> 20} MB of weights; --runs 1 runs it"
    return ""


def capture(whole: Side, names: Sequence[str], wanted: Asked) -> Captured:
    """Run a model in a process of its own, and keep its inputs and the values of these names."""
    try:
        return isolation.call(_capture, whole, names, wanted)
    except isolation.Ended as ended:
        return Captured(why=str(ended))


def _capture(whole: Side, names: Sequence[str], wanted: Asked) -> Captured:
    """Do the work of `capture`, in its process: try each engine until one runs the model."""
    outputs = [value.name for value in whole.model.graph.output]
    more = [name for name in names if name not in outputs]
    reasons = []
    for engine in ENGINES:
        with suppress(EngineError), time_limit(math.inf if engine is OnnxRuntime else _PATIENCE):
            reasons.append("")
            session = _open(replace(whole, engine=engine), more, reasons)
            progress.tell("run the whole model")
            runs = list(feeding.running(replace(whole, engine=engine), session.run, wanted))
            by_name = [dict(zip([*outputs, *more], fed.outputs, strict=True)) for fed in runs]
            values = tuple({name: run[name] for name in names} for run in by_name)
            return Captured(tuple(fed.given for fed in runs), values, session.engine)
    return Captured(why="; ".join(dict.fromkeys(filter(None, reasons))) or "no engine runs the whole model")


def _open(side: Side, more: Sequence[str], reasons: list[str]) -> Any:
    """Open a model with inner values as outputs; keep the engine's error for the report."""
    try:
        return side.open(more)
    except EngineError as error:
        reasons[-1] = str(error)
        raise


def verify_part(part: Side, captured: Captured) -> Verification:
    """Run an extracted part on values that the whole model had there, and compare its outputs with those of the whole.

    Used by `opshift extract`.
    """
    if captured.why:
        return Verification(UNVERIFIED, why=captured.why)
    try:
        return isolation.call(_verify_part, part, captured)
    except isolation.Ended as ended:
        return Verification(UNVERIFIED, why=str(ended))


def _verify_part(part: Side, captured: Captured) -> Verification:
    """Do the work of `verify_part`, in its process."""
    names = [value.name for value in part.model.graph.output]
    taken = {value.name for value in part.model.graph.input}
    feeds = [
        {name: value for name, value in {**given, **values}.items() if name in taken}
        for given, values in zip(captured.given, captured.values, strict=True)
    ]
    engine = next(one for one in ENGINES if one.engine == captured.engine)
    side = replace(part, engine=engine)
    try:
        session = side.open()
    except EngineError as error:
        return Verification(UNVERIFIED, why=str(error))
    judge = OutputJudge(side, "exact", {}, names)
    runs = _Found()
    for number, (fed, values) in enumerate(zip(feeds, captured.values, strict=True)):
        progress.tell("run the part", number + 1, len(feeds))
        try:
            actual = session.run(fed)
        except EngineError as error:
            return runs.verdict(engine.engine, DIFFERENT, f"the part fails: {error}")
        runs.add(judge, fed, [values[name] for name in names], actual)
        if runs.why:
            return runs.verdict(engine.engine, DIFFERENT, runs.why)
    return runs.verdict(engine.engine)


@dataclass
class _Found:
    """What runs tell, output by output."""

    outputs: dict[str, OutputReport] = field(default_factory=dict)
    shapes: list[Mapping[str, Any]] = field(default_factory=list)
    tensor: str = ""
    why: str = ""

    def add(self, judge: OutputJudge, fed: Mapping[str, Any], expected: Sequence[Any], actual: Sequence[Any]) -> None:
        """Add the outputs of one run; the first that differs ends the comparison."""
        self.shapes.append({name: feeding.shape_of(value) for name, value in fed.items()})
        for name, a, b in zip(judge.names, expected, actual, strict=True):
            # what rounding does is measured with the model that yields `actual`
            report = OutputReport(name) if identical(a, b) else judge.output(name, fed, b, a, actual)
            self.outputs[name] = self.outputs[name].worse(report) if name in self.outputs else report
            if report.why and not self.why:
                self.tensor, self.why = name, report.why

    def verdict(self, engine: str, status: str = EQUAL, why: str = "") -> Verification:
        """Make the answer from all runs."""
        reports = tuple(self.outputs.values())
        return Verification(
            status,
            status == EQUAL and all(report.is_same for report in reports),
            engine,
            len(self.shapes),
            inputs=tuple(self.shapes),
            outputs=reports,
            tensor=self.tensor,
            why=why,
        )


def verify_in_turn(
    first: Side, second: Side, joined: Side, passed: Mapping[str, str], names: Names, wanted: Asked, grade: str
) -> Verification:
    """Run a merged model, and the two models that it was made of one after the other, and compare.

    Used by `opshift merge`.

    Args:
        first, second, joined: the models.
        passed: outputs of the first, or inputs, by the inputs of the second that read them.
        names: what inputs and outputs of the two are called in the joined model.
        wanted: what a user says of the inputs of the joined model.
        grade: how far apart outputs may be.
    """
    try:
        return isolation.call(_verify_in_turn, first, second, joined, passed, names, wanted, grade)
    except isolation.Ended as ended:
        return Verification(UNVERIFIED, why=str(ended))


@dataclass(frozen=True)
class Names:
    """What inputs and outputs of two models are called in the one that they are joined to."""

    first: Mapping[str, str]
    second: Mapping[str, str]


def _verify_in_turn(
    first: Side, second: Side, joined: Side, passed: Mapping[str, str], names: Names, wanted: Asked, grade: str
) -> Verification:
    """Do the work of `verify_in_turn`, in its process: try each engine until one runs all three models."""
    reasons = []
    for engine in ENGINES:
        one, other, both = (replace(side, engine=engine) for side in (first, second, joined))
        try:
            with time_limit(math.inf if engine is OnnxRuntime else _PATIENCE):
                return _run_in_turn(one, other, both, passed, names, wanted, grade)
        except EngineError as error:
            reasons.append(str(error))
    return Verification(UNVERIFIED, why="; ".join(dict.fromkeys(reasons)))


def _run_in_turn(
    first: Side, second: Side, joined: Side, passed: Mapping[str, str], names: Names, wanted: Asked, grade: str
) -> Verification:
    """Run the merged model and the two models in turn in one engine, and compare the outputs."""
    one, other, both = first.open(), second.open(), joined.open()
    outputs = [[value.name for value in side.model.graph.output] for side in (first, second)]
    shown = [value.name for value in joined.model.graph.output]
    judge, runs = OutputJudge(joined, grade, wanted.tolerances, shown), _Found()
    for fed in feeding.running(joined, both.run, wanted):
        progress.tell("run one model after the other", len(runs.shapes) + 1, 0)
        given = {own: fed.given[name] for own, name in names.first.items() if name in fed.given}
        first_outputs = dict(zip(outputs[0], one.run(given), strict=True))
        later = {own: fed.given[name] for own, name in names.second.items() if name in fed.given}
        later |= {
            taken: first_outputs[name] if name in first_outputs else given[name] for taken, name in passed.items()
        }
        last = dict(zip(outputs[1], other.run(later), strict=True))
        expected = {names.first[own]: value for own, value in first_outputs.items() if own in names.first}
        expected |= {names.second[own]: value for own, value in last.items()}
        runs.add(judge, fed.given, [expected[name] for name in shown], fed.outputs)
        if runs.why:
            return runs.verdict(both.engine, DIFFERENT, runs.why)
    return runs.verdict(both.engine)
