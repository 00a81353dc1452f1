"""Optimization on request: what a graph computes from constants alone, twice, or to no effect is computed no more."""

from __future__ import annotations

from collections.abc import Mapping

from opshift.passes import progress
from opshift.passes.analysis import claims
from opshift.passes.analysis.blaming import blaming
from opshift.passes.analysis.inferring import inferred_defaults
from opshift.passes.analysis.inferring.strict_inference import contradiction, mend
from opshift.passes.changes import Allowance, Change, Result
from opshift.passes.errors import InvalidModel
from opshift.passes.model import schemas
from opshift.passes.model.call_signatures import Survey
from opshift.passes.model.editing import dead_code
from opshift.passes.model.imports import DEEPEST, check_imports, opsets
from opshift.passes.model.messages import FunctionProto, ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import Body, census, with_nested
from opshift.passes.optimization.bodies import BodyVisit
from opshift.passes.optimization.courses import COURSES
from opshift.passes.process import collector_paused
from opshift.passes.simplification.whole import Whole
from opshift.passes.simplification.workspace import Workspace

_MOST_ROUNDS = 6
_YIELDING = (("", "If"), ("", "Loop"))  # what they yield, inference may know less of than of what takes their place
_DEAD = "Removed unused node"


@collector_paused()
def attempt(
    source: ModelProto,
    *,
    allowance: Allowance | None = None,
    folder: str | None = None,
    survey: Survey | None = None,
) -> Result:
    """Optimize a copy of `source` at the opsets that it imports; nothing is refused.

    `folder` is where external data lie; nothing is done that `allowance` does not permit. `survey` is that of the
    source, if it was `checked`.
    """
    if survey is None:
        check_imports(source)
    before = survey or Survey(source)
    if before.depth > DEEPEST:
        raise InvalidModel(f"graphs are nested {before.depth} levels deep; protobuf reads at most {DEEPEST}")
    model = ModelProto()
    model.CopyFrom(source)
    whole = Whole(model, source, folder, allowance, before)
    earlier = len(whole.allowance.made)
    with blaming(source):
        for _ in range(_MOST_ROUNDS):
            progress.tell("optimize")
            whole.begin()
            if whole.rounds == 1 and ("", "If") in before.calls:  # what nobody reads needs no rank of its inputs
                _drop_all_dead(whole)
            _visit(whole)
            _drop_all_dead(whole)
            if whole.settle():
                break
        held, left = census([model.graph, *model.functions])
        if whole.changes:
            _mend(model, whole)
            inferred_defaults.state_all(held, left)  # inference may see now what it took them beside
        gone = any(left[op] < before.calls.get(op, 0) for op in _YIELDING)
        if gone and contradiction(model) and not contradiction(source):
            whole.changes += mend(model, source)
            apart = frozenset(("", change.op, change.how) for change in whole.changes if change.how in COURSES)
            if apart and contradiction(model):  # in a branch that no run takes, whose types were hidden
                whole.allowance.withhold(apart, earlier)
                return attempt(source, allowance=whole.allowance, folder=folder)
    return Result(model, tuple(whole.changes), (), before.calls, left)


def _mend(model: ModelProto, whole: Whole) -> None:
    """Let a changed model declare what is so, as far as anybody asked."""
    inference = whole.context.inference
    if inference.was_asked:
        contradicted = list(claims.find_contradictions(model, inference.type))
        if contradicted:
            claims.mend_main(model, inference.type)  # a node that hid them from runtimes may be gone
        whole.changes += contradicted
    whole.changes += claims.of_constants(model)


def _visit(whole: Whole) -> None:
    """Visit every node of every body once."""
    opset = opsets(whole.model).get("", 1)
    BodyVisit(Workspace(whole.model.graph, whole, opset, path=())).body()
    for function in whole.model.functions:
        own = opsets(function).get("", opset)
        if own == opset or not _is_alike(function, own, opset):
            BodyVisit(Workspace(function, whole, own)).body()


def _is_alike(function: FunctionProto, own: int, opset: int) -> bool:
    """Whether a function at an opset of its `own` calls nothing that is another at the model's, as `onnx.checker` asks.

    What took the place of its nodes might be.
    """
    nodes = (node for body in with_nested([function]) for node in body.node if not normalize_domain(node.domain))
    return all(schemas.since("", n.op_type, own) == schemas.since("", n.op_type, opset) for n in nodes)


def _drop_all_dead(whole: Whole) -> None:
    _drop_dead(whole.model.graph, whole, opsets(whole.model))
    for function in whole.model.functions:
        _drop_dead(function, whole, opsets(function))


def _drop_dead(body: Body, whole: Whole, versions: Mapping[str, int]) -> None:
    """Drop what nobody reads of a body that is written at these opsets, by domain."""

    def note_dead(node: NodeProto) -> None:
        domain = normalize_domain(node.domain)
        since = schemas.since(domain, node.op_type, versions.get(domain, 0)) or 0
        whole.changed += 1
        whole.changes.append(
            Change(node.name or next(iter(node.output), ""), node.op_type, domain, since, since, _DEAD)
        )

    dead_code.sweep(body, whole.fixed, note_dead)
