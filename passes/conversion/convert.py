"""Conversion of a whole model: a copy is converted, all of it or nothing."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from google.protobuf.message import Error as ProtobufError
from opshift.passes import progress
from opshift.passes.analysis import claims, formals
from opshift.passes.analysis.blaming import blaming
from opshift.passes.analysis.scope import Context
from opshift.passes.changes import Change, Ledger, Result
from opshift.passes.conversion import alike, declared, ir_versions, narrow_integers
from opshift.passes.conversion.attempts import (
    REPAIRS,
    Attempt,
    Conversion,
    Copies,
    choose,
    local_functions,
    plan_attempt,
    try_attempts,
)
from opshift.passes.conversion.transitions import needs_work
from opshift.passes.conversion.worklist import BodyConverter
from opshift.passes.errors import InvalidModel, Refusal, Refused, function_place
from opshift.passes.inlining.expander import Expander
from opshift.passes.model import legality, schemas
from opshift.passes.model.call_signatures import Survey
from opshift.passes.model.editing import dead_code
from opshift.passes.model.editing.order import in_order_if_needed
from opshift.passes.model.imports import (
    DEEPEST,
    check_opsets,
    check_recursion,
    imports_of_replacements,
    opsets,
    prune_imports,
    stamp_imports,
)
from opshift.passes.model.installed import Lacking
from opshift.passes.model.messages import FunctionProto, ModelProto, copy_model, normalize_domain
from opshift.passes.model.schemas import NCHWC
from opshift.passes.model.traversal import Calls, Op, census, with_nested
from opshift.passes.process import collector_paused
from opshift.passes.records import replace

_TOO_DEEP = "the replacement is nested deeper than 100 levels, which protobuf does not read"

_HOLDING = (("", "Constant"), ("", "Identity"))  # these may make a constant of a value that another node computed


def convert_model(
    source: ModelProto,
    targets: Mapping[str, int],
    *,
    ops: Iterable[Op] = (),
    ir_version: int | None = None,
    folder: str | None = None,
    survey: Survey | None = None,
) -> Result:
    """Convert a copy of the model to opsets, given by domain, and replace `ops` by their definitions.

    `folder` is where external data lie. With a `survey` of the source, which the conversion changes, the source is not
    checked again. Model-local functions stay functions; one that needs types or constants of its callers is inlined,
    and below IR version 8 all are.
    """
    first = plan_attempt(source, targets, ops, ir_version, folder, survey)
    return choose(try_attempts(first, convert_once, REPAIRS)).result


attempt = convert_model  # the name that most tests call it by


@collector_paused()
def convert_once(attempt: Attempt) -> Conversion:
    """Convert a copy of the model in the way that one attempt describes. Nothing is tried again here."""
    try:
        attempt, failed = _copy_functions(attempt)
        if failed is not None:
            return failed
        with blaming(attempt.source):
            given, targets, inlined = attempt.model, attempt.targets, attempt.inline
            expanded = attempt.expand - local_functions(given)
            if "" in targets and (missing := tuple(legality.missing_types(given, targets[""]))):
                return _fail(attempt, missing)
            ledger = Ledger(refusals=list(_refuse_training_graphs(given, targets, expanded | inlined)))
            source = narrow_integers.carry_narrow_integers(given, targets.get("", 0), ledger, attempt.folder)
            channel_blocks = None
            if any(domain == NCHWC for domain, _ in expanded):  # all: what stays would read channels in order as blocks
                from opshift.passes.analysis import blocks  # slow to import, and not wanted elsewhere

                expanded |= {(NCHWC, op) for op in schemas.operators(NCHWC)}
                source = blocks.rename_values_in_blocks(source, attempt.folder)
                channel_blocks = blocks.blocks(source, attempt.folder)
                source = blocks.without_views(source, attempt.folder)

            survey = attempt.survey if source is attempt.source else None
            before = survey if survey is not None else Survey(source)
            if before.depth > DEEPEST:
                why = f"graphs are nested {before.depth} levels deep; protobuf reads at most {DEEPEST}"
                raise InvalidModel(why)
            model = copy_model(source)
            merged = alike.merge_functions(model, before, inlined) if attempt.merge and inlined else alike.Alike()
            context = Context(model, source, attempt.folder, before, blocks=channel_blocks)
            expander = Expander(expanded, _take_out_functions(model, source, before, inlined))
            converter = BodyConverter(context, targets, expander, ledger, before)

            brought = imports_of_replacements(source, before.calls)
            holders: list[ModelProto | FunctionProto] = [model, *model.functions]
            for holder, layout in zip(holders, [before.graph, *before.functions], strict=True):
                scope = converter.enter(holder, {**brought, **opsets(holder)})
                converter.convert_body(scope.body, layout, scope, converter.home)
                stamp_imports(holder, targets, required=holder is model)
            if ledger.refusals:
                return _fail(attempt, ledger.refusals, ledger.changes, merged=bool(merged.names))

            ledger.changes = merged.as_written(ledger.changes)
            return _finish(attempt, context, source, ledger, before, expanded, brought)
    except Lacking as lacking:
        refusal = lacking.refusal
    except ProtobufError:
        refusal = Refusal("", "graph", "", 0, False, _TOO_DEEP)
    return Conversion(attempt, Result(None, attempt.dropped, (refusal,)), repairable=False)


def _copy_functions(attempt: Attempt) -> tuple[Attempt, Conversion | None]:
    """Copy functions whose calls give different numbers of inputs or attributes; returns the new attempt, or its
    failure.

    Then every call of a function gives the same inputs and attributes, and no node reads a missing one.
    """
    given, inline = attempt.model, attempt.inline
    asks = formals.asking(attempt.source, attempt.targets, attempt.expand - local_functions(attempt.source), needs_work)
    found = formals.copy_functions(given, asks, inline)
    if found.refusals:
        return attempt, Conversion(attempt, _tell_by_user_names(attempt, Result(None, (), tuple(found.refusals))))
    if found.stuck:
        return attempt, Conversion(attempt, Result(None, (), ()), blamed=frozenset(found.stuck))
    if found.model is given:
        return attempt, None
    earlier = attempt.copies or Copies(given, (), {})
    names = {op: earlier.names.get((op[0], name), name) for op, name in found.copied.items()}
    copies = Copies(found.model, (*earlier.changes, *found.changes), {**earlier.names, **names})
    inline |= {op for op, name in found.copied.items() if (op[0], name) in inline}
    return replace(attempt, copies=copies, inline=inline, survey=None), None


def _fail(
    attempt: Attempt, refusals: Sequence[Refusal], changes: Sequence[Change] = (), *, merged: bool = False
) -> Conversion:
    """Make the failure of an attempt.

    It names the model's functions that hold a refused node, so that a repair can inline them.
    """
    places = {refusal.where for refusal in refusals}
    blamed = {op for op in local_functions(attempt.model) if function_place(*op) in places}
    result = _tell_by_user_names(attempt, Result(None, tuple(changes), tuple(refusals)))
    return Conversion(attempt, result, frozenset(blamed) - attempt.inline, merged)


def _finish(
    attempt: Attempt,
    context: Context,
    source: ModelProto,
    ledger: Ledger,
    before: Survey,
    expanded: frozenset[Op],
    brought: Mapping[str, int],
) -> Conversion:
    """Finish a converted model: drop unused nodes, check it against the target's schemas, correct declared shapes.

    Runs when all nodes are converted.
    """
    model, targets = context.model, attempt.targets
    body_list, calls = before.census(model)
    if dead_code.drop_unused(model, context.released, body_list):
        body_list, calls = census([*reversed(model.functions), model.graph])
    prune_imports(model, source, targets, brought, before.calls, calls)
    ledger.refusals += _find_unfit(model, context, ledger, expanded, calls)
    if not ledger.refusals:
        idle = not ledger.changes and ir_versions.is_at_opsets(source, targets)
        most = source.ir_version if idle else None  # newer readers read it as they did
        ledger.refusals += ir_versions.write_ir_version(model, targets, attempt.ir_version, body_list, most)
    if ledger.refusals:
        return _fail(attempt, ledger.refusals, ledger.changes)
    said = _mend_declarations(source, context, targets, ledger, before.calls, calls)
    result = Result(model, (*ledger.changes, *said), (), before.calls, calls)
    return Conversion(attempt, _tell_by_user_names(attempt, result))


def _tell_by_user_names(attempt: Attempt, result: Result) -> Result:
    """Report changes under the names that the user wrote, also for functions that were copied for each kind of call."""
    told = replace(result, attempt=", ".join(attempt.why))
    if attempt.copies is not None:
        names = attempt.copies.names
        renamed = (change._replace(op=names.get((change.domain, change.op), change.op)) for change in result.changes)
        homes = {function_place(*op): function_place(op[0], name) for op, name in names.items()}
        refusals = dict.fromkeys(
            replace(
                refusal,
                op=names.get((refusal.domain, refusal.op), refusal.op),
                where=homes.get(refusal.where, refusal.where),
            )
            for refusal in result.refusals
        )
        if names:
            before = result.before and Survey(attempt.source).calls
            told = replace(told, changes=tuple(renamed), refusals=tuple(refusals), before=before)
        told = replace(told, changes=(*attempt.copies.changes, *told.changes))
    if attempt.dropped:
        told = replace(told, changes=(*attempt.dropped, *told.changes), before=None)
    return told


def _mend_declarations(
    source: ModelProto,
    context: Context,
    targets: Mapping[str, int],
    ledger: Ledger,
    before: Mapping[Op, int],
    calls: Mapping[Op, int],
) -> list[Change]:
    """Correct declared shapes and types that runtimes would reject in the result; returns a change for each.

    Part of `_finish`.
    """
    model, inference = context.model, context.inference
    said: list[Change] = []
    if ledger.changes and any(calls.get(op, 0) > before.get(op, 0) for op in _HOLDING):
        said += claims.of_constants(model)
    said += declared.mend_shapes(model, source, before, calls, targets, inference)
    if not said and not ledger.changes:
        return []
    return list(dict.fromkeys([*inference.contradictions(), *context.trust.changes(), *said]))


def _take_out_functions(
    model: ModelProto, source: ModelProto, survey: Survey, inlined: Container[Op]
) -> dict[Op, list[FunctionProto]]:
    """Remove functions that will be inlined from the model and its survey; returns them by name.

    Runs before nodes are converted.
    """
    local: dict[Op, list[FunctionProto]] = {}
    for index in reversed(range(len(source.functions))):
        op = normalize_domain(source.functions[index].domain), source.functions[index].name
        if op in inlined:
            local.setdefault(op, []).insert(0, source.functions[index])
            del model.functions[index], survey.functions[index]
    return local


def _find_unfit(model: ModelProto, context: Context, ledger: Ledger, ops: frozenset[Op], calls: Calls) -> list[Refusal]:
    """List nodes and values of the converted model that the target does not allow. Part of `_finish`."""
    refusals = [*ledger.illegal, *legality.unknown_initializers(model), *legality.readers(model, context.dissolved)]
    if any((normalize_domain(domain), op) in ops for domain, op in calls):
        refusals += legality.find_unexpanded(model, ops)
    return refusals


def _refuse_training_graphs(
    source: ModelProto, targets: Mapping[str, int], replaced: Container[Op]
) -> Iterator[Refusal]:
    """Refuse nodes of training_info that would have to change: opshift does not convert these graphs.

    Runs before nodes are converted.
    """
    own = opsets(source)
    judge = legality.LegalityJudge()
    for info in source.training_info:
        for node in (node for body in with_nested([info.initialization, info.algorithm]) for node in body.node):
            domain, op = normalize_domain(node.domain), node.op_type
            target = targets.get(domain, own.get(domain, 0))
            moved = schemas.since(domain, op, own.get(domain, 0)) != schemas.since(domain, op, target)
            stays = formals.is_lasting(domain, op, own.get(domain, 0), target, needs_work)
            if (domain, op) in replaced or not stays or (moved and judge.why_not(node, target)):
                name = node.name or next(iter(node.output), "")
                yield Refusal(
                    name,
                    op,
                    domain,
                    0,
                    True,
                    "opshift does not convert training information (training_info); remove it from the model",
                )


@collector_paused()
def check_model(source: ModelProto) -> Survey:
    """Check a model before anything else, and group its nodes by kind; raises `InvalidModel` if ONNX does not allow
    it.
    """
    check_opsets(source)
    survey = Survey(source, checked=True)
    if source.functions:
        check_recursion(source, survey.call_counts())
    return survey


def check_in_any_order(source: ModelProto) -> ModelProto:
    """Check a model whose nodes may be in no order, and return it with its nodes in order: the model itself if they
    are. Commands that do not convert call it.
    """

    def run(model: ModelProto) -> ModelProto:
        check_model(model)
        return model

    return in_order_if_needed(run, source)


def find_nearest_opset(
    source: ModelProto, refusals: Iterable[Refusal], targets: Mapping[str, int], folder: str | None = None
) -> int | None:
    """Find the opset closest to the target that the model can reach; None if there is none. Only called after a
    refusal.

    The boundaries in refusals tell which opset is worth an attempt next.
    """
    own, target = opsets(source).get(""), targets.get("")
    if own is None or target is None or own == target:
        return own
    step = 1 if own > target else -1

    def next_opset(refusals: Iterable[Refusal], target: int) -> int:
        """Guess which opset to try next: just beyond the boundary that the refusals name, else one step further.

        Runs after each refused attempt.
        """
        edges = [r.since for r in refusals if r.since and not r.domain]
        opset = (max(edges) if step > 0 else min(edges) - 1) if edges else target + step
        return opset if (opset - target) * step > 0 else target + step

    def plan(opset: int) -> list[Attempt]:
        """Plan a conversion to one opset between the target and the model's own; none beyond the latter."""
        if (own - opset) * step <= 0:
            return []
        progress.tell(f"try opset {opset}")
        return [plan_attempt(source, {**targets, "": opset}, folder=folder)]

    def approach_own_opset(tried: Sequence[Conversion]) -> list[Attempt]:
        last = tried[-1]
        return plan(next_opset(last.result.refusals, last.attempt.targets[""])) if last.is_refused else []

    for first in plan(next_opset(refusals, target)):
        last = try_attempts(first, convert_once, REPAIRS, [approach_own_opset])[-1]
        return own if last.is_refused else last.attempt.targets[""]
    return own


def convert(
    source: ModelProto,
    targets: Mapping[str, int],
    *,
    ops: Iterable[Op] = (),
    ir_version: int | None = None,
    folder: str | None = None,
) -> Result:
    """Convert like `convert_model`, but raise `Refused`, with every reason and the nearest opset.

    Used where a refusal is an error.
    """
    result = convert_model(source, targets, ops=ops, ir_version=ir_version, folder=folder)
    if result.model is None:
        reached = find_nearest_opset(source, result.refusals, targets, folder) if not ops else None
        raise Refused(result.refusals, target=targets.get(""), nearest=reached)
    return result
