"""What nothing reads, taken out of a body while it is optimized."""

from __future__ import annotations

from collections.abc import Mapping

from opshift.passes.changes import Change
from opshift.passes.model import schemas
from opshift.passes.model.encoding.fields import retain
from opshift.passes.model.messages import GraphProto, TensorProto, ValueInfoProto, default_domain
from opshift.passes.model.traversal import Body, results, subgraphs
from opshift.passes.optimization.workspace import Whole

_DEAD = "What nobody reads is not computed"


def _without_dead(body: Body, whole: Whole, versions: Mapping[str, int]) -> set[str]:
    """Drop nodes and initializers that nobody reads; returns all names that the body reads.

    `versions` are the opsets that it is written at, by domain.
    """
    needed = set(results(body))
    needed |= whole.fixed
    kept = [False] * len(body.node)
    for index in reversed(range(len(body.node))):
        node = body.node[index]
        if node.output and needed.isdisjoint(node.output):
            continue
        kept[index] = True
        needed.update(filter(None, node.input))
        if node.attribute:
            for _, _, graph in subgraphs(node):
                needed |= _without_dead(graph, whole, versions)
    if not all(kept):
        for index, keep in enumerate(kept):
            if not keep:
                node = body.node[index]
                domain = default_domain(node.domain)
                since = schemas.since(domain, node.op_type, versions.get(domain, 0)) or 0
                whole.changed += 1
                name = node.name or next(iter(node.output), "")
                whole.changes.append(Change(name, node.op_type, domain, since, since, _DEAD))
        retain(body.node, kept)
    if isinstance(body, GraphProto):
        _without_unread(body, needed)
    return needed


def _is_stated(tensor: TensorProto, value: ValueInfoProto) -> bool:
    """Whether the type that is stated of a constant is its own; an omitted shape confuses shape inference, too."""
    stated = value.type.tensor_type
    dims = [dim.dim_value for dim in stated.shape.dim]
    return stated.elem_type == tensor.data_type and stated.HasField("shape") and dims == list(tensor.dims)


def _without_unread(graph: GraphProto, needed: set[str]) -> None:
    """Drop initializers that nobody reads, and what is said of values that there are no more, or wrongly of constants.

    Of a Constant node, nobody minds what is said; of the initializer that it becomes, onnx.checker does.
    """
    given = {value.name for value in graph.input}
    kept = [tensor.name in needed or tensor.name in given for tensor in graph.initializer]
    if not all(kept):
        retain(graph.initializer, kept)
    if graph.value_info:
        there = {name for node in graph.node for name in node.output} | given
        held = {tensor.name: tensor for tensor in graph.initializer}
        stated = [
            value.name in there or (value.name in held and _is_stated(held[value.name], value))
            for value in graph.value_info
        ]
        if not all(stated):
            retain(graph.value_info, stated)
