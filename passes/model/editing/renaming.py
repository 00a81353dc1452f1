"""Values that get other names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from opshift.passes.model.messages import GraphProto, NodeProto
from opshift.passes.model.traversal import subgraphs


def rename(nodes: Iterable[NodeProto], names: Mapping[str, str]) -> None:
    """Give values other names wherever nodes and their subgraphs mention them; recursion is as deep as the nesting.

    What a subgraph is given or holds under such a name is another value, and keeps it.
    """
    for node in nodes:
        if not names.keys().isdisjoint(node.input):
            node.input[:] = [names.get(name, name) for name in node.input]
        if not names.keys().isdisjoint(node.output):
            node.output[:] = [names.get(name, name) for name in node.output]
        if node.attribute:
            for _, _, graph in subgraphs(node):
                given = [value.name for value in graph.input] + [tensor.name for tensor in graph.initializer]
                own = names.keys() & set(given)
                outer = {name: other for name, other in names.items() if name not in own} if own else names
                rename(graph.node, outer)
                for value in graph.output:
                    value.name = outer.get(value.name, value.name)


def afresh(graph: GraphProto, named: Callable[[str], str]) -> None:
    """Name all that a graph and the graphs inside of it hold and make as `named` has it."""
    held: list[Any] = [*graph.input, *graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)]
    own = {value.name for value in held} | {name for node in graph.node for name in node.output if name}
    names = {name: other for name in sorted(own) if (other := named(name)) != name}
    for value in [*held, *graph.output, *graph.value_info]:
        value.name = names.get(value.name, value.name)
    rename(graph.node, names)
    for node in graph.node:
        for _, _, inner in subgraphs(node):
            afresh(inner, named)
