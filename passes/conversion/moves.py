"""Carry out a move of a node: cross a version boundary, or replace the node by its definition."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Change, Ledger
from opshift.passes.conversion.route import Cross, Inline
from opshift.passes.conversion.transitions import find_narrowed_types, type_variable
from opshift.passes.conversion.vectors import assume_vectors
from opshift.passes.conversion.work import Versions, Work
from opshift.passes.errors import CannotConvert
from opshift.passes.inlining.expander import Expander
from opshift.passes.model import legality, schemas
from opshift.passes.model.messages import GraphProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import Op
from opshift.passes.model.types import has_shape, plain_type, tensor_text, tensor_type, type_text
from opshift.passes.model.validity import is_runtime_extension
from opshift.passes.rewrite import registry
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.replace import find_lost_plans, inherit, take_over
from opshift.passes.rewrite.says import sentence_of

_TOLD_SINCE = {
    **{"Compress": 11, "GreaterOrEqual": 16, "LessOrEqual": 16},  # of which schemas below infer nothing
    "Where": 9,  # below which elements are gathered from places that are computed
}
"""The versions from which on calls tell their types; of other operators, schemas below 7 tell none, or no shapes."""


def cross_boundary(work: Work, scope: Scope, move: Cross, expander: Expander, ledger: Ledger) -> list[Work] | None:
    """Convert a node across one version boundary; returns its replacement, or None if it was edited in place.

    Runs for each node and each version boundary on its way.
    """
    op = work.op
    older = schemas.since(*op, move.edge - 1) or 0
    before, after = (older, move.edge) if move.up else (move.edge, older)
    arrived = {**work.versions, op[0]: move.edge if move.up else move.edge - 1}
    node = work.node(scope, before, arrived.get("", 1))
    if not move.up and not op[0] and move.edge <= _TOLD_SINCE.get(op[1], 7):
        keep_types(work, scope)
    pair = registry.step(*op, move.edge)
    step = None if pair is None else pair.up if move.up else pair.down
    result = None
    try:
        if step is not None:
            _check_inputs(node, before)
            with assume_vectors(node):
                result = step(node)
            _check_imports(node, arrived)
        elif pair is None and schemas.difference(*op, older, move.edge) == "changed":
            raise CannotConvert(node, "opshift cannot convert this version of the operator yet")
        if result is None and work.proto.op_type == op[1]:
            _check_types(node, before, after)
    except CannotConvert as refused:
        raise refused.at(move.edge, up=move.up) from None
    for layout in work.inner if step is not None else ():
        layout.outdated = True
    if step is not None and (node.touched or result is not None):
        _note_change(ledger, node, op[1], before, after, sentence_of(step), replaced=result is not None)
    work.versions = arrived
    work.index = None
    if result is None and node.touched:
        node.drop_omitted()
        scope.record(work.proto, arrived.get("", 1))
    if work.proto.op_type != op[1]:
        work.within += ((op, before),)
    if result is None and not node.build.nodes:
        return None
    new_nodes = node.build.nodes if result is None else take_over(node, result)
    works = [_make_work(proto, work, op, before, arrived, node.build.copies, expander) for proto in new_nodes]
    return works if result is not None else [*works, work]


def inline_call(work: Work, scope: Scope, move: Inline, expander: Expander, ledger: Ledger) -> list[Work]:
    """Replace a node by its definition; returns the new nodes, which go on the worklist.

    Runs for operators that the target opset lacks, or that the user wants replaced.
    """
    op, version = work.op, work.version
    node = work.node(scope, version, version)
    vendor = _find_vendor(work, expander)
    if vendor and (why := legality.misuse(work.proto, vendor, version)):
        raise CannotConvert(node, f"onnxruntime rejects this call, so its definition cannot replace it: {why}")
    if not expander.is_local(*op):
        _check_inputs(node, version)
    if move.definition is not None:
        imports = {"": move.definition.opset or work.opset}
        node.build.opset = imports[""]
        with assume_vectors(node):
            nodes, how = take_over(node, move.definition.step(node) or ()), sentence_of(move.definition.step)
    else:
        nodes, imports, node.grade, how = expander.expand(node)
        scope.context.released.update(node.inputs)
        inherit(nodes, node)
    _note_change(ledger, node, op[1], version, version, how, replaced=True)
    since, versions = schemas.since(*op, version) or 0, {**work.versions, **imports}
    works = [_make_work(proto, work, op, since, versions, node.build.copies, expander) for proto in nodes]
    for new_work in works if expander.is_local(*op) else ():
        new_work.written = True
    return works


def _find_vendor(work: Work, expander: Expander) -> str:
    """Find the vendor whose table has the operator; empty for operators of ONNX and functions of the model.

    Asked before a vendor's operator is replaced.
    """
    domain, op = work.op
    if expander.is_local(domain, op):
        return ""
    if domain in schemas.VENDORS:
        return domain
    return schemas.ONNXRUNTIME if is_runtime_extension(domain, op, work.version) else ""


def keep_types(work: Work, scope: Scope) -> None:
    """Remember the types of a node's outputs before it changes, because the next version of the operator infers
    less.
    """
    for name in work.proto.output:
        if name and scope.node_to_ask(name) is not None:
            scope.type(name)


def state_shapes(graph: GraphProto, scope: Scope) -> None:
    """Declare the shapes of a graph's new outputs, which runtimes need if they cannot infer them.

    Runs on bodies of Scan.
    """
    for value in graph.output:
        if has_shape(value.type) or scope.node_made(value.name) is None:
            continue
        shape, elem_type = scope.shape(value.name), scope.elem_type(value.name)
        if shape is not None and elem_type:
            value.type.CopyFrom(tensor_type(elem_type, shape))


def _make_work(
    proto: NodeProto,
    work: Work,
    op: Op,
    since: int,
    versions: Versions,
    copies: Sequence[NodeProto],
    expander: Expander,
) -> Work:
    """Put a node that a step or a definition made of `op` into a worklist entry. Runs for each new node."""
    same = (normalize_domain(proto.domain), proto.op_type) == op
    known = work.within and expander.inlines(*op)  # a function leads back to nothing, long as a chain may be
    within = work.within if same or known else (*work.within, (op, since))
    return Work(proto, versions, descended=any(proto is copy for copy in copies), within=within)


def _check_inputs(node: Node, version: int) -> None:
    """Refuse a call without a required input, which a function's caller may have left out. Runs before a step."""
    schema = schemas.schema(normalize_domain(node.domain), node.op_type, version)
    for index, formal in enumerate(schema.inputs if schema is not None else ()):
        given = node.inputs[index:] if formal.option == "Variadic" else [node.input(index)]
        if formal.option != "Optional" and "" in given:
            place = index + given.index("")
            raise CannotConvert(node, f"input {place} ({formal.name}) is missing, and the operator requires it")


def _check_imports(node: Node, versions: Versions) -> None:
    """Refuse new nodes of a domain that the model does not import, as their version is unknown. Runs after a step."""
    for new_node in node.build.nodes:
        if normalize_domain(new_node.domain) not in versions:
            raise CannotConvert(
                node,
                f"{new_node.op_type} is needed, but the model imports no opset of its domain; "
                "add an opset import of it",
            )


def _check_types(node: Node, before: int, after: int) -> None:
    """Refuse a node whose types the new version does not accept. Runs after a step that edited the node."""
    less = find_narrowed_types(normalize_domain(node.domain), node.op_type, before, after)
    new = schemas.schema(node.domain, node.op_type, after) if less else None
    if new is None:
        return
    for typed, allowed in less:
        names = [n for i, n in enumerate(node.inputs) if type_variable(new.input(i)) == typed]
        names += [n for i, n in enumerate(node.outputs) if type_variable(new.output(i)) == typed]
        known = {n: t for n in filter(None, names) if (t := _type_text(n, node.scope))}
        for name, text in known.items():
            if text not in allowed:
                raise CannotConvert(
                    node, f'"{name}" is {plain_type(text)}', supported=_list_names(frozenset(map(plain_type, allowed)))
                )
        if any(names) and not known:
            raise node.unknown("type", next(filter(None, names)))


def _type_text(name: str, scope: Scope) -> str | None:
    """Write the type of a value as schemas do: `tensor(float)`. Used in refusals."""
    if elem_type := scope.elem_type(name):
        return tensor_text(elem_type)
    known = scope.type(name)
    return None if known is None else type_text(known)


def _note_change(ledger: Ledger, node: Node, op: str, source: int, target: int, how: str, *, replaced: bool) -> None:
    """Add a change to the report: which operator went from which version to which, and how (the step's `@says`
    text).
    """
    lost_plans = find_lost_plans(node.proto, replaced)
    if lost_plans:
        tensors = _list_names(lost_plans, "tensors")
        node.remarks.append(f"dropped how {tensors} are split among devices")
    ledger.changes.append(Change(node.name, op, node.domain, source, target, how, node.grade, "; ".join(node.remarks)))


def _list_names(found: frozenset[str], what: str = "other types") -> str:
    return ", ".join(sorted(found)) if len(found) <= 12 else f"{len(found)} {what}"
