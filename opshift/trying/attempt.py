"""Tries what a model becomes for a target in the installed backend, and looks for what makes it run there."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from opshift.passes import process, progress
from opshift.passes.analysis.scope import Scope, open_main_graph
from opshift.passes.changes import Result
from opshift.passes.goals import Goal
from opshift.passes.model.messages import ModelProto, normalize_domain
from opshift.passes.model.traversal import bodies
from opshift.passes.model.types import is_fixed, symbol
from opshift.passes.stages.operator_names import parse_operator
from opshift.probing import installed
from opshift.trying import learning, smallest
from opshift.trying.remedies import (
    ANNOTATE,
    AS_IT_IS,
    BOUND,
    CLAIMS,
    CROP,
    DEFAULTS,
    EXPAND,
    FIX,
    FIXED,
    FLOAT,
    LEADING,
    OPSET,
    OPTIMIZE,
    SCALAR,
    SPLIT,
    SYMBOLS,
    TELL,
    UNROLL,
    Remedies,
    list_options,
)
from opshift.trying.search import (
    AGREES,
    DIFFERS,
    IMPOSSIBLE,
    Answer,
    Meter,
    Plan,
    Remedy,
    RemedySearch,
    SearchResult,
    with_remedy,
)
from opshift.trying.smallest import Piece
from opshift.trying.trial import Expected, InstalledBackend, run_source
from opshift.trying.tried import Learnt, TrialManner, Tried
from opshift.verification import adapters, isolation
from opshift.verification.engines import EngineError
from opshift.verification.feeding.asked import Asked
from opshift.verification.side import Side

_OF_OPERATORS = (EXPAND, SPLIT, BOUND, DEFAULTS, UNROLL, LEADING, CROP, FLOAT, SCALAR)


def backend_of(goal: Goal, python: str | None = None, adapter: str | None = None) -> installed.Installed:
    """The backend that is tried for a goal; raises `ValueError` if it is none that can be, or is not installed.

    `python` is the interpreter that has it, `adapter` a file of a user's own that opens models in it.
    """
    if goal.backend is None:
        raise ValueError("--try needs --target")
    stem = goal.backend.name.rpartition("-")[0]
    if adapter is None and stem not in adapters.KNOWN:
        raise ValueError(
            f"opshift cannot run models in {goal.backend.name}, so --try does not work; "
            f"it can run {', '.join(adapters.KNOWN)}"
        )
    return installed.find(stem, python, adapter)


def attempt(
    source: Side, goal: Goal, manner: TrialManner, wanted: Asked, backend: InstalledBackend | None = None
) -> tuple[Result, Tried]:
    """The result that the backend runs, or what was refused, with what came of trying it.

    Raises:
        ValueError: there is no such backend.
    """
    backend = backend or InstalledBackend(manner.backend)
    try:
        progress.tell("run the source")
        held = run_source(replace(source, model=goal.with_ends(source.model)), wanted)
        return _Trying(source, goal, manner, backend, held).run()
    except EngineError as error:
        return goal.run(source.model, source.folder), Tried(
            backend.full_name, IMPOSSIBLE, f"the source model does not run: {error}"
        )
    finally:
        backend.stop()


class _Trying:
    def __init__(self, source: Side, goal: Goal, manner: TrialManner, backend: InstalledBackend, held: Expected):
        self._source, self._manner, self._backend, self._held = source, manner, backend, held
        self._remedies = Remedies(source.model, goal, source.folder, held.feeds[0], backend.options)
        self._meter = Meter(manner.bound)
        self._pieces: dict[Plan, Piece | None] = {}
        self._results: dict[Plan, Result] = {}
        self._answers: dict[Hashable, Answer] = {}
        """What came of a model, by what it is."""

    def run(self) -> tuple[Result, Tried]:
        remedies = self._remedies
        search = RemedySearch(
            self._answer,
            remedies.helps,
            remedies.general(),
            self._blame,
            remedies.rest(),
            meter=self._meter,
            mends=self._mends,
            key=self._identify_result,
            parts=remedies.parts,
        )
        made, unmade = frozenset[Remedy](), frozenset({AS_IT_IS})
        compiler = self._backend.within > 0  # what runs in one as it is stays so
        anew = FIXED if remedies.parts(FIXED) else None
        found = search.run([made, unmade], anew, [unmade, made] if compiler else [])
        result = self._result(found.plan)
        tried = Tried(
            self._backend.full_name,
            found.answer.status,
            found.answer.why,
            tuple(self._list_findings(found)),
            found.tries,
            AS_IT_IS in found.plan,
            other=self._other(),
            fixed=remedies.find_fixed_sizes(found.plan),
            far=found.answer.far,
            before=search.ask(unmade) if compiler and found.plan != unmade else None,
            where=self._backend.where,
        )
        if not tried.agrees:
            return result, self._add_smallest_piece(tried, found, result)
        target, learn = remedies.goal.backend, self._manner.learn
        if (
            learn is not None
            and target is not None
            and learning.learn(Path(learn), target, tried, file=self._manner.file)
        ):
            tried = replace(tried, learn=learn)
        return result, tried

    def _other(self) -> str:
        """The release that the target's file is about, where that is not the installed one."""
        target = self._remedies.goal.backend
        of = target.name.rpartition("-")[2] if target is not None else ""
        return "" if not self._backend.release or f"{self._backend.release}.".startswith(f"{of}.") else of

    def _result(self, plan: Plan) -> Result:
        if plan not in self._results:
            self._results.clear()  # of a large model, one is enough
            with process.ours():
                self._results[plan] = self._remedies.apply(plan)
        return self._results[plan]

    def _answer(self, plan: Plan) -> Answer:
        result = self._result(plan)
        if result.model is None:
            return Answer(IMPOSSIBLE, str(result.refusals[0]) if result.refusals else "")
        progress.tell(f"try it in {self._backend.full_name}", self._meter.tries + 1, self._manner.bound.tries)
        held = self._held.alike() if any(remedy.kind == FIX for remedy in plan) else self._held
        answer = self._backend.answer(
            result.model, self._source.folder, held, seconds=self._meter.seconds_left(), options=list_options(plan)
        )
        self._answers[self._identify_result(plan)] = answer
        return answer

    def _identify_result(self, plan: Plan) -> Hashable:
        """What a plan makes; of what is refused, the plan itself."""
        model = self._result(plan).model
        made: Hashable = plan if model is None else sha256(model.SerializeToString(deterministic=True)).digest()
        return (made, list_options(plan)) if list_options(plan) else made

    def _mends(self, plan: Plan, remedy: Remedy) -> bool:
        piece = self._piece(plan)
        if piece is None:
            return False
        kept = plan & {AS_IT_IS}
        made = Remedies(piece.model, self._remedies.rewriting, None, piece.feeds).apply(with_remedy(kept, remedy)).model
        return made is not None and self._failing(plan)(made, piece.feeds).agrees

    def _blame(self, plan: Plan) -> list[str]:
        piece = self._piece(plan)
        return [] if piece is None else piece.operators

    def _piece(self, plan: Plan) -> Piece | None:
        if plan not in self._pieces:
            model = self._result(plan).model
            self._pieces[plan] = None if model is None else self._smallest(model, plan)
        return self._pieces[plan]

    def _smallest(self, model: ModelProto, plan: Plan) -> Piece | None:
        """What fails as the whole does; failing that, anything that fails."""
        manners = dict.fromkeys((self._failing(plan), self._fails))
        feeds, folder = self._feeds(plan), self._source.folder
        found = (smallest.smallest(model, folder, feeds, fails) for fails in manners)
        return next((piece for piece in found if piece is not None), None)

    def _failing(self, plan: Plan) -> smallest.Fails:
        """Tells whether a piece fails: where the whole does not run, no piece does that yields other values alone."""
        answer = self._answers.get(self._identify_result(plan))
        return self._fails if answer is None or answer.status == DIFFERS else self._refuses

    def _refuses(self, piece: ModelProto, feeds: smallest.Feeds) -> Answer:
        answer = self._fails(piece, feeds)
        return Answer(AGREES) if answer.status == DIFFERS and not answer.sizes else answer

    def _feeds(self, plan: Plan) -> smallest.Feeds:
        """The inputs on which what a plan makes fails."""
        answer = self._answers.get(self._identify_result(plan))
        held: smallest.Feeds = self._held.feeds[answer.place if answer is not None else 0]
        return held

    def _fails(self, piece: ModelProto, feeds: smallest.Feeds) -> Answer:
        """What the backend says of a piece."""
        if not self._meter.goes_on():
            return Answer(IMPOSSIBLE)
        try:
            outputs = isolation.call(isolation.within, self._meter.seconds_left(), smallest.values_of, piece, feeds)
        except (EngineError, isolation.Ended):
            return Answer(IMPOSSIBLE)
        typed = smallest.declare_outputs(piece, outputs)
        self._meter.count()
        held = Expected(Side(typed), (feeds,), (outputs,))
        return self._backend.answer(typed, None, held, plainly=True, seconds=self._meter.seconds_left())

    def _add_smallest_piece(self, tried: Tried, found: SearchResult, result: Result) -> Tried:
        """With the smallest piece that shows it."""
        piece = self._piece(found.plan) if result.model is not None else None
        repro = ""
        if piece is not None and self._manner.repro is not None:
            repro = self._manner.repro
            command = f"opshift inline model.onnx out.onnx --target {self._backend.name} --try --inputs inputs"
            piece, stripped = smallest.with_drawn_weights(piece, self._fails)
            smallest.write(Path(repro), piece, command, f"{self._backend.full_name}: {piece.answer.why}", stripped)
        if piece is None:
            return replace(tried, bounded=found.bounded, open=self._open())
        return replace(
            tried,
            node=piece.node_name,
            operator=piece.operator,
            nodes=len(piece.model.graph.node),
            repro=repro,
            bounded=found.bounded,
            open=self._open(),
        )

    def _open(self) -> tuple[str, ...]:
        """The dimensions of the inputs that are no numbers, by name, or by the input and the place."""
        model = self._remedies.fix_sizes
        held = {tensor.name for tensor in model.graph.initializer}
        dims = [(v.name, v.type.tensor_type.shape.dim) for v in model.graph.input if v.name not in held]
        open_ = [symbol(d) or f"{name}[{at}]" for name, of in dims for at, d in enumerate(of) if not is_fixed(d)]
        return tuple(dict.fromkeys(open_))

    def _list_findings(self, found: SearchResult) -> Iterator[Learnt]:
        sizes = [remedy for remedy in sorted(found.plan) if remedy.kind == FIX]
        if sizes:
            said = ", ".join(remedy.what for remedy in sizes)
            answer = found.reasons.get(sizes[0], Answer(""))
            how = f"fixed {said}, which it was run on (--fix-shape takes others)"
            yield Learnt(FIX, said, next(iter(answer.blames), ""), "", True, answer.status, answer.why, 0, how)
        for remedy in sorted(found.plan - {AS_IT_IS, *sizes}):
            answer = found.reasons.get(remedy, Answer(""))
            if remedy.kind in _OF_OPERATORS:
                answer = self._answer_of_piece(remedy.what) or answer
            op = remedy.what if remedy.kind in _OF_OPERATORS else next(iter(answer.blames), self._first_located())
            calls = list(_calls(self._remedies.fix_sizes, op)) if op else []
            nodes = len(calls)
            how = {
                EXPAND: f"expanded, {nodes} node{'s' if nodes != 1 else ''}",
                OPSET: f"converted to opset {remedy.what}",
                TELL: f"gave its compiler {remedy.what}, which the file cannot hold",
                DEFAULTS: "removed attributes that equal their defaults",
                UNROLL: "unrolled",
                CROP: "replaced negative pads by Slice",
                FLOAT: "computed in float32, which is exact here",
                SCALAR: "made its condition a scalar",
                LEADING: "removed leading axes of size 1 from constants",
                SPLIT: "reduced one axis at a time",
                BOUND: "clipped its input where exponentials overflow",
                OPTIMIZE: "folded constants",
                ANNOTATE: "declared inferred types",
                CLAIMS: "dropped declared types",
                SYMBOLS: "renamed symbolic sizes",
            }[remedy.kind]
            call, symbolic = self._describe_call(op)
            yield Learnt(remedy.kind, remedy.what, op, call, symbolic, answer.status, answer.why, nodes, how)

    def _answer_of_piece(self, op: str) -> Answer | None:
        """What came of the piece that showed an operator to be at fault."""
        return next((p.answer for p in self._pieces.values() if p is not None and op in p.operators), None)

    def _first_located(self) -> str:
        """What was found to be at fault first, if anything was."""
        return next((p.operator for p in self._pieces.values() if p is not None and p.node is not None), "")

    def _describe_call(self, op: str) -> tuple[str, bool]:
        """How the operator is called in the source: the rank of its first input, and whether its sizes are known."""
        source = self._remedies.fix_sizes
        scope = self._scope
        for node in source.graph.node:
            if (normalize_domain(node.domain), node.op_type) == parse_operator(op) and node.input:
                dims = scope.shape(node.input[0])
                if dims is None:
                    return "with input of unknown rank", True
                symbolic = any(not isinstance(dim, int) for dim in dims)
                return f"with {len(dims)}-D input{' of symbolic sizes' if symbolic else ''}", symbolic
        return "", False

    @cached_property
    def _scope(self) -> Scope:
        return open_main_graph(self._remedies.fix_sizes, self._source.folder)


def _calls(model: ModelProto, op: str) -> Iterator[object]:
    return (
        node
        for body in bodies(model)
        for node in body.node
        if (normalize_domain(node.domain), node.op_type) == parse_operator(op)
    )
