"""What every rewrite of all calls of an operator begins and ends with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opshift.passes.analysis.scope import Scope, open_main_graph
from opshift.passes.changes import Change
from opshift.passes.model import schemas
from opshift.passes.model.editing.names import Names
from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto
from opshift.passes.model.traversal import subgraphs

Parts = Callable[[GraphProto, NodeProto, Scope], list[NodeProto]]
"""What a call in a graph of the copy becomes; none where it stays. The scope tells of the values of the model."""


class Rewriting:
    """A copy of a model that is written into, beside the model, of whose values `scope` tells what is known.

    Attributes:
        source: the model.
        made: the copy.
        scope: the main graph of the model.
        fresh: a name that nothing has, like the one given.
        changes: what was done so far.
    """

    def __init__(self, model: ModelProto, op: str, how: str):
        self.source, self._op, self._how = model, op, how
        self.scope = open_main_graph(model)
        self.made = ModelProto()
        self.made.CopyFrom(model)
        self.fresh = Names(self.made).fresh
        self.changes: list[Change] = []

    def calls(self, node: NodeProto) -> bool:
        """Whether the node is a call of the operator."""
        return node.op_type == self._op and not node.domain

    def did(self, node: NodeProto, grade: str = "exact") -> None:
        """Note that a call was rewritten."""
        version = schemas.since("", self._op, self.scope.opset) or 1
        self.changes.append(Change(node.name or node.output[0], self._op, "", version, version, self._how, grade))

    def everywhere(self, parts: Parts, grade: str) -> tuple[ModelProto, list[Change]]:
        """The copy with each call in the main graph and in the graphs nested in it replaced, see `written`."""
        self._within(self.made.graph, self.scope, parts, grade)
        return self.write()

    def _within(self, graph: GraphProto, scope: Scope, parts: Parts, grade: str) -> None:
        nodes: list[NodeProto] = []
        for index, (node, source) in enumerate(zip(graph.node, scope.body.node, strict=True)):
            for (attribute, k, inner), (_, _, twin) in zip(subgraphs(node), subgraphs(source), strict=True):
                self._within(inner, scope.nested_scope(twin, index, attribute, k), parts, grade)
            put = parts(graph, node, scope) if self.calls(node) else []
            nodes += put or [node]
            if put:
                self.did(node, grade)
        if len(nodes) > len(graph.node):
            del graph.node[:]
            graph.node.extend(nodes)

    def write(self, nodes: Sequence[NodeProto] | None = None) -> tuple[ModelProto, list[Change]]:
        """The copy, with these nodes in its main graph, and what was done; the model itself where nothing was."""
        if not self.changes:
            return self.source, []
        if nodes is not None:
            del self.made.graph.node[:]
            self.made.graph.node.extend(nodes)
        return self.made, self.changes
