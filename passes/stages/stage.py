"""The shape of a stage, what is known of a model between stages, and the loop that applies them."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import Protocol

from opshift.passes import progress
from opshift.passes.changes import Allowance, Result, StageReport
from opshift.passes.model.call_signatures import Survey
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.traversal import Op
from opshift.passes.records import dataclass, field, replace


@dataclass
class Facts:
    """What is known of a model between stages.

    Attributes:
        folder: where external data lie.
        survey: the nodes of the model by kind; None once a stage has changed the model.
        replaced: the operators that were expanded on request, which folding does not bring back.
        settled: what has been done, and need not be done again until a stage changes the model.
    """

    folder: str | None = None
    survey: Survey | None = None
    replaced: frozenset[Op] = frozenset()
    settled: set[str] = field(default_factory=set)


class Stage(Protocol):
    """One thing to do to a model."""

    @property
    def name(self) -> str:
        """What the stage is for, as reports say it: `convert to opset 13`."""
        ...

    @property
    def optional(self) -> bool:
        """Whether the proof may take the changes back. Other stages refuse if they cannot do what they should."""
        ...

    @property
    def settles(self) -> str:
        """A name for work that is done until the model changes; empty if doing it twice may find more."""
        ...

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        """Return a changed copy of the model, the model itself if there is nothing to do, or refusals.

        The stage loop calls it.

        An optional stage makes no change that the allowance withholds, and adds those that it makes to it.
        """
        ...


def apply_stages(stages: Iterable[Stage], source: ModelProto, facts: Facts, allowance: Allowance) -> Result:
    """Apply one stage after the other, until one refuses. This is the loop of every command that changes a model."""
    model, result = source, Result(source, (), ())
    for stage in stages:
        if stage.settles and stage.settles in facts.settled:
            report = StageReport(stage.name, 0, 0.0)
            result = result.join(Result(model, (), (), stages=(report,)))
            continue
        progress.tell(stage.name)
        started = perf_counter()
        done = stage.apply(model, facts, allowance)
        if not done.stages:
            report = StageReport(stage.name, len(done.changes), perf_counter() - started, done.attempt)
            done = replace(done, stages=(report,))
        if done.changes:
            facts.settled.clear()
        facts.settled.add(stage.settles)
        result = result.join(done)
        if done.model is None:
            break
        if done.model is not model:
            model, facts.survey = done.model, None
    return result
