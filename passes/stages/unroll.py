"""Unroll Loops, Scans and recurrent operators, and replace Ifs by Where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opshift.passes.changes import Allowance, Result
from opshift.passes.conversion import convert
from opshift.passes.errors import Refusal
from opshift.passes.model import imports, schemas
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import dataclass, replace
from opshift.passes.specialization.door import LOOPS, Unrolled, select, unroll
from opshift.passes.stages.reach import Reach
from opshift.passes.stages.stage import Facts

UNASKED = 64
"""For a backend, loops of at most so many iterations are unrolled."""
_CONTROL_FLOW = LOOPS | {"If"}
_UNROLLABLE = 9


@dataclass(frozen=True)
class Unroll:
    """Unroll loops of at most `iterations`, and replace Ifs whose branches have at most `nodes` nodes; 0: none."""

    iterations: int = 0
    nodes: int = 0
    optional = False
    settles = "control flow"

    @property
    def name(self) -> str:
        """Name the stage by what it does: unroll, replace If by Where."""
        asked = [f"unroll up to {self.iterations} iterations"] if self.iterations else []
        asked += ["replace If by Where"] if self.nodes else []
        return " and ".join(asked)

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        done = remove_control_flow(model, self.iterations, self.nodes, LOOPS, facts.folder)
        return Result(done.model, done.changes, (), control_flow=done.stays)


@dataclass(frozen=True)
class ReachUnrolled:
    """Convert for a backend; if it lacks loops or If, unroll or replace them, and convert the model again.

    The same happens if a loop that replaces another operator, such as CumSum, is refused.
    """

    reach: Reach
    optional = False
    settles = ""

    @property
    def name(self) -> str:
        return self.reach.name

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        survey = facts.survey
        result, unrolled = self.reach.apply(model, facts, allowance), Result(model, (), ())
        facts.survey = None
        lacked, hopeless = {refusal.op for refusal in result.refusals if not refusal.domain}, False
        if not lacked.isdisjoint(_CONTROL_FLOW):
            nodes = UNASKED if "If" in lacked else 0
            loops = LOOPS if not lacked.isdisjoint(LOOPS) else frozenset[str]()
            newer = _take_to_unrollable_opset(model, facts.folder)
            done = remove_control_flow(newer.model or model, UNASKED, nodes, loops, facts.folder)
            hopeless = self._lacks_what_stays(done)
            if done.changes:
                unrolled = newer.join(Result(done.model, done.changes, ()))
                result = unrolled.join(self._reach_without(done, facts, allowance))
            result = _explain_refusals(result, done)
        if result.model is None and unrolled.model is not None and self.reach.backend is not None and not hopeless:
            # operators that loops replace, such as CumSum: they are replaced first, then these loops are unrolled
            backend = self.reach.backend.with_operators(("", op) for op in _CONTROL_FLOW)
            replaced = replace(self.reach, backend=backend).apply(unrolled.model, facts, allowance)
            if replaced.model is not None:
                done = remove_control_flow(replaced.model, UNASKED, UNASKED, LOOPS, facts.folder)
                worth = done.changes and not self._lacks_what_stays(done)
                again = self._reach_without(done, facts, allowance) if worth else None
                if again is not None and again.model is not None:
                    result = unrolled.join(replaced).join(Result(done.model, done.changes, ())).join(again)
                else:
                    result = replace(result, refusals=tuple(_explain_replaced(result.refusals, done)))
        facts.survey = survey
        return result

    def _lacks_what_stays(self, done: Unrolled) -> bool:
        """Tell whether a loop or an If stayed that the backend has in no version. Converting again is useless then."""
        backend = self.reach.backend
        return backend is not None and any(not backend.has("", stay.op, schemas.latest()) for stay in done.stays)

    def _reach_without(self, done: Unrolled, facts: Facts, allowance: Allowance) -> Result:
        """Convert what is left without control flow."""
        again = self.reach.apply(done.model, facts, allowance)
        return replace(again, attempt="; ".join(filter(None, [again.attempt, "without control flow"])))


def _take_to_unrollable_opset(model: ModelProto, folder: str | None) -> Result:
    """Convert a model of opset 8 or less to opset 13, where recurrent operators and Scan can be unrolled."""
    if imports.opsets(model).get("", schemas.latest()) >= _UNROLLABLE:
        return Result(model, (), ())
    newer = convert.attempt(model, {"": 13}, folder=folder)
    return newer if newer.model is not None else Result(model, (), ())


def _explain_refusals(result: Result, done: Unrolled) -> Result:
    """Add to the refusals of loops and Ifs why they could not be unrolled or replaced."""
    whys = {(refusal.node, refusal.op): refusal.why for refusal in done.stays}
    explained = [
        replace(refusal, why=f"{refusal.why}, and {why}") if (why := whys.get((refusal.node, refusal.op))) else refusal
        for refusal in result.refusals
    ]
    return replace(result, refusals=tuple(explained))


def _explain_replaced(refusals: Iterable[Refusal], done: Unrolled) -> Iterator[Refusal]:
    """Add to refusals of operators that a loop replaces why the loop could not be unrolled."""
    for refusal in refusals:
        for loop in done.stays:
            if loop.op in LOOPS and loop.node.startswith(f"{refusal.node}/"):
                yield replace(refusal, why=f"its replacement needs {loop.op}, and {loop.why}")
                break
        else:
            yield refusal


def remove_control_flow(
    model: ModelProto, iterations: int, nodes: int, ops: frozenset[str], folder: str | None
) -> Unrolled:
    """Unroll loops, replace Ifs by Where, and repeat until nothing changes: each may make the other possible."""
    done = Unrolled(model, (), ())
    while True:
        unrolled = unroll(done.model, iterations, ops, folder) if iterations and ops else Unrolled(done.model, (), ())
        selected = select(unrolled.model, nodes, folder) if nodes else Unrolled(unrolled.model, (), ())
        changes = (*unrolled.changes, *selected.changes)
        done = Unrolled(selected.model, (*done.changes, *changes), (*unrolled.stays, *selected.stays))
        if not selected.changes or not iterations:
            return done
