"""Visits a body as a whole: its equal initializers, its nodes, and the graphs that they hold."""

from __future__ import annotations

from opshift.passes.analysis.claims import ENTERED, Path
from opshift.passes.model.encoding.fields import put
from opshift.passes.model.messages import NodeProto
from opshift.passes.model.traversal import subgraphs
from opshift.passes.optimization.courses import course
from opshift.passes.optimization.rules import all_rules
from opshift.passes.simplification.equal_constants import alike, content, digest
from opshift.passes.simplification.visitor import SHARED, Visit
from opshift.passes.simplification.workspace import Workspace


class BodyVisit(Visit):
    """One walk over one body, with all rules."""

    def __init__(self, space: Workspace):
        super().__init__(space, all_rules(space.opset, space.exact))

    def body(self) -> None:
        """Visit all nodes of the body."""
        space, nodes = self._space, self._space.scope.body.node
        taken: dict[int, list[NodeProto]] = {}
        self._share_initializers()
        for index, node in enumerate(nodes):
            made = self.node(node, index)
            if len(made) != 1 or made[0] is not node:
                taken[index] = made
        if taken:
            put(space.scope.body, taken)
        space.finish()

    def _share_initializers(self) -> None:
        """Let equal initializers be one; those that are large are read only where another has the same type."""
        space = self._space
        held = space.scope.initializers
        keys = {name: content(tensor) for name, tensor in held.items()}
        if self._whole.rounds == 1:
            large = [tensor for name, tensor in held.items() if keys[name] is None]
            keys.update((tensor.name, digest(tensor)) for tensor in alike(large))
        for name, key in keys.items():
            if key is None:
                continue
            found = space.find_shared(key)
            if found is None or name in space.results:
                space.shared.setdefault(key, name)
            elif self._whole.uses[name] and self._may(name, "Constant", SHARED) and space.stand_for(name, found):
                self._note(name, "Constant", SHARED)

    def _inside(self, node: NodeProto, index: int | None) -> None:
        """Optimize the graphs that a node holds."""
        space = self._space
        for attribute, k, graph in subgraphs(node):
            path: Path | None = None
            if space.path is not None and index is not None and node.op_type in ENTERED:
                path = (*space.path, (index, attribute, k))
            type(self)(type(space)(graph, self._whole, space.opset, space, path)).body()

    def _replace_control_flow(self, node: NodeProto) -> list[NodeProto] | None:
        """Replace an If with a constant condition, or a Loop with a known number of iterations, if that is allowed."""
        found = course(node, self._space)
        if found is None or not self._may(node.name or node.output[0], node.op_type, found.how):
            return None
        self._whole.stirred = True
        self._note(node.name or node.output[0], node.op_type, found.how)
        made = found.make()
        for inner in made:
            self._whole.uses.update(inner.input)
        return made
