"""What a twin knows of a body before it runs: the nodes that its outputs need, and what is the same in all runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from opshift.passes.model.messages import FunctionProto, GraphProto, NodeProto, default_domain
from opshift.passes.model.traversal import may_hold, results, subgraphs

Body = GraphProto | FunctionProto


class Step:
    """A node, and what is the same of it in all runs.

    Attributes:
        kind: its domain, operator and overload.
        dead: the values that nothing reads behind it.
        holds: whether it has a graph.
        picks: whether it takes rows of a table, which may be large.
    """

    def __init__(self, node: NodeProto, dead: Sequence[str] = ()):
        self.node, self.dead = node, dead
        self.domain, self.op = default_domain(node.domain), node.op_type
        self.kind = self.domain, self.op, node.overload
        self.inputs, self.outputs = list(node.input), list(node.output)
        self.holds = may_hold(node) and any(True for _ in subgraphs(node))
        self.picks = self.op == "Gather" and not self.domain

    @cached_property
    def marks(self) -> tuple[Any, ...]:
        """What it has in common with nodes that do the same."""
        attributes = sorted(attribute.SerializeToString() for attribute in self.node.attribute)
        return self.domain, self.op, *attributes, "", *map(bool, self.outputs)


def plan(body: Body) -> list[Step]:
    """The nodes that the outputs need, in order, and after which node a name is read no more."""
    wanted = set(results(body))
    dying = {name for node in body.node for name in node.output} - wanted
    steps: list[Step] = []
    for node in reversed(body.node):
        if wanted.isdisjoint(node.output):
            continue
        step = Step(node)
        read = set(step.inputs)
        for _, _, graph in subgraphs(node) if step.holds else ():
            for inner in nested(graph):
                read.update(name for at in inner.node for name in at.input)
                read.update(results(inner))
        step.dead = [name for name in {*(read - wanted), *(set(step.outputs) - wanted)} if name in dying]
        steps.append(step)
        wanted |= read
    return steps[::-1]


def nested(body: Body) -> Iterable[Body]:
    """A body, and all that stand inside it."""
    yield body
    for node in filter(may_hold, body.node):
        for _, _, graph in subgraphs(node):
            yield from nested(graph)
