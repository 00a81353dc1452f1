"""Conversion of a whole model: a copy is converted, all of it or nothing."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from google.protobuf.message import Error as ProtobufError
from opshift.passes import branches, formals, irversion, legal, retype, schemas, tidy
from opshift.passes.changes import Change, Ledger
from opshift.passes.climb import Climb, needs_work
from opshift.passes.errors import InvalidModel, Refusal, Refused
from opshift.passes.expand import Expander, Op
from opshift.passes.infer import contradiction
from opshift.passes.names import Body, census, with_nested
from opshift.passes.protos import FunctionProto, ModelProto, NodeProto, default_domain
from opshift.passes.scope import Context
from opshift.passes.survey import Survey

Calls = Mapping[tuple[str, str], int]  # how often each (domain, operator) is called

DEEPEST = 32  # a graph in a node's attribute is three messages deeper, and protobuf reads 100 levels
_TOO_DEEP = "what takes the place of its innermost nodes is nested deeper than protobuf's 100 levels of messages"
_MOST_NODES = 1 << 26
Callee = tuple[str, str, str]  # domain, name, overload

_FUNCTIONS_SINCE = 8  # the IR version that introduced model-local functions


@dataclass(frozen=True)
class Result:
    """A converted copy with what was done to it, or the reasons why there is none (`model` is None)."""

    model: ModelProto | None
    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    before: Calls | None = None
    after: Calls | None = None
    """How often each (domain, operator) was called in the source, and is called in `model`."""
    folded: int | None = None
    """How many operators were recognised and put in the place of what computed them; None where nobody asked."""

    @property
    def grade(self) -> str:
        """`exact`, or `close` if any change is."""
        return "close" if any(change.grade == "close" for change in self.changes) else "exact"


@contextmanager
def collector_paused() -> Iterator[None]:
    """Messages and nodes form no cycles; looking for some costs a third of the time on a large graph.

    What is alive in the end is made old at once, so that no look is taken at it then.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@collector_paused()
def attempt(
    source: ModelProto,
    targets: Mapping[str, int],
    *,
    ops: Iterable[Op] = (),
    ir_version: int | None = None,
    folder: str | None = None,
) -> Result:
    """Convert a copy of `source` to `targets` (opset by domain), expanding `ops` wherever they occur.

    `folder` is where external data lie. Model-local functions are converted where they stand; one that cannot be,
    for want of what only its callers know, is inlined, and below IR 8 all are.
    """
    check_imports(source)
    absent = sorted(set(targets) - set(opsets(source)) - {""})
    if absent:
        raise InvalidModel(f"the model imports no opset of domain {absent[0]!r}")
    wanted = frozenset(ops)
    given, local = source, {(default_domain(f.domain), f.name) for f in source.functions}
    inlined = local if irversion.wanted(source, targets, ir_version) < _FUNCTIONS_SINCE else wanted & local
    asks = _asks(source, targets, wanted - local)
    noted: list[Change] = []
    while True:
        found = formals.resolved(given, asks, inlined)
        if found.refusals:
            result = Result(None, (), tuple(found.refusals))
            break
        if found.stuck:
            inlined = inlined | found.stuck
            continue
        if found.model is not given:
            given, local = found.model, {(default_domain(f.domain), f.name) for f in found.model.functions}
            noted += found.changes
        try:
            with blaming(source):
                result = _attempt(given, targets, wanted - local, inlined, ir_version, folder)
        except ProtobufError:
            return Result(None, (), (Refusal("", "graph", "", 0, False, _TOO_DEEP),))
        stuck = {op for op in local - inlined if _blames(result.refusals, op)}
        if not stuck:
            break
        inlined = inlined | stuck
    if given is not source:
        result = replace(result, changes=(*noted, *result.changes), before=result.before and Survey(source).calls)
    if result.refusals and (pruned := branches.without_dead(source, opsets(source).get("", 1), folder)):
        model, decided = pruned
        result = attempt(model, targets, ops=ops, ir_version=ir_version, folder=folder)
        changes = (*(_never_taken(node, source) for node in decided), *result.changes)
        return replace(result, before=None, changes=changes)
    return result


def _asks(source: ModelProto, targets: Mapping[str, int], wanted: Container[Op]) -> formals.Asks:
    """Whether an operator of a function has to become another one, wherever the function is inlined."""
    imported: dict[str, set[int]] = {domain: {version} for domain, version in targets.items()}
    holders: list[ModelProto | FunctionProto] = [source, *source.functions]
    for domain, version in (entry for holder in holders for entry in opsets(holder).items()):
        if domain not in targets:
            imported.setdefault(domain, set()).add(version)

    def asks(domain: str, op: str, version: int) -> bool:
        return (domain, op) in wanted or not all(_stays(domain, op, version, to) for to in imported.get(domain, ()))

    return asks


def _stays(domain: str, op: str, version: int, target: int) -> bool:
    """Whether calls of an operator mean the same at another version."""
    at, goal = schemas.since(domain, op, version), schemas.since(domain, op, target)
    return at == goal if at is None or goal is None else not needs_work(domain, op, at, goal)


@contextmanager
def blaming(source: ModelProto) -> Iterator[None]:
    """Rewrites trust that nodes have what they must have: `InvalidModel` says where they fail for want of it."""
    try:
        yield
    except (InvalidModel, ProtobufError):
        raise
    except Exception as error:
        for problem in legal.problems(source):
            raise InvalidModel(f"the model is not valid: {problem.op} {problem.node!r} is {problem.why}") from error
        if why := contradiction(source):
            raise InvalidModel(f"the model is not valid: {why}") from error
        if isinstance(error, ValueError):  # which to a user means something that was asked for in vain
            raise RuntimeError(str(error)) from error
        raise


def _never_taken(node: NodeProto, source: ModelProto) -> Change:
    opset = opsets(source).get("", 1)
    how = "The branch that the constant condition never takes is replaced by the other"
    return Change(node.name or next(iter(node.output), ""), node.op_type, "", opset, opset, how)


def _blames(refusals: Iterable[Refusal], op: Op) -> bool:
    return any(refusal.where == _where(*op) for refusal in refusals)


def _where(domain: str, name: str) -> str:
    return f"function {domain}::{name}" if domain else f"function {name}"


def _attempt(
    source: ModelProto,
    targets: Mapping[str, int],
    ops: frozenset[Op],
    inlined: frozenset[Op] | set[Op],
    ir_version: int | None,
    folder: str | None,
) -> Result:
    if "" in targets and (missing := tuple(legal.missing_types(source, targets[""]))):
        return Result(None, (), missing)
    ledger = Ledger(refusals=list(_training(source, targets, ops | inlined)))
    source = retype.narrow_integers_carried(source, targets.get("", 0), ledger, folder)
    before = Survey(source)
    if before.depth > DEEPEST:
        raise InvalidModel(f"graphs are nested {before.depth} deep; no protobuf reader follows more than {DEEPEST}")
    model = ModelProto()
    model.CopyFrom(source)
    context = Context(model, source, folder)
    local: dict[Op, list[FunctionProto]] = {}
    for function in source.functions:
        if (op := (default_domain(function.domain), function.name)) in inlined:
            local.setdefault(op, []).append(function)
    layouts = before.functions
    for index in reversed(range(len(model.functions))):
        if (default_domain(model.functions[index].domain), model.functions[index].name) in inlined:
            del model.functions[index], layouts[index]
    climb = Climb(context, targets, Expander(ops, local), ledger, before)
    brought = _brought(source, before.calls)
    climb.body(model.graph, before.graph, {**brought, **opsets(model)})
    _stamp_imports(model, targets, required=True)
    for function, layout in zip(model.functions, layouts, strict=True):
        where = _where(default_domain(function.domain), function.name)
        climb.body(function, layout, {**brought, **opsets(function)}, where)
        _stamp_imports(function, targets, required=False)
    if not ledger.refusals:
        if tidy.drop_unused(model, context.released):
            held, calls = census([*reversed(model.functions), model.graph])
        else:
            held, calls = before.census(model)
        _prune_imports(model, source, targets, brought, before.calls, calls)
        ledger.refusals += [*ledger.illegal, *legal.unknown_initializers(model)]
        ledger.refusals += legal.readers(model, context.dissolved)
        if any((default_domain(domain), op) in ops for domain, op in calls):
            ledger.refusals += legal.left(model, ops)
        if not ledger.refusals:
            ledger.refusals += irversion.settle(model, targets, ir_version, held)
        if not ledger.refusals:
            return Result(model, tuple(ledger.changes), (), before.calls, calls)
    return Result(None, tuple(ledger.changes), tuple(ledger.refusals))


def _training(source: ModelProto, targets: Mapping[str, int], replaced: Container[Op]) -> Iterator[Refusal]:
    """Graphs of training_info stay as they are: a refusal for each node that would have to become another one."""
    own = opsets(source)
    judge = legal.Judge()
    for info in source.training_info:
        for node in (node for body in with_nested([info.initialization, info.algorithm]) for node in body.node):
            domain, op = default_domain(node.domain), node.op_type
            target = targets.get(domain, own.get(domain, 0))
            moved = schemas.since(domain, op, own.get(domain, 0)) != schemas.since(domain, op, target)
            stays = _stays(domain, op, own.get(domain, 0), target)
            if (domain, op) in replaced or not stays or (moved and judge.why_not(node, target)):
                name = node.name or next(iter(node.output), "")
                yield Refusal(name, op, domain, 0, True, "nodes of training_info are not converted")


def opsets(holder: ModelProto | FunctionProto) -> dict[str, int]:
    """The opset by domain that a model or function imports; a model of IR 1 or 2 says nothing and means 1."""
    found = {default_domain(i.domain): i.version for i in holder.opset_import}
    if not found and isinstance(holder, ModelProto) and holder.ir_version < 3:
        found[""] = 1
    return found


def check_imports(model: ModelProto) -> None:
    """Raise `InvalidModel` for opset imports that contradict each other or are newer than what is known."""
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    for holder in holders:
        seen: dict[str, int] = {}
        for entry in holder.opset_import:
            domain = default_domain(entry.domain)
            if seen.setdefault(domain, entry.version) != entry.version:
                raise InvalidModel(
                    f"domain {domain or 'ai.onnx'!r} is imported at {seen[domain]} and at {entry.version}"
                )
            if schemas.known_domain(domain) and not 1 <= entry.version <= schemas.latest(domain):
                raise InvalidModel(
                    f"opset {entry.version} of domain {domain or 'ai.onnx'!r} is unknown; "
                    f"1 to {schemas.latest(domain)} are"
                )
        if "" not in opsets(holder) and "" in _used(holder):
            raise InvalidModel("operators of the default domain are used, but no opset of it is imported")
    if not model.HasField("graph"):
        raise InvalidModel("the model has no graph")
    _check_recursion(model)


def _check_recursion(model: ModelProto) -> None:
    """Functions must not call themselves, directly or through others (ONNX IR specification, "Functions").

    Nor may they stand for more nodes than any runtime that inlines them could hold.
    """
    if not model.functions:
        return
    names = {(default_domain(f.domain), f.name, f.overload) for f in model.functions}
    calls: dict[Callee | None, Counter[Callee]] = {name: Counter() for name in (None, *names)}
    holders: list[tuple[Callee | None, Body]] = [(None, model.graph)]
    holders += [((default_domain(f.domain), f.name, f.overload), f) for f in model.functions]
    for caller, holder in holders:
        for body in with_nested([holder]):
            calls[caller].update((default_domain(n.domain), n.op_type, n.overload) for n in body.node)
    inner = {name: calls[name].keys() & names for name in names}
    ready = [name for name, callees in inner.items() if not callees]
    callers: dict[Callee, list[Callee]] = {}
    for name, callees in inner.items():
        for callee in callees:
            callers.setdefault(callee, []).append(name)
    waiting = {name: len(callees) for name, callees in inner.items()}
    nodes: dict[Callee, int] = {}

    def stands_for(of: Callee | None) -> int:
        return sum(nodes.get(callee, 1) * count for callee, count in calls[of].items())

    while ready:
        done = ready.pop()
        nodes[done] = min(stands_for(done), _MOST_NODES)
        for name in callers.get(done, ()):
            waiting[name] -= 1
            if not waiting[name]:
                ready.append(name)
    if len(nodes) < len(names):
        stuck = next(name for name, left in waiting.items() if left)
        raise InvalidModel(f"function {stuck[1]!r} calls itself, directly or through others")
    if stands_for(None) >= _MOST_NODES:
        raise InvalidModel(f"with its functions written out the model has {_MOST_NODES} nodes or more")


def _stamp_imports(holder: ModelProto | FunctionProto, targets: Mapping[str, int], *, required: bool) -> None:
    present = set()
    for entry in holder.opset_import:
        domain = default_domain(entry.domain)
        present.add(domain)
        if domain in targets:
            entry.version = targets[domain]
    for domain in sorted(set(targets) - present) if required else ():
        holder.opset_import.add(domain=domain, version=targets[domain])


def _prune_imports(
    model: ModelProto,
    source: ModelProto,
    targets: Mapping[str, int],
    brought: Mapping[str, int],
    before: Calls,
    after: Calls,
) -> None:
    """Drop the imports of domains whose every call was expanded; import what expansions brought in."""
    unused = {*opsets(model)} - {default_domain(domain) for domain, _ in after} - {""}
    gone = unused and {default_domain(domain) for domain, _ in before} & unused
    for index in reversed(range(len(model.opset_import))):
        if default_domain(model.opset_import[index].domain) in gone:
            del model.opset_import[index]
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    called = {default_domain(domain) for domain, _ in after}
    for holder in holders:
        missing = (brought.keys() & called) - opsets(holder).keys()
        used = _used(holder) if missing else set()
        for domain, version in brought.items():
            if domain in missing & used:
                holder.opset_import.add(domain=domain, version=targets.get(domain, version))


def _brought(source: ModelProto, before: Calls) -> dict[str, int]:
    """The opset by domain that what takes a node's place brings in where nothing is imported.

    For the call of a function it is that of the first one; what steps make of other domains never changed.
    """
    used = {domain for domain, _ in before}
    found = {domain: 1 for domain in ("ai.onnx.ml",) if domain not in used}
    for function in source.functions:
        for domain, version in opsets(function).items():
            found.setdefault(domain, version)
    return found


def _used(holder: ModelProto | FunctionProto) -> set[str]:
    body = holder.graph if isinstance(holder, ModelProto) else holder
    return {default_domain(node.domain) for nested in with_nested([body]) for node in nested.node}


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
