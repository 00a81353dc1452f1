"""Conversion of a whole model: a copy is converted, all of it or nothing."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from google.protobuf.message import Error as ProtobufError
from opshift.passes import progress
from opshift.passes.analysis import claims, formals
from opshift.passes.analysis.blaming import blaming
from opshift.passes.analysis.scope import Context
from opshift.passes.changes import Change, Ledger, Result
from opshift.passes.conversion import alike, dead_branches, declared, ir_versions, narrow_integers
from opshift.passes.conversion.transitions import needs_work
from opshift.passes.conversion.worklist import Climb
from opshift.passes.errors import InvalidModel, Refusal, Refused
from opshift.passes.inlining.expander import Expander
from opshift.passes.model import legality, schemas
from opshift.passes.model.editing import dead_code
from opshift.passes.model.imports import (
    DEEPEST,
    brought_in,
    check_imports,
    check_opsets,
    check_recursion,
    opsets,
    prune_imports,
    stamp_imports,
)
from opshift.passes.model.installed import Lacking
from opshift.passes.model.kinds import Survey
from opshift.passes.model.messages import FunctionProto, ModelProto, NodeProto, default_domain
from opshift.passes.model.schemas import NCHWC
from opshift.passes.model.traversal import Calls, Op, census, with_nested
from opshift.passes.process import collector_paused
from opshift.passes.records import replace

_TOO_DEEP = "what takes the place of its innermost nodes is nested deeper than protobuf's 100 levels of messages"

_HOLDING = (("", "Constant"), ("", "Identity"))  # what makes a constant of a value that another node made

_FUNCTIONS_SINCE = 8  # the IR version that introduced model-local functions


@collector_paused()
def attempt(
    source: ModelProto,
    targets: Mapping[str, int],
    *,
    ops: Iterable[Op] = (),
    ir_version: int | None = None,
    folder: str | None = None,
    survey: Survey | None = None,
) -> Result:
    """Convert a copy of `source` to `targets` (opset by domain), expanding `ops` wherever they occur.

    `folder` is where external data lie; `survey`, if the source was `checked`, is used up. Model-local functions are
    converted where they stand; one that cannot be, for want of what only its callers know, is inlined, and below IR 8
    all are.
    """
    if survey is None:
        check_imports(source)
    absent = sorted(set(targets) - set(opsets(source)) - {""})
    if absent:
        held = ", ".join(repr(domain or "ai.onnx") for domain in opsets(source))
        raise ValueError(f"the model imports no opset of domain {absent[0]!r}; it imports {held}")
    try:
        result = _resolved(source, targets, frozenset(ops), ir_version, folder, survey)
    except Lacking as lacking:
        return Result(None, (), (lacking.refusal,))
    except ProtobufError:
        return Result(None, (), (Refusal("", "graph", "", 0, False, _TOO_DEEP),))
    if result.refusals and (pruned := dead_branches.without_dead(source, opsets(source).get("", 1), folder)):
        model, decided = pruned
        result = attempt(model, targets, ops=ops, ir_version=ir_version, folder=folder)
        changes = (*(_never_taken(node, source) for node in decided), *result.changes)
        return replace(result, before=None, changes=changes)
    return result


def _resolved(
    source: ModelProto,
    targets: Mapping[str, int],
    wanted: frozenset[Op],
    ir_version: int | None,
    folder: str | None,
    survey: Survey | None,
) -> Result:
    """Convert again and again, until what hangs on the calls of functions is written out or inlined as it has to be."""
    given, local = source, _local(source)
    inlined = local if ir_versions.wanted(source, targets, ir_version) < _FUNCTIONS_SINCE else wanted & local
    asks = formals.asking(source, targets, wanted - local, needs_work)
    noted: list[Change] = []
    copied: dict[Op, str] = {}
    while True:
        found = formals.resolved(given, asks, inlined)
        if found.refusals:
            result = Result(None, (), tuple(found.refusals))
            break
        if found.stuck:
            inlined = inlined | found.stuck
            continue
        if found.model is not given:
            given, local = found.model, _local(found.model)
            noted += found.changes
            inlined = inlined | {op for op, name in found.copied.items() if (op[0], name) in inlined}
            copied |= {op: copied.get((op[0], name), name) for op, name in found.copied.items()}
        with blaming(source):
            survey = survey if given is source else None
            result = _converted(given, targets, wanted - local, inlined, ir_version, folder, survey)
        survey = None
        stuck = {op for op in local - inlined if _blames(result.refusals, op)}
        if not stuck:
            break
        inlined = inlined | stuck
    if copied:
        result = _as_written(result, copied, source)
    return replace(result, changes=(*noted, *result.changes)) if noted else result


def _local(model: ModelProto) -> frozenset[Op]:
    return frozenset((default_domain(function.domain), function.name) for function in model.functions)


def _as_written(result: Result, copied: Mapping[Op, str], source: ModelProto) -> Result:
    """The result with the names that the user wrote for those of copies of functions."""
    renamed = (change._replace(op=copied.get((change.domain, change.op), change.op)) for change in result.changes)
    homes = {_where(*op): _where(op[0], name) for op, name in copied.items()}
    refusals = dict.fromkeys(
        replace(held, op=copied.get((held.domain, held.op), held.op), where=homes.get(held.where, held.where))
        for held in result.refusals
    )
    before = result.before and Survey(source).calls
    return replace(result, changes=tuple(renamed), refusals=tuple(refusals), before=before)


@collector_paused()
def checked(source: ModelProto) -> Survey:
    """What a model consists of; raises `InvalidModel` for one that ONNX does not allow."""
    check_opsets(source)
    survey = Survey(source, checked=True)
    if source.functions:
        check_recursion(source, survey.called())
    return survey


def _never_taken(node: NodeProto, source: ModelProto) -> Change:
    opset = opsets(source).get("", 1)
    how = "The branch that the constant condition never takes is replaced by the other"
    return Change(node.name or next(iter(node.output), ""), node.op_type, "", opset, opset, how)


def _blames(refusals: Iterable[Refusal], op: Op) -> bool:
    return any(refusal.where == _where(*op) for refusal in refusals)


def _where(domain: str, name: str) -> str:
    return f"function {domain}::{name}" if domain else f"function {name}"


def _converted(
    source: ModelProto,
    targets: Mapping[str, int],
    ops: frozenset[Op],
    inlined: frozenset[Op],
    ir_version: int | None,
    folder: str | None,
    survey: Survey | None,
    *,
    merge: bool = True,
) -> Result:
    """One conversion, in which these functions of the model are inlined; those that are alike as one, if `merge`."""
    if "" in targets and (missing := tuple(legality.missing_types(source, targets[""]))):
        return Result(None, (), missing)
    ledger = Ledger(refusals=list(_training(source, targets, ops | inlined)))
    given, source = source, narrow_integers.narrow_integers_carried(source, targets.get("", 0), ledger, folder)
    found = None
    if any(domain == NCHWC for domain, _ in ops):  # all of them, or what is left would read channels in order as blocks
        from opshift.passes.analysis import blocks  # slow to import, and not wanted elsewhere

        ops |= {(NCHWC, op) for op in schemas.operators(NCHWC)}
        found, source = blocks.blocks(source, folder), blocks.without_views(source, folder)
    before = survey if survey is not None and source is given else Survey(source)
    if before.depth > DEEPEST:
        raise InvalidModel(f"graphs are nested {before.depth} deep; no protobuf reader follows more than {DEEPEST}")
    model = ModelProto()
    model.CopyFrom(source)
    merged = alike.merge(model, before, inlined) if merge and inlined else alike.Alike()
    context = Context(model, source, folder, before, blocks=found)
    climb = Climb(context, targets, Expander(ops, _taken_out(model, source, before, inlined)), ledger, before)
    brought = brought_in(source, before.calls)
    climb.body(model.graph, before.graph, {**brought, **opsets(model)})
    stamp_imports(model, targets, required=True)
    for function, layout in zip(model.functions, before.functions, strict=True):
        where = _where(default_domain(function.domain), function.name)
        climb.body(function, layout, {**brought, **opsets(function)}, where)
        stamp_imports(function, targets, required=False)
    if ledger.refusals and merged.names:  # which are told in the names of the functions themselves
        return _converted(given, targets, ops, inlined, ir_version, folder, None, merge=False)
    if ledger.refusals:
        return Result(None, tuple(ledger.changes), tuple(ledger.refusals))
    ledger.changes = merged.as_written(ledger.changes)
    held, calls = before.census(model)
    if dead_code.drop_unused(model, context.released, held):
        held, calls = census([*reversed(model.functions), model.graph])
    prune_imports(model, source, targets, brought, before.calls, calls)
    ledger.refusals += _unfit(model, context, ledger, ops, calls)
    if not ledger.refusals:
        idle = not ledger.changes and ir_versions.stays(source, targets)
        most = source.ir_version if idle else None  # newer readers read it as they did
        ledger.refusals += ir_versions.write_ir_version(model, targets, ir_version, held, most)
    if ledger.refusals:
        return Result(None, tuple(ledger.changes), tuple(ledger.refusals))
    said = _mended(source, context, targets, ledger, before.calls, calls)
    return Result(model, (*ledger.changes, *said), (), before.calls, calls)


def _mended(
    source: ModelProto,
    context: Context,
    targets: Mapping[str, int],
    ledger: Ledger,
    before: Mapping[Op, int],
    calls: Mapping[Op, int],
) -> list[Change]:
    """Mend what is declared falsely and would be seen now; what is said of all that is."""
    model, inference = context.model, context.inference
    said: list[Change] = []
    if ledger.changes and any(calls.get(op, 0) > before.get(op, 0) for op in _HOLDING):
        said += claims.of_constants(model)
    said += declared.mended(model, source, before, calls, targets, inference)
    if not said and not ledger.changes:
        return []
    return list(dict.fromkeys([*inference.contradictions(), *context.trust.changes(), *said]))


def _taken_out(
    model: ModelProto, source: ModelProto, survey: Survey, inlined: Container[Op]
) -> dict[Op, list[FunctionProto]]:
    """The functions that are inlined, by name, which `model` and its survey have no more."""
    local: dict[Op, list[FunctionProto]] = {}
    for index in reversed(range(len(source.functions))):
        op = default_domain(source.functions[index].domain), source.functions[index].name
        if op in inlined:
            local.setdefault(op, []).insert(0, source.functions[index])
            del model.functions[index], survey.functions[index]
    return local


def _unfit(model: ModelProto, context: Context, ledger: Ledger, ops: frozenset[Op], calls: Calls) -> list[Refusal]:
    """What the target does not take of a model whose nodes have all arrived."""
    found = [*ledger.illegal, *legality.unknown_initializers(model), *legality.readers(model, context.dissolved)]
    if any((default_domain(domain), op) in ops for domain, op in calls):
        found += legality.left(model, ops)
    return found


def _training(source: ModelProto, targets: Mapping[str, int], replaced: Container[Op]) -> Iterator[Refusal]:
    """Graphs of training_info stay as they are: a refusal for each node that would have to become another one."""
    own = opsets(source)
    judge = legality.Judge()
    for info in source.training_info:
        for node in (node for body in with_nested([info.initialization, info.algorithm]) for node in body.node):
            domain, op = default_domain(node.domain), node.op_type
            target = targets.get(domain, own.get(domain, 0))
            moved = schemas.since(domain, op, own.get(domain, 0)) != schemas.since(domain, op, target)
            stays = formals.is_lasting(domain, op, own.get(domain, 0), target, needs_work)
            if (domain, op) in replaced or not stays or (moved and judge.why_not(node, target)):
                name = node.name or next(iter(node.output), "")
                yield Refusal(name, op, domain, 0, True, "nodes of training_info are not converted")


def nearest(
    source: ModelProto, refusals: Iterable[Refusal], targets: Mapping[str, int], folder: str | None = None
) -> int | None:
    """The opset of the default domain nearest to the target that the model does reach; None if there is none."""
    own, target = opsets(source).get(""), targets.get("")
    while own is not None and target is not None and own != target:
        edges = [r.since for r in refusals if r.since and not r.domain]
        step = 1 if own > target else -1
        candidate = (max(edges) if step > 0 else min(edges) - 1) if edges else target + step
        if (candidate - target) * step <= 0:
            candidate = target + step
        if candidate == own or (own - candidate) * step < 0:
            return own
        progress.tell(f"look whether opset {candidate} can be reached")
        result = attempt(source, {**targets, "": candidate}, folder=folder)
        if result.model is not None:
            return candidate
        refusals, target = result.refusals, candidate
    return own


def convert(
    source: ModelProto,
    targets: Mapping[str, int],
    *,
    ops: Iterable[Op] = (),
    ir_version: int | None = None,
    folder: str | None = None,
) -> Result:
    """`attempt`, raising `Refused` with every reason and the nearest opset where it does not succeed."""
    result = attempt(source, targets, ops=ops, ir_version=ir_version, folder=folder)
    if result.model is None:
        reached = nearest(source, result.refusals, targets, folder) if not ops else None
        raise Refused(result.refusals, target=targets.get(""), nearest=reached)
    return result
