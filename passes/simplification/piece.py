"""Simplifies the nodes that took the place of one call, by rules that are exact."""

from __future__ import annotations

from collections import Counter

from opshift.passes.analysis.callers import refers
from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Allowance
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.editing import dead_code
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.messages import NodeProto, TensorProto, TypeProto
from opshift.passes.model.traversal import subgraphs
from opshift.passes.model.types import tensor_type
from opshift.passes.simplification.rules import exact_rules
from opshift.passes.simplification.visitor import Visit
from opshift.passes.simplification.whole import Whole
from opshift.passes.simplification.workspace import Workspace

_RULES_SINCE = 7  # the opset from which on rules are known


def simplify_piece(
    nodes: list[NodeProto], op: str, written: list[NodeProto], results: list[str], scope: Scope, opset: int
) -> list[NodeProto]:
    """The nodes that are left of `nodes`, which took the place of a call of `op` and make its `results`, at `opset`.

    What hangs on constants that the conversion made is computed; what is computed twice or to no effect is not. No
    question is asked about values that the conversion did not make. Calls of `op` itself stay as they are, and so do
    those nodes that a user has `written` in the body of a function.
    """
    if opset < _RULES_SINCE or any(True for node in nodes for _ in subgraphs(node)):
        return nodes
    piece = _PieceWorkspace(nodes, results, scope, opset)
    visit = Visit(piece, exact_rules(opset))
    kept: list[NodeProto] = []
    stay = set(map(id, written))
    for node in nodes:
        if node.op_type == op or id(node) in stay:
            visit.resolve(node)
            kept.append(node)
        else:
            kept += visit.node(node, None)
    return piece.without_dead(nodes, kept, stay) if piece.whole.changed else nodes


class _PieceSurroundings(Whole):
    """A model of which only a piece is known."""

    def __init__(self, scope: Scope):
        self.context = scope.context
        self.allowance = Allowance()
        self.changes = []
        self.uses = Counter()
        self.fixed = frozenset()
        self.measures = True
        self.hangs = True
        self.leans = False
        self.changed = 0
        self.stirred = False
        self._crowded = {}
        self.folder = None
        self._readers: dict[str, list[NodeProto]] = {}  # nobody is known to read a value


class _PieceWorkspace(Workspace):
    exact = True
    growth = 1 << 10  # a table of its own for every call would not be small

    def __init__(self, nodes: list[NodeProto], results: list[str], scope: Scope, opset: int):
        self.scope = scope
        self._prepare(_PieceSurroundings(scope), opset)
        gone = scope.context.dissolved  # of these, what they hold is read instead
        held = [name for sequence in results if sequence in gone for name in scope.elements(sequence) or ()]
        self.results = {name for name in (*results, *held) if name}
        self.own = {name for node in nodes for name in node.output}
        for node in nodes:
            self.whole.uses.update(node.input)
        self.whole.uses.update(self.results)

    def tensor(self, name: str) -> TensorProto | None:
        if name in self._held or name in self.own or name not in self.scope.constants_made:
            return self._held.get(name)
        return self.scope.initializers.get(name)

    def type(self, name: str) -> TypeProto | None:
        held = self.tensor(name)
        return None if held is None else tensor_type(held.data_type, held.dims)

    def inferred_sizes(self, name: str) -> None:
        return None

    def is_open(self, node: NodeProto) -> bool:
        return refers(node)  # inputs that calls leave out were written as such before

    def hold(self, name: str, tensor: TensorProto) -> bool:
        shared = None if name in self.results else self.scope.constant(tensor, "const")
        if shared is not None:
            self.alias[name] = shared
        return shared is not None

    def constant(self, tensor: TensorProto, hint: str, before: list[NodeProto]) -> str:
        name = self.scope.constant(tensor, hint)
        if name is None:
            name = self.whole.context.names.fresh(hint)
            before.append(NodeProto(op_type="Constant", output=[name], attribute=[make_attribute("value", tensor)]))
            self.register(before[-1])
            self._held[name] = tensor
        return name

    def find_shared(self, key: object) -> str | None:
        return None

    def register(self, node: NodeProto) -> None:
        super().register(node)
        self.scope.record(node, self.opset)

    def without_dead(self, nodes: list[NodeProto], kept: list[NodeProto], stay: set[int]) -> list[NodeProto]:
        """Those of the nodes `kept` that `stay` or are read; what none of them reads any more is released."""
        if self._renamed:
            rename(kept, self._renamed)
            for node in kept:
                self.scope.record(node, self.opset)
        needed = set(self.results)
        for node in kept:
            needed.update(node.output if id(node) in stay else ())
        left = [node for node, keep in zip(kept, dead_code.live(kept, needed), strict=True) if keep]
        read = {name for node in nodes for name in node.input if name}
        self.whole.context.released.update(read - needed - self.own)
        return left
