"""The engine: takes every node from its own version to the target, one version boundary at a time.

A node whose operator has one and the same version at both ends costs one dictionary look-up. Any other climbs
rung by rung through the registered steps; what a step creates goes back on the list with its own version.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.analysis.type_inference import HOLDING_GRAPHS
from opshift.passes.changes import Change, Ledger
from opshift.passes.conversion.replay.cache import Replays
from opshift.passes.conversion.transitions import _narrowed, _next_edge, _too_early, _variable, needs_work
from opshift.passes.errors import CannotConvert, Refusal
from opshift.passes.inlining.expand import Expander
from opshift.passes.model import legality, schemas
from opshift.passes.model.encoding.fields import put
from opshift.passes.model.kinds import Kind, Layout, Survey
from opshift.passes.model.messages import FunctionProto, NodeProto, default_domain
from opshift.passes.model.traversal import Body, Op, subgraphs
from opshift.passes.model.types import type_text
from opshift.passes.model.validity import is_theirs
from opshift.passes.rewrite import registry
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.replace import _drop_stale_shards, _inherit, _lost_plans, take_over
from opshift.passes.rewrite.says import sentence_of

from opshift import functions

Versions = Mapping[str, int]
Within = tuple[tuple[Op, int], ...]  # the operators, with their versions, that a node was made of, the outermost first

_FIRST_INFERRED = 7  # many schemas below it infer no types or no broadcast shapes


class _Plan(Enum):
    KEEP = "the operator has the same version at both ends, and such a call is legal there"
    JUDGE = "the same, but whether it is legal hangs on its attributes, or it is not"
    DESCEND = "it may hold subgraphs, and may change"
    CLIMB = "it holds none; it changes, is expanded, or cannot exist at the target"


@dataclass
class _Work:
    """One node on the list: its message, the versions it is written at, its place in the source graph."""

    proto: NodeProto
    versions: Versions
    index: int | None = None
    inner: Sequence[Layout] = ()
    settled: bool = False  # its subgraphs are at the target
    within: Within = ()
    written: bool = False  # by the user, in the body of a function


class Climb:
    """Converts bodies in place; `targets` maps each domain that moves to the opset it moves to."""

    def __init__(self, context: Context, targets: Versions, expander: Expander, ledger: Ledger, survey: Survey):
        self._context = context
        self._survey = survey
        self._targets = targets
        self._expander = expander
        self._ledger = ledger
        self._known: dict[object, tuple[dict[Kind, _Plan], Replays]] = {}
        self._judge = legality.Judge()
        self._rehearsing = False
        self._source = NodeProto()
        self._where = ""
        self._home: Versions = {}

    def body(self, body: Body, layout: Layout, versions: Versions, where: str = "") -> None:
        """Convert the main graph or a model-local function, with all graphs nested in it.

        A domain that does not move stays at `versions`: what is inlined here is taken there, too.
        """
        self._where = where
        self._home = versions
        path = None if isinstance(body, FunctionProto) else ()
        self._convert(body, layout, Scope(body, self._context, versions.get("", 1), path=path), versions)

    def _convert(self, body: Body, layout: Layout, scope: Scope, versions: Versions, within: Within = ()) -> None:
        plans, replays = self._at(versions, within)
        nodes = body.node
        taken: dict[int, Sequence[NodeProto | bytes]] = {}

        def rehearse(stand_in: NodeProto, stage: Scope) -> tuple[list[NodeProto], list[Change]] | None:
            return self._rehearse(stand_in, stage, versions, within)

        for kind in set(layout.kinds) - plans.keys():
            plans[kind] = self._plan(versions, kind)
        changing = {kind for kind in set(layout.kinds) if plans[kind] is not _Plan.KEEP}
        visited = [(index, kind) for index, kind in enumerate(layout.kinds) if kind in changing]
        places: dict[Kind, list[int]] = {kind: [] for kind in changing}
        for index, kind in visited:
            places[kind].append(index)
        ahead: dict[Kind, Iterator[Iterable[Change]] | None] = {}
        for index, kind in visited:
            if done := ahead.get(kind):
                self._ledger.changes += next(done)
                continue
            proto, plan = nodes[index], plans[kind]
            produced: Sequence[NodeProto | bytes] | None = None
            if plan is _Plan.JUDGE:
                if self._is_legal(proto, versions) and kind.same:
                    plans[kind] = _Plan.KEEP
                continue
            if plan is _Plan.KEEP:
                continue
            if plan is _Plan.CLIMB and not self._rehearsing:
                produced = replays.settle(proto, kind, scope, rehearse, self._ledger.changes)
                if produced is not None and kind not in ahead:
                    later = places[kind][bisect_right(places[kind], index) :]
                    calls, whole = [nodes[k] for k in later], not layout.values.omitting
                    ahead[kind] = replays.ahead(kind, calls, scope, whole=whole)
            if produced is None:
                work = _Work(proto, versions, index, layout.inner.get(index, ()), within=within)
                produced = self._settle(work, scope)
                layout.outdated |= (proto.domain, proto.op_type) != (kind.domain, kind.op)
            if len(produced) != 1 or produced[0] is not proto:
                taken[index] = produced
        if taken:
            put(body, taken)
            layout.outdated = True

    def _at(self, versions: Versions, within: Within) -> tuple[dict[Kind, _Plan], Replays]:
        """What is known of nodes that are written at `versions` and were made `within` operators."""
        key = frozenset(versions.items()), frozenset(self._home.items()), within
        if key not in self._known:
            self._known[key] = {}, Replays()
        return self._known[key]

    def _plan(self, versions: Versions, kind: Kind) -> _Plan:
        domain, op = default_domain(kind.domain), kind.op
        version = versions.get(domain, 0)
        if self._expander.wants(domain, op):
            return _Plan.CLIMB
        at, goal = schemas.since(domain, op, version), schemas.since(domain, op, self._target(domain, version))
        if (goal is None or _too_early(op, at)) and schemas.known_domain(domain):
            return _Plan.CLIMB
        holds_graphs = schemas.has_subgraphs(domain, op)
        if needs_work(domain, op, at or 0, goal or 0):
            return _Plan.CLIMB if not holds_graphs else _Plan.DESCEND
        if holds_graphs:
            return _Plan.DESCEND
        opset = self._target(domain, version)
        if kind.attributes or (opset and self._judge.why(kind.domain, op, kind.inputs, kind.outputs, (), opset)):
            return _Plan.JUDGE
        return _Plan.KEEP

    def _rehearse(
        self, proto: NodeProto, scope: Scope, versions: Versions, within: Within
    ) -> tuple[list[NodeProto], list[Change]] | None:
        ledger, self._ledger, self._rehearsing = self._ledger, Ledger(), True
        try:
            done = self._settle(_Work(proto, versions, within=within), scope)
            failed = self._ledger.refusals or self._ledger.illegal
            return None if failed else (done, self._ledger.changes)
        finally:
            self._ledger, self._rehearsing = ledger, False

    def _target(self, domain: str, version: int) -> int:
        """The version to reach in a domain: the one asked for, else the one that the body imports."""
        return self._targets.get(domain) or self._home.get(domain, version)

    def _settle(self, first: _Work, scope: Scope) -> list[NodeProto]:
        """Everything that takes the node's place, all of it at the target."""
        outer, op, outputs = self._source, first.proto.op_type, first.proto.output[:]
        if not first.within:
            self._source = NodeProto(
                name=first.proto.name or next(iter(first.proto.output), ""),
                op_type=first.proto.op_type,
                domain=default_domain(first.proto.domain),
            )
        done, written = list[NodeProto](), list[NodeProto]()
        pending = [first]
        while pending:
            work = pending.pop()
            if not work.settled:
                self._descend(work, scope)
                work.settled = True
            try:
                replacement = self._advance(work, scope)
            except CannotConvert as refused:
                self._refuse(work, refused)
                done.append(work.proto)
                scope.record(work.proto, work.versions.get("", 1))
                continue
            if replacement is None:
                self._is_legal(work.proto, work.versions)
                done.append(work.proto)
                if work.written:
                    written.append(work.proto)
                if scope.context.released:
                    scope.context.released.difference_update(work.proto.input)
                _drop_stale_shards(work.proto)
                opset = self._target("", work.versions.get("", 1))
                scope.record(work.proto, opset)
                if opset < 6 and work.proto.op_type == "Cast":
                    scope.declare(work.proto.output[0])  # its schema infers nothing there
            else:
                pending += reversed(replacement)
        self._source = outer
        if len(done) > max(1, len(written)) and not first.within:
            from opshift.passes.optimization import local

            done = local.tidied(done, op, written, outputs, scope, self._target("", first.versions.get("", 1)))
        return done

    def _is_legal(self, proto: NodeProto, versions: Versions) -> bool:
        """Whether the target takes a node as it is now; what it does not take goes to the ledger."""
        domain = default_domain(proto.domain)
        opset = self._target(domain, versions.get(domain, 0))
        why = self._judge.why_not(proto, opset) if opset else ""
        if why:
            self._ledger.illegal.append(legality.illegal(proto, opset, why, self._where))
        return not why

    def _descend(self, work: _Work, scope: Scope) -> None:
        domain, op = default_domain(work.proto.domain), work.proto.op_type
        if not schemas.has_subgraphs(domain, op) or self._expander.inlines(domain, op):
            return  # a function's graphs are converted where its body uses them
        version, opset = work.versions.get(domain, 0), work.versions.get("", 1)
        at, goal = schemas.since(domain, op, version), schemas.since(domain, op, self._target(domain, version))
        if work.index is None or scope.path is None or (at or 0) > (goal or 0):
            self._keep_types(work, scope)  # once its graphs are at the target, nothing is inferred from them
        for number, (attribute, k, graph) in enumerate(subgraphs(work.proto)):
            layout = work.inner[number] if work.inner else self._survey.layout(graph)
            inferred = scope.path is not None and work.index is not None and op in HOLDING_GRAPHS and not domain
            path = (*scope.path, (work.index, attribute, k)) if inferred and scope.path is not None else None
            inner = Scope(graph, scope.context, opset, scope, path)
            self._convert(graph, layout, inner, work.versions, work.within)
        scope.context.settled.update(work.proto.output)

    def _advance(self, work: _Work, scope: Scope) -> list[_Work] | None:
        """Take a node as far as it goes; None once it has arrived, else what takes its place on the list."""
        while True:
            domain, op = default_domain(work.proto.domain), work.proto.op_type
            version = work.versions.get(domain, 0)
            target = self._target(domain, version)
            first = min(schemas.versions(domain, op), default=0)
            wanted = self._expander.wants(domain, op)
            if wanted and any(of == (domain, op) and (schemas.since(*of, version) or 0) >= v for of, v in work.within):
                raise CannotConvert(self._node(work, scope, version), _circle(op, work.within))
            if wanted or target < first:
                definition = registry.definition(domain, op) if wanted else None
                stop = self._expander.opset(work.proto, scope, version)
                if definition is not None:
                    stop = definition.opset or version
                if stop is not None and schemas.since(domain, op, version) == schemas.since(domain, op, stop):
                    return self._expand(work, scope, version, definition)
                if stop is not None:
                    target = stop
                elif registry.step(domain, op, first) is not None:
                    target = first - 1
                elif self._steps_down_first(domain, op, version, first):
                    target = first
                else:
                    self._cannot_expand(work, scope, target)
            at, goal = schemas.since(domain, op, version), schemas.since(domain, op, target)
            if schemas.known_domain(domain) and ((goal is None and at is None) or _too_early(op, at)):
                raise CannotConvert(self._node(work, scope, version), _unknown(domain, op, version))
            if at == goal:
                return None
            edge = _next_edge(domain, op, at or 0, goal or 0)
            inserted = self._cross(work, scope, edge, up=(goal or 0) > (at or 0))
            if inserted is not None:
                return inserted

    def _cross(self, work: _Work, scope: Scope, edge: int, *, up: bool) -> list[_Work] | None:
        """One rung: over the boundary below version `edge`. None if the node was edited where it stands."""
        domain, op = default_domain(work.proto.domain), work.proto.op_type
        older = max((v for v in schemas.versions(domain, op) if v < edge), default=0)
        before, after = (older, edge) if up else (edge, older)
        arrived = {**work.versions, domain: edge if up else edge - 1}
        node = self._node(work, scope, before, arrived.get("", 1))
        if edge <= _FIRST_INFERRED and not up and not domain:
            self._keep_types(work, scope)
        pair = registry.step(domain, op, edge)
        step = None if pair is None else pair.up if up else pair.down
        result = None
        try:
            if step is not None:
                result = step(node)
                _check_imports(node, arrived)
            elif pair is None and schemas.difference(domain, op, older, edge) == "changed":
                raise CannotConvert(node, "this change of the operator is not supported yet")
            if result is None and work.proto.op_type == op:
                self._check_types(node, before, after)
        except CannotConvert as refused:
            raise refused.at(edge, up=up) from None
        for layout in work.inner if step is not None else ():
            layout.outdated = True
        if step is not None and (node.touched or result is not None):
            self._note(node, op, before, after, sentence_of(step), replaced=result is not None)
        work.versions = arrived
        work.index = None
        if result is None and node.touched:
            node.drop_omitted()
            scope.record(work.proto, arrived.get("", 1))
        if work.proto.op_type != op:
            work.within += (((domain, op), before),)
        if result is None and not node.build.nodes:
            return None
        made = node.build.nodes if result is None else take_over(node, result)
        works = [self._made(proto, work, (domain, op), before, arrived, node.build.copies) for proto in made]
        return works if result is not None else [*works, work]

    def _made(
        self, proto: NodeProto, work: _Work, op: Op, since: int, versions: Versions, copies: Sequence[NodeProto]
    ) -> _Work:
        """A node that a step or a definition made of a call of `op`, perhaps that operator at another version."""
        same = (default_domain(proto.domain), proto.op_type) == op
        known = work.within and self._expander.inlines(*op)  # a function leads back to nothing, long as a chain may be
        within = work.within if same or known else (*work.within, (op, since))
        return _Work(proto, versions, settled=any(proto is copy for copy in copies), within=within)

    def _keep_types(self, work: _Work, scope: Scope) -> None:
        """The types of made values, while the node is written at a version that infers them."""
        for name in work.proto.output:
            if name and scope.origin(name) is not None:
                scope.type(name)

    def _expand(
        self, work: _Work, scope: Scope, version: int, definition: registry.OnRequest | None = None
    ) -> list[_Work]:
        node = self._node(work, scope, version, version)
        if definition is not None:
            imports = {node.domain: definition.opset or version}
            node.build.opset = imports.get("", node.build.opset)
            nodes, how = take_over(node, definition.step(node) or ()), sentence_of(definition.step)
        else:
            nodes, imports, node.grade, how = self._expander.expand(node)
            scope.context.released.update(node.inputs)
            _inherit(nodes, node)
        self._note(node, work.proto.op_type, version, version, how, replaced=True)
        op = (default_domain(work.proto.domain), work.proto.op_type)
        since = schemas.since(*op, version) or 0
        works = [self._made(proto, work, op, since, {**work.versions, **imports}, node.build.copies) for proto in nodes]
        for made in works if self._expander.is_local(*op) else ():
            made.written = True
        return works

    def _steps_down_first(self, domain: str, op: str, version: int, first: int) -> bool:
        """Whether a type that no definition takes may be gone at the first version, which took fewer types."""
        return first > 1 and functions.defined(domain, op) and schemas.since(domain, op, version) != first

    def _cannot_expand(self, work: _Work, scope: Scope, target: int) -> None:
        domain, op = default_domain(work.proto.domain), work.proto.op_type
        node = self._node(work, scope, work.versions.get(domain, 0))
        first = min(schemas.versions(domain, op), default=0)
        lacking = "there is no definition of this operator to inline"
        if target < first:
            lacking = f"the operator exists from opset {first} on and has no definition in older operators"
        refused = CannotConvert(node, self._expander.misfit(node) or lacking)
        raise refused.at(first, up=False) if target < first else refused

    def _check_types(self, node: Node, before: int, after: int) -> None:
        """Refuse types that the new version does not take; where it takes all that the old one did, look at none."""
        new = schemas.schema(node.domain, node.op_type, after)
        if new is None:
            return
        for variable, allowed in _narrowed(default_domain(node.domain), node.op_type, before, after):
            names = [n for i, n in enumerate(node.inputs) if _variable(new.input(i)) == variable]
            names += [n for i, n in enumerate(node.outputs) if _variable(new.output(i)) == variable]
            known = {n: t for n in filter(None, names) if (k := node.scope.type(n)) and (t := type_text(k))}
            for name, text in known.items():
                if text not in allowed:
                    raise CannotConvert(node, f'"{name}" is {text}; {_listed(allowed)} could be expressed')
            if any(names) and not known:
                raise CannotConvert(node, f'the type of "{next(filter(None, names))}" is unknown')

    def _node(self, work: _Work, scope: Scope, version: int, build_at: int | None = None) -> Node:
        builder = Builder(scope, work.versions.get("", 1) if build_at is None else build_at, work.proto)
        return Node(work.proto, scope, version, builder)

    def _note(self, node: Node, op: str, source: int, target: int, how: str, *, replaced: bool) -> None:
        lost = _lost_plans(node.proto, replaced)
        if lost:
            tensors = _listed(lost, "tensors")
            node.remarks.append(f"how {tensors} had to be split among devices is said no more")
        self._ledger.changes.append(
            Change(node.name, op, node.domain, source, target, how, node.grade, "; ".join(node.remarks))
        )

    def _refuse(self, work: _Work, refused: CannotConvert) -> None:
        """What a node became that the user did not write is named behind the one that they wrote."""
        node, source = refused.node, self._source
        name, op, domain, why = node.name, node.op_type, default_domain(node.domain), refused.why
        if work.within:
            name, op, domain, why = source.name, source.op_type, source.domain, f"it becomes {op} {name!r}: {why}"
        self._ledger.refusals.append(Refusal(name, op, domain, refused.edge, refused.up, why, self._where))


def _check_imports(node: Node, versions: Versions) -> None:
    """Refuse nodes of a domain that the model does not import: nothing says which version they should have."""
    for made in node.build.nodes:
        if default_domain(made.domain) not in versions:
            raise CannotConvert(node, f"{made.op_type} is needed, but the model imports no opset of its domain")


def _listed(found: frozenset[str], what: str = "other types") -> str:
    return ", ".join(sorted(found)) if len(found) <= 12 else f"{len(found)} {what}"


def _circle(op: str, within: Within) -> str:
    """Which definitions need each other, so that none of them is free of operators that are to go."""
    names = [name for (_, name), _ in within]
    way = " needs ".join([*names[names.index(op) :], op])
    return f"its definition leads back to it: {way}"


def _unknown(domain: str, op: str, version: int) -> str:
    known = schemas.versions(domain, op)
    if not known and is_theirs(domain, op, version):
        return "it is onnxruntime's own operator in the default domain, and has no definition here"
    if not known:
        return f"ONNX defines no operator of this name in domain {domain or 'ai.onnx'!r}"
    return f"the operator exists from opset {known[0]} on, but the model imports opset {version}"
