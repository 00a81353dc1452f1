"""Answer questions about types: the source is inferred as a whole at the first question, new nodes one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from opshift.passes.analysis import claims
from opshift.passes.analysis.claims import Path
from opshift.passes.analysis.knowledge import KnownBody
from opshift.passes.analysis.shapes import Shapes, Sizes, find_granted
from opshift.passes.changes import Change
from opshift.passes.model import installed
from opshift.passes.model.messages import ModelProto, NodeProto, TypeProto
from opshift.passes.model.traversal import bodies
from opshift.passes.model.types import has_shape

if TYPE_CHECKING:
    from opshift.passes.analysis.inferring.model_inference import Opened


class Inference:
    """The inferred types of one source model, and inference of nodes that a conversion adds."""

    def __init__(self, source: ModelProto, opened: Opened):
        self._source = source
        self._opened = opened
        self._shapes: dict[Path, Shapes] | None = None
        self._inferred: ModelProto | None = None
        self._granted: set[str] = set()
        self._contradictions: list[Change] | None = None
        self._told: set[tuple[KnownBody, str]] | None = None
        self.less: set[str] = set()
        """Values for which an old onnx may infer fewer sizes than the newest."""

    @property
    def was_asked(self) -> bool:
        """Tell whether types were inferred, which happens at the first question."""
        return self._shapes is not None

    def now(self) -> None:
        """Infer the types of the source now, before somebody changes it."""
        if self._shapes is None:
            from opshift.passes.analysis.inferring.model_inference import infer

            self._shapes, self._inferred = infer(self._source, self._opened)
            if installed.infers_less():
                self.less = _find_less_known(self._source, self._shapes.values())

    def type(self, path: Path, name: str) -> TypeProto | None:
        """The inferred type of a value of the source graph at `path`."""
        known = self._of(path)
        found = None if known is None else known.types.get(name)
        return found if found is not None and _is_told(found) else None

    def sizes(self, path: Path, name: str) -> Sizes | None:
        """The sizes of a value of the source graph at `path`; None if it has no shape."""
        known = self._of(path)
        found = None if known is None else known.of(name)
        return found if found is not None and self.type(path, name) is not None else None

    def _of(self, path: Path) -> Shapes | None:
        if self._shapes is None:
            self.now()
        return (self._shapes or {}).get(path)

    @property
    def granted(self) -> set[str]:
        """Values whose inferred shapes are right only if no size is 0; empty before types were inferred."""
        if self._inferred is not None:
            held = list((self._shapes or {}).values())
            known = held[0].of if len(held) == 1 else self._anywhere
            self._granted, self._inferred = find_granted(self._inferred, known), None
        return self._granted

    def _anywhere(self, name: str) -> Sizes | None:
        """Find the sizes of a value in any graph."""
        held = (self._shapes or {}).values()
        return next((found for shapes in held if (found := shapes.of(name)) is not None), None)

    def contradictions(self) -> list[Change]:
        """List the declared shapes that contradict inferred ones; none before types were inferred."""
        if self._shapes is None:
            return []
        if self._contradictions is None:
            self._contradictions = list(claims.find_contradictions(self._source, self.type))
        return self._contradictions

    def node(self, node: NodeProto, opset: int, scope: KnownBody) -> None:
        """Infer the outputs of one new node, and of the new nodes that it depends on, into `scope.typed`.

        Subgraphs of a node call this again. Until the first call returns, each node is inferred once: the nodes that it
        depends on were inferred before it.
        """
        if self._told is not None:
            self._follow(node, opset, scope, self._told)
            return
        self._told = set()
        try:
            self._follow(node, opset, scope, self._told)
        finally:
            self._told = None

    def _follow(self, node: NodeProto, opset: int, scope: KnownBody, told: set[tuple[KnownBody, str]]) -> None:
        from opshift.passes.analysis.inferring.node_inference import infer_node, is_known

        pending = [(node, opset)]
        visited: set[str] = set()
        while pending:
            current, version = pending[-1]
            visited.add(current.output[0])
            if (scope, current.output[0]) in told:
                pending.pop()
                continue
            origins = [scope.node_to_ask(name) for name in current.input if not is_known(scope.stated_type(name))]
            waiting = [o for o in origins if o is not None and o[0].output[0] not in visited]
            if waiting:
                pending += waiting
                continue
            pending.pop()
            infer_node(current, version, scope)
            if self.less and not self.less.isdisjoint(current.input):
                self.less.update(name for name in current.output if not is_whole(scope.typed.get(name)))
            scope.note_judged(current)
            told.add((scope, current.output[0]))


def _is_told(value_type: TypeProto) -> bool:
    """Tell whether a type is more than an empty message."""
    return bool(value_type.tensor_type.elem_type) or value_type.WhichOneof("value") not in (None, "tensor_type")


_SIZED = frozenset(["Reshape", "Expand", "Einsum", "Gemm", "MeanVarianceNormalization"])
"""Operators for which onnx infers more since 1.18."""


def _find_less_known(source: ModelProto, inferred: Iterable[Shapes]) -> set[str]:
    """Find outputs of these operators with open sizes, and values with open sizes that depend on them."""
    known = {name: value_type for held in inferred for name, value_type in held.types.items()}
    found: set[str] = set()
    for body in bodies(source):
        for node in body.node:
            if node.op_type in _SIZED or not found.isdisjoint(node.input):
                found.update(name for name in node.output if not is_whole(known.get(name)))
    return found


def is_whole(value_type: TypeProto | None) -> bool:
    """Tell whether a type has a shape whose sizes are all numbers, or names that the model itself gives."""
    if value_type is None or not has_shape(value_type):
        return False
    dims = value_type.tensor_type.shape.dim
    named = (dim.dim_param for dim in dims if not dim.HasField("dim_value"))
    return all(name and not claims.is_made_up(name) for name in named)
