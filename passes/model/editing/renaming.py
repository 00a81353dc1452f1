"""Values that get other names."""

from __future__ import annotations

from collections.abc import Mapping

from opshift.passes.model.messages import GraphProto, NodeProto
from opshift.passes.model.traversal import Body, subgraphs


def rename_all(node: NodeProto, names: dict[str, str]) -> None:
    """Give values other names, in a node and in the graphs that it holds, except for what those make themselves."""
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for _, _, graph in subgraphs(node):
        for inner in graph.node:
            rename_all(inner, names)
        for value in graph.output:
            value.name = names.get(value.name, value.name)


def rename(nodes: list[NodeProto], old: str, new: str) -> None:
    """Rename one value wherever `nodes` and their subgraphs mention it. Recursion is as deep as the nesting."""
    for node in nodes:
        if old in node.input:
            node.input[:] = [new if name == old else name for name in node.input]
        if old in node.output:
            node.output[:] = [new if name == old else name for name in node.output]
        if node.attribute:
            for _, _, graph in subgraphs(node):
                rename(list(graph.node), old, new)
                for value in graph.output:
                    if value.name == old:
                        value.name = new


def _rename(body: Body, names: Mapping[str, str]) -> None:
    pending: list[Body] = [body]
    while pending:
        current = pending.pop()
        for node in current.node:
            if any(name in names for name in node.input):
                node.input[:] = [names.get(name, name) for name in node.input]
            if current is body and any(name in names for name in node.output):
                node.output[:] = [names.get(name, name) for name in node.output]
            if node.attribute:
                pending += [graph for _, _, graph in subgraphs(node)]
        if current is not body and isinstance(current, GraphProto):
            for value in current.output:
                value.name = names.get(value.name, value.name)
