"""Values that get other names."""

from __future__ import annotations

from collections.abc import Iterable

from opshift.passes.model.messages import NodeProto
from opshift.passes.model.traversal import subgraphs


def rename(nodes: Iterable[NodeProto], names: dict[str, str]) -> None:
    """Give values other names wherever nodes and their subgraphs mention them; recursion is as deep as the nesting."""
    for node in nodes:
        if not names.keys().isdisjoint(node.input):
            node.input[:] = [names.get(name, name) for name in node.input]
        if not names.keys().isdisjoint(node.output):
            node.output[:] = [names.get(name, name) for name in node.output]
        if node.attribute:
            for _, _, graph in subgraphs(node):
                rename(graph.node, names)
                for value in graph.output:
                    if value.name in names:
                        value.name = names[value.name]
