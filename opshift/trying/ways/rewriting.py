"""What every rewrite of all calls of an operator begins and ends with."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.changes import Change
from opshift.passes.model import imports, schemas
from opshift.passes.model.editing.names import Names
from opshift.passes.model.messages import ModelProto, NodeProto


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
        self.scope = Scope(model.graph, Context(model, model, None), imports.opsets(model).get("", 1), path=())
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

    def written(self, nodes: Sequence[NodeProto] | None = None) -> tuple[ModelProto, list[Change]]:
        """The copy, with these nodes in its main graph, and what was done; the model itself where nothing was."""
        if not self.changes:
            return self.source, []
        if nodes is not None:
            del self.made.graph.node[:]
            self.made.graph.node.extend(nodes)
        return self.made, self.changes
