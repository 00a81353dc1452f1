"""Folding: what an operator's definition looks like when it is written out becomes the operator again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opshift.passes.analysis.inferring.weightless import OVERRIDABLE_SINCE
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.changes import Allowance, Change, Result
from opshift.passes.conversion import ir_versions
from opshift.passes.errors import Refusal
from opshift.passes.fusion import families
from opshift.passes.fusion.callers import Calls, callers_first
from opshift.passes.fusion.group import Uses
from opshift.passes.fusion.proposals import RegionKnowledge
from opshift.passes.fusion.quantization.integer_operators import FLOATS, KINDS
from opshift.passes.fusion.quantization.quantizer import Quantizer
from opshift.passes.fusion.reader import Reader
from opshift.passes.fusion.reading.all import RULES
from opshift.passes.fusion.search import PatternSearch
from opshift.passes.fusion.terms import Terms
from opshift.passes.model import schemas
from opshift.passes.model.editing import dead_code
from opshift.passes.model.encoding.fields import put, retain
from opshift.passes.model.imports import check_imports, opsets
from opshift.passes.model.messages import FunctionProto, ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import Body, Op, census, names_outside_nodes, subgraphs, with_nested
from opshift.passes.process import collector_paused


@collector_paused()
def attempt(
    source: ModelProto,
    *,
    ops: Iterable[Op] | None = None,
    lacking: Iterable[Op] = (),
    allowance: Allowance | None = None,
    folder: str | None = None,
) -> Result:
    """Fold a copy of `source` at the opsets that it imports: each group of nodes that computes one operator becomes it.

    `ops` are the operators to bring in (if None, all that the opset has and runtimes run there), `lacking` those that
    must not come in. `folder` is where external data lie. Values that are used elsewhere or are graph outputs stay.
    Nothing is refused, and nothing is done that `allowance` does not permit.

    Raises:
        InvalidModel: the model's opset imports are missing, contradict each other or are unknown.
    """
    check_imports(source)
    _, before = census([source.graph, *source.functions])
    model = ModelProto()
    model.CopyFrom(source)
    wanted = [op for op in (families.FAMILIES if ops is None else dict.fromkeys(ops)) if op not in set(lacking)]
    called = {op for domain, op in before if not normalize_domain(domain)}
    wanted = [op for op in wanted if _may_be(op, called)]
    allowance = allowance or Allowance()
    earlier = len(allowance.made)
    wrong: list[Change] = []
    changes: list[Change] = []
    stays: list[Refusal] = []
    if wanted:
        context = Context(model, source, folder, trusting=False)
        holders: list[ModelProto | FunctionProto] = [model, *callers_first(model.functions)]
        calls, main = Calls(model.functions), opsets(model).get("")
        for holder in holders:
            opset = opsets(holder).get("", 0)
            least = 2 if ops is None else 1
            here = [op for op in wanted if _exists(op, opset, main) and (ops is not None or _is_run(op, opset))]
            folder_ = _Folder(context, here, opset, least, allowance, calls)
            folder_.body(holder.graph if isinstance(holder, ModelProto) else holder)
            stays += folder_.stays
        changes = allowance.made[earlier:]
        wrong = context.inference.contradictions() if changes else []
        _import(model, changes)
        dead_code.drop_unused(model, context.released)
        if changes and model.ir_version < OVERRIDABLE_SINCE:
            ir_versions.initializers_to_inputs(model)
    after = census([model.graph, *model.functions])[1] if changes else before
    return Result(model, (*changes, *wrong), (), before, after, stays=tuple(stays))


class _Folder:
    """Folds bodies whose nodes are written at the same opset."""

    def __init__(self, context: Context, ops: Sequence[Op], opset: int, least: int, allowance: Allowance, calls: Calls):
        self._context = context
        self._least = least
        self._ops = ops
        self._opset = opset
        self._allowance = allowance
        self._calls = calls
        self._terms = Terms()
        self._known = RegionKnowledge()
        self._pinned = names_outside_nodes(context.model)
        self.stays: list[Refusal] = []

    def body(self, body: Body) -> None:
        """Fold in a main graph or a function, and in the graphs nested in it."""
        whole = Scope(body, self._context, self._opset, path=None if isinstance(body, FunctionProto) else ())
        if isinstance(body, FunctionProto):
            self._calls.seed(whole, body)
        pending: list[tuple[Scope, Reader | None]] = [(whole, None)]
        readers: list[Reader] = []  # alive to the end, so that no two scopes are taken for one
        found: list[tuple[Body, dict[int, list[NodeProto]]]] = []
        while pending:
            scope, outer = pending.pop()
            reader = Reader(self._terms, scope, RULES, outer)
            readers.append(reader)
            reader.postpone(scope.body.node)
            taken = PatternSearch(
                reader, self._ops, self._least, self._allowance, self._pinned, self._known
            ).find_replacements()
            if any(op in KINDS or op in FLOATS for op in self._ops):
                uses = Uses(scope.body, pinned=set(self._pinned))
                where = body.name if isinstance(body, FunctionProto) else ""
                taken |= Quantizer(scope, uses, self._allowance, where, self.stays).find_replacements(self._ops)
            found.append((scope.body, taken))
            self._calls.note(scope)
            for index, node in enumerate(scope.body.node):
                for attribute, k, graph in subgraphs(node) if node.attribute else ():
                    pending.append((scope.nested_scope(graph, index, attribute, k), reader))
        for held, taken in found:
            if taken:
                _forget(held, taken)
                put(held, taken)


def _forget(body: Body, taken: Mapping[int, Sequence[NodeProto]]) -> None:
    """Drop the types that are stated of values that no node makes any more."""
    kept = {name for made in taken.values() for node in made for name in node.output}
    gone = {name for index in taken for name in body.node[index].output} - kept
    if body.value_info:
        retain(body.value_info, [value.name not in gone for value in body.value_info])


def _may_be(op: Op, called: set[str]) -> bool:
    """Whether a model that calls some operators may hold another one written out."""
    found = families.family(op)
    return found is not None and not any(one and called.isdisjoint(one) for one in (found.anchors, found.also))


def _import(model: ModelProto, changes: Sequence[Change]) -> None:
    """Import the domains that were brought in."""
    brought = {change.domain for change in changes} - {""}
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    for holder in holders if brought else ():
        body = holder.graph if isinstance(holder, ModelProto) else holder
        used = {node.domain for inner in with_nested([body]) for node in inner.node}
        for domain in sorted((brought & used) - opsets(holder).keys()):
            holder.opset_import.add(domain=domain, version=1)


def _is_run(op: Op, opset: int) -> bool:
    return opset not in families.UNRUN.get(op, ())


def _exists(op: Op, opset: int, main: int | None) -> bool:
    """Whether an operator exists at the opset of a body, and at `main` is the same: by that of the model, runtimes read
    functions, too."""
    since = schemas.since(*op, opset)
    return bool(op[0]) or (since is not None and (main is None or schemas.since(*op, main) == since))
