"""The worklist: convert every node from its version to the target, one version boundary at a time.

A node whose operator has the same version at both ends costs one dictionary look-up. Any other crosses one boundary
after the other by the registered steps. Nodes that a step creates go on the list, each with its own version.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from opshift.passes import progress
from opshift.passes.analysis.claims import ENTERED
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.changes import Change, Ledger
from opshift.passes.conversion import moves
from opshift.passes.conversion.replay.cache import Replays
from opshift.passes.conversion.route import Arrived, CallPlan, Inline, Route
from opshift.passes.conversion.work import Versions, Within, Work
from opshift.passes.errors import CannotConvert, Refusal, function_place
from opshift.passes.inlining.expander import Expander
from opshift.passes.model import legality, schemas
from opshift.passes.model.call_signatures import BodyLayout, CallSignature, Survey
from opshift.passes.model.encoding.fields import put
from opshift.passes.model.messages import AttributeProto, FunctionProto, ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import Body, subgraphs
from opshift.passes.rewrite.replace import drop_stale_shards

_TOLD = 5_000  # nodes, after each of which it is told how far a body is


class BodyConverter:
    """Converts graphs and functions in place, to target opsets by domain."""

    def __init__(self, context: Context, targets: Versions, expander: Expander, ledger: Ledger, survey: Survey):
        self._context = context
        self._survey = survey
        self._targets = targets
        self._route = Route(targets, {}, expander)
        self._expander = expander
        self._ledger = ledger
        self._known: dict[object, tuple[dict[CallSignature, CallPlan], Replays]] = {}
        self._judge = legality.LegalityJudge()
        self._rehearsing = False
        self._source = NodeProto()

    def enter(self, holder: ModelProto | FunctionProto, versions: Versions) -> Scope:
        """Start with the main graph or a model-local function; returns its scope, for `convert_body`.

        Runs before `convert_body` of the main graph and of each function.

        Nodes of a domain without a target stay at `versions`. Definitions that are inlined here are taken there, too.
        """
        self.home = versions
        self._route = Route(self._targets, versions, self._expander)
        if isinstance(holder, FunctionProto):
            self._where = function_place(normalize_domain(holder.domain), holder.name)
            return Scope(holder, self._context, versions.get("", 1))
        self._where = ""
        return Scope(holder.graph, self._context, versions.get("", 1), path=())

    def convert_body(
        self, body: Body, layout: BodyLayout, scope: Scope, versions: Versions, within: Within = ()
    ) -> None:
        """Convert all nodes of a graph or function in place, subgraphs included.

        Runs for the main graph, each function, and each subgraph.

        Kinds of calls that occur often are converted by replaying what the steps did to one of them.
        """
        plans, replays = self._at(versions, within)
        nodes = body.node
        taken: dict[int, Sequence[NodeProto | bytes]] = {}

        def rehearse(stand_in: NodeProto, stage: Scope) -> tuple[list[NodeProto], list[Change]] | None:
            return self._rehearse(stand_in, stage, versions, within)

        visited = self._plan_signatures(nodes, layout, plans, versions)
        places: dict[CallSignature, list[int]] = {}
        for index, signature in visited:
            places.setdefault(signature, []).append(index)
        ahead: dict[CallSignature, Iterator[Iterable[Change]] | None] = {}
        for place, (index, signature) in enumerate(visited):
            if place % _TOLD == _TOLD - 1:
                progress.tell("convert", place + 1, len(visited))
            if done := ahead.get(signature):
                self._ledger.changes += next(done)
                continue
            proto, plan = nodes[index], plans[signature]
            produced: Sequence[NodeProto | bytes] | None = None
            if plan is CallPlan.JUDGE:
                if not self._note_illegal(proto, versions) and signature.same:
                    plans[signature] = CallPlan.KEEP
                continue
            if plan is CallPlan.KEEP:
                continue
            if plan is CallPlan.CONVERT and not self._rehearsing:
                produced = replays.replay(proto, signature, scope, rehearse, self._ledger.changes)
                if produced is not None and signature not in ahead:
                    later = places[signature][bisect_right(places[signature], index) :]
                    whole = not layout.values.omitting
                    ahead[signature] = replays.ahead(signature, nodes, later, scope, whole=whole)
            if produced is None:
                work = Work(proto, versions, index, layout.inner.get(index, ()), within=within)
                produced = self._convert_node(work, scope)
                layout.outdated |= (proto.domain, proto.op_type) != (signature.domain, signature.op)
            if len(produced) != 1 or produced[0] is not proto:
                taken[index] = produced
            scope.settle(produced)
        if taken:
            put(body, taken)
            layout.outdated = True

    def _plan_signatures(
        self, nodes: Sequence[NodeProto], layout: BodyLayout, plans: dict[CallSignature, CallPlan], versions: Versions
    ) -> list[tuple[int, CallSignature]]:
        """Plan each kind of node once; returns the places and kinds of nodes that need work.

        Runs before the nodes of a body are visited.
        """
        forms: dict[object, CallPlan] = {}  # of many constants, each of which is a kind
        signatures = set(layout.signatures)
        for signature in [
            signature for signature in signatures if signature not in plans
        ]:  # a difference would look at each of the plans
            form = signature.domain, signature.op, signature.inputs, signature.outputs, signature.attributes
            if form not in forms:
                forms[form] = self._route.plan(versions, signature, self._judge)
            plans[signature] = forms[form]
        changing = {signature for signature in signatures if plans[signature] is not CallPlan.KEEP}
        constants = {
            signature
            for signature in changing
            if (signature.op, signature.domain, signature.attributes) == ("Constant", "", 1)
        }
        lasting = self._find_kept_constants(nodes, layout, constants, plans, versions) if constants else ()
        return [
            (index, signature)
            for index, signature in enumerate(layout.signatures)
            if signature in changing and index not in lasting
        ]

    def _find_kept_constants(
        self,
        nodes: Sequence[NodeProto],
        layout: BodyLayout,
        constants: Container[CallSignature],
        plans: Mapping[CallSignature, CallPlan],
        versions: Versions,
    ) -> set[int]:
        """Find Constants whose tensor type the target accepts, which need no work. Part of planning a body."""
        opset, kinds = self._route.target("", versions.get("", 0)), (("value", AttributeProto.TENSOR),)
        if not opset or self._judge.why("", "Constant", 0, 1, kinds, opset):
            return set()
        places = [index for index, signature in enumerate(layout.signatures) if signature in constants]
        legal = {index for index in places if plans[layout.signatures[index]] is CallPlan.JUDGE}
        taken = self._route.tensors_kept(versions) if len(legal) < len(places) else ()
        kept = {index for index in places if index not in legal and _elem_type(nodes[index]) in taken}
        return kept | (legal & layout.values.constants)

    def _at(self, versions: Versions, within: Within) -> tuple[dict[CallSignature, CallPlan], Replays]:
        """Look up the plans and replays for nodes at `versions` that came from the definitions of `within`.

        Runs at the beginning of each body.
        """
        key = frozenset(versions.items()), frozenset(self._route.home.items()), within
        if key not in self._known:
            self._known[key] = {}, Replays()
        return self._known[key]

    def _rehearse(
        self, proto: NodeProto, scope: Scope, versions: Versions, within: Within
    ) -> tuple[list[NodeProto], list[Change]] | None:
        """Convert a stand-in to learn what the steps do; None if they refuse. The report stays untouched."""
        ledger, self._ledger, self._rehearsing = self._ledger, Ledger(), True
        try:
            done = self._convert_node(Work(proto, versions, within=within), scope)
            failed = self._ledger.refusals or self._ledger.illegal
            return None if failed else (done, self._ledger.changes)
        finally:
            self._ledger, self._rehearsing = ledger, False

    def _convert_node(self, first: Work, scope: Scope) -> list[NodeProto]:
        """Convert one node until it and all its replacements are at the target; returns the final nodes.

        Runs for each node that needs work and is not replayed.
        """
        outer, op, outputs = self._source, first.proto.op_type, first.proto.output[:]
        if not first.within:
            self._source = NodeProto(
                name=first.proto.name or next(iter(first.proto.output), ""),
                op_type=first.proto.op_type,
                domain=normalize_domain(first.proto.domain),
            )
        done, written = list[NodeProto](), list[NodeProto]()
        pending, is_refused = [first], False
        while pending:
            work = pending.pop()
            if not work.descended:
                self._convert_subgraphs(work, scope)
                work.descended = True
            replacement: list[Work] | None = None
            try:
                while replacement is None:
                    move = self._route.next_move(work, scope)
                    if isinstance(move, Arrived):
                        break
                    if isinstance(move, Inline):
                        replacement = moves.inline_call(work, scope, move, self._expander, self._ledger)
                    else:
                        replacement = moves.cross_boundary(work, scope, move, self._expander, self._ledger)
            except CannotConvert as refused:
                self._refuse(work, refused)
                done.append(work.proto)
                scope.record(work.proto, work.opset)
                is_refused = True
                continue
            if replacement is None:
                self._note_illegal(work.proto, work.versions)
                done.append(work.proto)
                if work.written:
                    written.append(work.proto)
                if scope.context.released:
                    scope.context.released.difference_update(work.proto.input)
                drop_stale_shards(work.proto)
                opset = self._route.target("", work.opset)
                scope.record(work.proto, opset)
                if opset < 6 and work.proto.op_type == "Cast":
                    scope.declare(work.proto.output[0])  # its schema infers nothing there
            else:
                pending += reversed(replacement)
        self._source = outer
        if len(done) > max(1, len(written)) and not first.within and not is_refused:  # some is newer then
            from opshift.passes.simplification.piece import simplify_piece  # which most conversions do not need

            done = simplify_piece(done, op, written, outputs, scope, self._route.target("", first.opset))
        return done

    def _note_illegal(self, proto: NodeProto, versions: Versions) -> bool:
        """Record a converted node that the target's schemas do not allow; returns whether it is one."""
        domain = normalize_domain(proto.domain)
        opset = self._route.target(domain, versions.get(domain, 0))
        why = self._judge.why_not(proto, opset) if opset else ""
        if why:
            self._ledger.illegal.append(legality.illegal(proto, opset, why, self._where))
        return bool(why)

    def _convert_subgraphs(self, work: Work, scope: Scope) -> None:
        """Convert a node's subgraphs, before the node itself."""
        domain, op = work.op
        if not schemas.has_subgraphs(domain, op) or self._expander.inlines(domain, op):
            return  # a function's graphs are converted where its body uses them
        version = work.version
        at, goal = schemas.since(domain, op, version), schemas.since(domain, op, self._route.target(domain, version))
        if work.index is None or scope.path is None or (at or 0) > (goal or 0):
            moves.keep_types(work, scope)  # once its graphs are at the target, nothing is inferred from them
        for number, (attribute, k, graph) in enumerate(subgraphs(work.proto)):
            layout = work.inner[number] if work.inner else self._survey.layout(graph)
            inferred = scope.path is not None and work.index is not None and op in ENTERED and not domain
            path = (*scope.path, (work.index, attribute, k)) if inferred and scope.path is not None else None
            inner = Scope(graph, scope.context, work.opset, scope, path)
            self.convert_body(graph, layout, inner, work.versions, work.within)
            if op == "Scan" and not domain:
                moves.state_shapes(graph, inner)
        scope.context.descended.update(work.proto.output)

    def _refuse(self, work: Work, refused: CannotConvert) -> None:
        """Record a refusal under the user's node, even if it is about a replacement of that node."""
        node, source = refused.node, self._source
        name, op, domain, why = node.name, node.op_type, normalize_domain(node.domain), refused.why
        if work.within:
            name, op, domain, why = source.name, source.op_type, source.domain, f"its replacement needs {op}: {why}"
        self._ledger.refusals.append(Refusal(name, op, domain, refused.edge, refused.up, why, self._where))


def _elem_type(constant: NodeProto) -> int:
    """The element type of the tensor in a Constant; 0 for other attributes."""
    attribute = constant.attribute[0]
    is_tensor = attribute.name == "value" and attribute.type == AttributeProto.TENSOR and not attribute.ref_attr_name
    return attribute.t.data_type if is_tensor and not constant.input and len(constant.output) == 1 else 0
