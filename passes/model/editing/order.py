"""The order of nodes: each stands behind those whose values it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from opshift.passes.errors import OutOfOrder
from opshift.passes.model.messages import ModelProto, NodeProto, copy_model
from opshift.passes.model.traversal import Body, bodies, graphless, subgraphs

T = TypeVar("T")


def in_order(body: Body) -> list[NodeProto]:
    """The nodes of a body, each behind those whose values it reads; as they stand, if that is so."""
    nodes = list(body.node)
    if _stand_in_order(nodes):
        return nodes
    makers = {name: index for index, node in enumerate(nodes) for name in node.output[:] if name}
    reads = [[makers[name] for name in _read_by(node) if name in makers] for node in nodes]
    done: dict[int, None] = {}
    waiting = set[int]()
    for start in range(len(nodes)):
        pending = [start]
        while pending:
            at = pending[-1]
            missing = [each for each in reads[at] if each not in done and each not in waiting]
            if at in done or not missing:
                done[at] = None
                waiting.discard(at)
                pending.pop()
            else:
                waiting.add(at)
                pending += missing
    return [nodes[at] for at in done]


def _stand_in_order(nodes: Iterable[NodeProto]) -> bool:
    """Whether no node reads a value that a later one makes."""
    made, early, apart = set[str](), set[str](), graphless()
    for node in nodes:
        plain = node.op_type in apart and not node.domain
        for name in node.input[:] if plain else _read_by(node):
            if name not in made:
                early.add(name)
        made.update(node.output[:])
    early.discard("")
    return early.isdisjoint(made)


def put_in_order(model: ModelProto) -> ModelProto:
    """A copy with all nodes in order; the model itself where they are."""
    if all(_stand_in_order(body.node) for body in bodies(model)):
        return model
    copy = copy_model(model)
    for body in reversed(list(bodies(copy))):  # inner ones first, as the nodes that hold them are copied
        ordered = [NodeProto.FromString(node.SerializeToString()) for node in in_order(body)]
        del body.node[:]
        body.node.extend(ordered)
    return copy


def in_order_if_needed(run: Callable[[ModelProto], T], source: ModelProto) -> T:
    """Run a function on a model; if the nodes are out of order, put them in order and run it again.

    onnxruntime loads files whose main graph is not in order, and some tools write them. They are few: nobody else waits
    for a look at the order.
    """
    try:
        return run(source)
    except OutOfOrder:
        ordered = put_in_order(source)
        if ordered is source:
            raise
        return run(ordered)


def _read_by(node: NodeProto) -> Iterator[str]:
    """The names that a node reads, and that graphs in it do."""
    yield from node.input[:]
    if (node.domain or node.op_type not in graphless()) and node.attribute:
        for _, _, graph in subgraphs(node):
            for inner in graph.node:
                yield from _read_by(inner)
            yield from (value.name for value in graph.output)
