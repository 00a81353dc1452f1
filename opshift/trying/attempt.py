"""Tries what a model becomes for a target in the installed backend, and looks for what makes it run there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from opshift.passes import process, progress
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.changes import Result
from opshift.passes.goals import Goal, operator
from opshift.passes.model import imports
from opshift.passes.model.messages import ModelProto, default_domain
from opshift.passes.model.traversal import bodies
from opshift.trying import smallest
from opshift.trying.remedies import AS_IT_IS, EXPAND, OPSET, OPTIMIZE, SYMBOLS, Remedies
from opshift.trying.search import AGREES, DIFFERS, IMPOSSIBLE, Answer, Bound, Found, Meter, Plan, Remedy, Search
from opshift.trying.smallest import Piece
from opshift.trying.trial import Backend, Expected, expected
from opshift.verification import isolation
from opshift.verification.engines import EngineError
from opshift.verification.feeding.asked import Asked
from opshift.verification.side import Side


@dataclass(frozen=True)
class Learnt:
    """One thing that was found: what a backend does not take, and what was done about it.

    Attributes:
        remedy: what was done.
        operator: what is at fault, `Name` or `domain::Name`; empty where nobody knows.
        call: how it is called, as `with 4-D inputs of symbolic sizes`.
        status, why: what came of it, in the backend's words.
        nodes: how many there are of the operator.
    """

    remedy: Remedy
    operator: str
    call: str
    status: str
    why: str
    nodes: int
    how: str

    def told(self, backend: str) -> str:
        """In a sentence."""
        verb = {"differs": "computes otherwise", "died": "ends at", "hung": "does not come to an end at"}
        subject = self.operator or "the model"
        said = f"{backend} {verb.get(self.status, 'refuses')} {subject}"
        if self.call:
            said += f" {self.call}"
        return f"{said}: {self.how}"


@dataclass(frozen=True)
class Tried:
    """What came of trying a model in an installed backend.

    Attributes:
        backend: its name and release.
        status: `agrees`, or what came of the last attempt.
        why: the words of the backend, or what differs.
        learnt: what was found, and done about it.
        tries: how often something was run.
        as_it_is: whether what the target's file says was left aside.
        node, operator, nodes: where the smallest piece fails, and of how many nodes it is.
        repro: the folder that it was written to.
        bounded: whether the search ended before it was through.
        other: the release that the target's file is about, where it is another one.
    """

    backend: str
    status: str
    why: str = ""
    learnt: tuple[Learnt, ...] = ()
    tries: int = 0
    as_it_is: bool = False
    node: str = ""
    operator: str = ""
    nodes: int = 0
    repro: str = ""
    bounded: bool = False
    other: str = ""

    @property
    def agrees(self) -> bool:
        return self.status == AGREES

    @property
    def lines(self) -> list[str]:
        """What was found, line by line."""
        return [learnt.told(self.backend) for learnt in self.learnt]


@dataclass(frozen=True)
class Manner:
    """How to try: in which backend, how often, how long, and where the smallest piece that fails goes."""

    backend: str
    bound: Bound = field(default_factory=Bound)
    repro: str | None = None
    learn: str | None = None


def attempt(source: Side, goal: Goal, manner: Manner, wanted: Asked) -> tuple[Result, Tried]:
    """The result that the backend runs, or what was refused, with what came of trying it.

    Raises:
        ValueError: there is no such backend.
    """
    backend = Backend(manner.backend)
    try:
        progress.tell("run the source")
        held = expected(source, wanted)
        return _Trying(source, goal, manner, backend, held).run()
    except EngineError as error:
        return goal.attempt(source.model, source.folder), Tried(backend.said, IMPOSSIBLE, f"no source to compare: {error}")
    finally:
        backend.stop()


class _Trying:
    def __init__(self, source: Side, goal: Goal, manner: Manner, backend: Backend, held: Expected):
        self._source, self._manner, self._backend, self._held = source, manner, backend, held
        self._remedies = Remedies(source.model, goal, source.folder)
        self._meter = Meter(manner.bound)
        self._pieces: dict[Plan, Piece | None] = {}
        self._results: dict[Plan, Result] = {}

    def run(self) -> tuple[Result, Tried]:
        remedies = self._remedies
        search = Search(
            self._answer, remedies.helps, remedies.general(), self._blame, remedies.rest(), meter=self._meter
        )
        found = search.run([frozenset(), frozenset({AS_IT_IS})])
        result = self._result(found.plan)
        tried = Tried(
            self._backend.said,
            found.answer.status,
            found.answer.why,
            tuple(self._learnt(found)),
            found.tries,
            AS_IT_IS in found.plan,
        )
        return result, tried if tried.agrees else self._failed(tried, found, result)

    def _result(self, plan: Plan) -> Result:
        if plan not in self._results:
            self._results.clear()  # of a large model, one is enough
            with process.ours():
                self._results[plan] = self._remedies.made(plan)
        return self._results[plan]

    def _answer(self, plan: Plan) -> Answer:
        result = self._result(plan)
        if result.model is None:
            return Answer(IMPOSSIBLE, str(result.refusals[0]) if result.refusals else "")
        progress.tell(f"try it in {self._backend.said}", self._meter.tries + 1, self._manner.bound.tries)
        return self._backend.answer(result.model, self._source.folder, self._held)

    def _blame(self, plan: Plan) -> list[str]:
        piece = self._piece(plan)
        return [] if piece is None else [piece.operator]

    def _piece(self, plan: Plan) -> Piece | None:
        if plan not in self._pieces:
            model = self._result(plan).model
            self._pieces[plan] = (
                None
                if model is None
                else smallest.smallest(model, self._source.folder, self._held.feeds[0], self._fails)
            )
        return self._pieces[plan]

    def _fails(self, piece: ModelProto, feeds: smallest.Feeds) -> Answer:
        """What the backend says of a piece."""
        try:
            outputs = isolation.call(smallest.values_of, piece, feeds)
        except (EngineError, isolation.Ended):
            return Answer(IMPOSSIBLE)
        typed = smallest.typed(piece, outputs)
        self._meter.count()
        return self._backend.answer(typed, None, Expected(Side(typed), (feeds,), (outputs,)))

    def _failed(self, tried: Tried, found: Found, result: Result) -> Tried:
        """With the smallest piece that shows it."""
        piece = self._piece(found.plan) if result.model is not None else None
        repro = ""
        if piece is not None and self._manner.repro is not None:
            repro = self._manner.repro
            command = f"opshift inline model.onnx out.onnx --target {self._backend.name} --try --inputs inputs"
            smallest.write(Path(repro), piece, command, f"{self._backend.said}: {piece.answer.why}")
        if piece is None:
            return replace(tried, bounded=found.bounded)
        return replace(
            tried,
            node=piece.named,
            operator=piece.operator,
            nodes=len(piece.model.graph.node),
            repro=repro,
            bounded=found.bounded,
        )

    def _learnt(self, found: Found) -> Iterator[Learnt]:
        for remedy in sorted(found.plan - {AS_IT_IS}):
            answer = found.reasons.get(remedy, Answer(""))
            op = remedy.what if remedy.kind == EXPAND else next(iter(answer.blames), "")
            calls = list(_calls(self._source.model, op)) if op else []
            nodes = len(calls)
            how = {
                EXPAND: f"expanded, {nodes} node{'s' if nodes != 1 else ''}",
                OPSET: f"converted to opset {remedy.what}",
                OPTIMIZE: "computed what is constant",
                SYMBOLS: "gave symbolic sizes plain names",
            }[remedy.kind]
            yield Learnt(remedy, op, self._described(op), answer.status, answer.why, nodes, how)

    def _described(self, op: str) -> str:
        """How the operator is called in the source: the rank of its first input, and whether its sizes are known."""
        source = self._source.model
        scope = self._scope
        for node in source.graph.node:
            if (default_domain(node.domain), node.op_type) == operator(op) and node.input:
                dims = scope.shape(node.input[0])
                if dims is None:
                    return "of unknown rank"
                symbolic = any(not isinstance(dim, int) for dim in dims)
                return f"with {len(dims)}-D input{' of symbolic sizes' if symbolic else ''}"
        return ""

    @cached_property
    def _scope(self) -> Scope:
        source = self._source.model
        opset = imports.opsets(source).get("", 1)
        return Scope(source.graph, Context(source, source, self._source.folder), opset, path=())


def _calls(model: ModelProto, op: str) -> Iterator[object]:
    return (
        node for body in bodies(model) for node in body.node if (default_domain(node.domain), node.op_type) == operator(op)
    )
