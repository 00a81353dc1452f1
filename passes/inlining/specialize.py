"""Reduces a freshly stamped body to the nodes that this call needs: what is known of types and constants is
used up here. Only nodes that an expansion made are ever touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opshift.passes.analysis import evaluate
from opshift.passes.model import tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto
from opshift.passes.model.traversal import subgraphs

if TYPE_CHECKING:
    from opshift.passes.rewrite.node import Node


def stamped(nodes: list[NodeProto], node: Node, opset: int) -> list[NodeProto]:
    """The nodes that are left of `nodes`, which took the place of `node` and are written at `opset`."""
    scope, kept = node.scope, list[NodeProto]()
    results = {name for name in node.outputs if name}
    pending = list(reversed(nodes))
    while pending:
        made = pending.pop()
        scope.record(made, opset)
        branch = _taken_branch(made, node)
        if branch is not None:
            pending += reversed(_spliced(made, branch))
            continue
        _settle_type(made, node)
        value = _known(made, node)
        if value is not None and made.output[0] not in results:
            rename(pending, made.output[0], value)
            continue
        if value is not None and made.op_type != "Identity":
            made.CopyFrom(NodeProto(op_type="Identity", input=[value], output=made.output))
        kept.append(made)
    return _without_dead(kept, results)


def _taken_branch(made: NodeProto, node: Node) -> GraphProto | None:
    if made.op_type != "If" or made.domain:
        return None
    held = node.scope.array(made.input[0])
    if held is None:
        return None
    name = "then_branch" if held.reshape(-1)[0] else "else_branch"
    return next(graph for attribute, _, graph in subgraphs(made) if attribute == name)


def _spliced(made: NodeProto, branch: GraphProto) -> list[NodeProto]:
    nodes = [_held(tensor) for tensor in branch.initializer]
    nodes += [NodeProto.FromString(n.SerializeToString()) for n in branch.node]
    yielded = {name: name for n in nodes for name in n.output}
    for inner, outer in zip(branch.output, made.output, strict=True):
        name = yielded.get(inner.name, inner.name)
        if inner.name in yielded and name == inner.name:
            rename(nodes, name, outer)
            yielded[name] = outer
        else:  # an outer value, or one that the branch yields twice
            nodes.append(NodeProto(op_type="Identity", input=[name], output=[outer]))
    return nodes


def _held(tensor: TensorProto) -> NodeProto:
    return NodeProto(op_type="Constant", output=[tensor.name], attribute=[make_attribute("value", tensor)])


def _settle_type(made: NodeProto, node: Node) -> None:
    """CastLike with a known type is a Cast."""
    if made.op_type == "CastLike" and not made.domain and (to := node.scope.elem_type(made.input[1])):
        made.op_type = "Cast"
        del made.input[1:]
        made.attribute.append(make_attribute("to", to))


def _to(cast: NodeProto) -> int:
    return next((a.i for a in cast.attribute if a.name == "to"), 0)


def _known(made: NodeProto, node: Node) -> str | None:
    """The name of a value that `made` merely repeats or that can be computed now."""
    scope = node.scope
    if made.domain:
        return None
    if made.op_type == "Identity":
        return made.input[0]
    if made.op_type == "Cast" and _to(made) == scope.elem_type(made.input[0]) != 0:
        return made.input[0]
    held: TensorProto | None = None
    if made.op_type == "Constant":
        held = tensors.of_constant(made)
    elif len(made.output) == 1:
        held = evaluate.constant(made, scope)
    return None if held is None or scope.graph is None else scope.constant(held, "const")


def _without_dead(nodes: list[NodeProto], results: set[str]) -> list[NodeProto]:
    needed, kept = set(results), list[NodeProto]()
    for made in reversed(nodes):
        if any(name in needed for name in made.output):
            kept.append(made)
            needed.update(made.input)
            for _, _, graph in subgraphs(made):
                needed.update(_mentioned(graph))
    return kept[::-1]


def _mentioned(graph: GraphProto) -> set[str]:
    found: set[str] = set()
    pending = [graph]
    while pending:
        current = pending.pop()
        found.update(value.name for value in current.output)
        for made in current.node:
            found.update(made.input)
            pending += [inner for _, _, inner in subgraphs(made)]
    return found
