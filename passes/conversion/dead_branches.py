"""Branches that are never taken: a refusal there need not keep the model from being converted."""

from __future__ import annotations

from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.model.messages import FunctionProto, GraphProto, ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import Body, bodies, subgraphs


def copy_live_branches(source: ModelProto, opset: int, folder: str | None) -> tuple[ModelProto, list[NodeProto]] | None:
    """Copy the model with the live branch in place of the dead one, for each If with a constant condition.

    Used to repair an attempt that was refused.

    Returns the copy and the Ifs that were changed; None if there is none. `opset` is that of the default domain.
    """
    if not any(node.op_type == "If" for body in bodies(source) for node in body.node):
        return None
    model = ModelProto()
    model.CopyFrom(source)
    context = Context(model, source, folder)
    decided: list[NodeProto] = []
    holders: list[Body] = [model.graph, *model.functions]
    for holder in holders:
        imported = opset
        if isinstance(holder, FunctionProto):
            imported = next((i.version for i in holder.opset_import if not normalize_domain(i.domain)), opset)
        path = None if isinstance(holder, FunctionProto) else ()
        pending = [Scope(holder, context, imported, path=path)]
        while pending:
            scope = pending.pop()
            for index, node in enumerate(scope.body.node):
                if node.op_type == "If" and not normalize_domain(node.domain) and _copy_live_branch(node, scope):
                    decided.append(node)
                pending += [scope.nested_scope(graph, index, attribute, k) for attribute, k, graph in subgraphs(node)]
    return (model, decided) if decided else None


def _copy_live_branch(node: NodeProto, scope: Scope) -> bool:
    """Copy the live branch of an If over the dead one, which then cannot make the conversion fail; return whether.

    Runs for each If of a model whose conversion was refused; one without a constant condition stays.
    """
    branches: dict[str, GraphProto] = {name: graph for name, _, graph in subgraphs(node)}
    condition = scope.array(node.input[0]) if node.input and len(branches) == 2 else None
    if condition is None or condition.size != 1:
        return False
    live, dead = "then_branch", "else_branch"
    if not condition.reshape(-1)[0]:
        live, dead = dead, live
    if branches[live] == branches[dead]:
        return False
    branches[dead].CopyFrom(branches[live])
    return True
