"""`Inferable`: the part of `Scope` that type inference uses, about the values of one body.

Which node computes a value?
- `maker`: the node that computes it now.
- `node_made`: that node and its opset, if the conversion added it.
- `source_of`: the node to infer its type from: the source's node, even if it was replaced by one of the same type.
- `node_to_ask`: that node, unless its inference can tell nothing more.

What type does it have?
- `certain`: known without inference.
- `stated_type`: known without inferring its own node.
- `own_type`: the whole answer, with inference of its node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from opshift.passes.analysis import claims
from opshift.passes.analysis.knowledge import KnownBody
from opshift.passes.analysis.source import Inferred, Source
from opshift.passes.analysis.trust import Trust
from opshift.passes.model import tensors
from opshift.passes.model.messages import (
    FunctionProto,
    GraphProto,
    NodeProto,
    TensorProto,
    TypeProto,
    normalize_domain,
)
from opshift.passes.model.traversal import Body
from opshift.passes.model.types import Dim, elem_type_of, has_shape, tensor_type


class Recalling(Protocol):
    """A replayed script, which creates its nodes only when somebody asks about them."""

    @property
    def edits(self) -> bool: ...
    @property
    def opaque(self) -> bool: ...
    def recall(self, made: Sequence[NodeProto | bytes], scope: Any, /) -> None: ...


class Surroundings(Inferred, Protocol):
    """The part of `Context` that this file needs."""

    @property
    def overridable(self) -> bool: ...
    @property
    def trust(self) -> Trust: ...
    @property
    def descended(self) -> set[str]: ...
    @property
    def local(self) -> frozenset[tuple[str, str]]: ...


class Inferable:
    """The state of a body that is being rewritten: its new nodes, and the types that are known so far."""

    def __init__(
        self, body: Body, context: Surroundings, opset: int, parent: Inferable | None, path: tuple[Any, ...] | None
    ):
        self.body = body
        self.context = context
        self.opset = opset
        self.parent = parent
        self.path = path
        self.source = Source(body, context, path, outermost=parent is None)
        self.made: dict[str, tuple[NodeProto, int]] = {}
        self.later: dict[str, tuple[Recalling, Sequence[NodeProto | bytes]]] = {}  # replayed nodes, not yet in `made`
        self.typed: dict[str, TypeProto] = {}
        self.folded: dict[str, TensorProto | None] = {}
        self.elem_types: dict[str, int] = {}
        self._judged: set[str] = set()  # outputs of source nodes whose inference can tell nothing more
        self._told: set[str] = set()  # outputs of such new nodes, which may still be replaced
        self._settled: set[str] = set()  # outputs of such new nodes, which stay
        self._held_types: dict[str, TypeProto] = {}  # types of constants, made when they are first needed

    if TYPE_CHECKING:  # which `Scope` has

        def inside(self, body: GraphProto, opset: int) -> KnownBody: ...
        def branches(self, node: NodeProto, opset: int) -> Sequence[tuple[GraphProto, KnownBody]]: ...
        def owner(self, name: str) -> KnownBody | None: ...
        def tensor(self, name: str, most: int | None = None) -> TensorProto | None: ...
        def type(self, name: str) -> TypeProto | None: ...
        def elem_type(self, name: str) -> int: ...
        def shape(self, name: str) -> list[Dim] | None: ...

    @property
    def graph(self) -> GraphProto | None:
        return self.body if isinstance(self.body, GraphProto) else None

    @cached_property
    def initializers(self) -> dict[str, TensorProto]:
        """The initializers that callers cannot override."""
        given = self.source.inputs if self.context.overridable else frozenset()
        lasting = given.isdisjoint(self._tensors)
        return self._tensors if lasting else {n: t for n, t in self._tensors.items() if n not in given}

    @cached_property
    def _tensors(self) -> dict[str, TensorProto]:
        """All initializers."""
        return {tensor.name: tensor for tensor in self.graph.initializer} if self.graph else {}

    def maker(self, name: str) -> NodeProto | None:
        """The node of this body that computes `name` now."""
        made = self.node_made(name)
        if made is not None:
            return made[0]
        return None if name in self.initializers else self.source.producer(name)

    def node_made(self, name: str) -> tuple[NodeProto, int] | None:
        """The new node that computes `name`, with its opset; None for nodes of the source."""
        if name in self.later:
            script, made = self.later[name]
            script.recall(made, self)
        return self.made.get(name)

    def source_of(self, name: str) -> tuple[NodeProto, int] | None:
        """The node to infer the type of `name` from, with its opset: the source's node, even if it was replaced."""
        if name in self.made or (name in self.later and self.later[name][0].edits):
            return self.node_made(name)
        node = self.source.producer(name)
        return None if node is None else (node, self.opset)

    def is_opaque(self, name: str) -> bool:
        """Tell whether a replayed script says that a value is not constant; its node need not be created then."""
        return name in self.later and self.later[name][0].opaque

    def opset_of(self, node: NodeProto) -> int:
        """The opset of the default domain that a node of this body is written at now."""
        made = self.node_made(next(iter(node.output), ""))
        return made[1] if made and made[0] is node else self.opset

    def own_type(self, name: str) -> TypeProto | None:
        """The type of a value of this body; infers its node if that is needed."""
        known = self.stated_type(name)
        if (known is None or not has_shape(known)) and (asked := self.node_to_ask(name)) is not None:
            self.context.inference.node(*asked, self)
            known = self.typed.get(name) or known
        self.notice(name, known)
        return known

    def stated_type(self, name: str) -> TypeProto | None:
        """The type of a value of this body that is known without inferring its node anew."""
        if (known := self.certain(name)) is not None:
            return known
        typed, declared = self.typed.get(name), self.declared_type(name)
        if self.path is None:
            return typed or declared
        inferred = self.source.type(name)
        if inferred is None or declared is None or not (has_shape(inferred) and has_shape(declared)):
            return _fuller(inferred, typed or declared)
        return claims.reconcile(declared, inferred)

    def certain(self, name: str) -> TypeProto | None:
        """The type and shape of a value of this body that is known without inference."""
        typed = self.typed.get(name)
        if typed is not None and has_shape(typed):
            return typed
        declared = self.declared_type(name)
        if declared is not None and has_shape(declared) and self._is_certain(name):
            return declared
        if name not in self._held_types:
            node = self.source.producer(name)
            held = tensors.of_constant(node) if node is not None and is_constant_node(node) else None
            if held is None:
                return None
            self._held_types[name] = tensor_type(held.data_type, held.dims)
        return self._held_types[name]

    def notice(self, name: str, known: TypeProto | None) -> None:
        """Remember for the report that the type of a value is only declared."""
        if self.context.trusting and self.is_claim(name, known):
            self.context.trust.take(name, self)

    def is_claim(self, name: str, known: TypeProto | None) -> bool:
        """Tell whether the known type of a value of this body is only declared, as a whole or in part."""
        if name in self.typed or self.declared_type(name) is None or self._is_certain(name):
            return False
        if self.path is None:
            return isinstance(self.body, FunctionProto)
        return self.context.trust.is_claim(name, self.source.type(name), known, self)

    def _is_certain(self, name: str) -> bool:
        """Tell whether a declared type is certain: of inputs, which runtimes check, and of initializers."""
        return name in self._tensors or (self.parent is None and name in self.source.inputs)

    def node_to_ask(self, name: str) -> tuple[NodeProto, int] | None:
        """The node whose inference may tell more about the type of `name`, with its opset; None if there is none."""
        made = self.node_made(name)
        if made is not None:
            return None if name in self._settled else made
        node = self.source.producer(name)
        if node is None or name in self._judged:
            return None
        known = self.source.type(name)
        return (node, self.opset) if known is None or not has_shape(known) else None

    def note_judged(self, node: NodeProto) -> None:
        """Remember that inference of a node can tell nothing more; a new node is inferred again until it settles."""
        (self._judged if self.node_made(node.output[0]) is None else self._told).update(node.output)

    def settle(self, made: Sequence[NodeProto | bytes]) -> None:
        """Remember that new nodes before `made` stay, so that they are not inferred again."""
        if self._told:
            for node in made:
                if not isinstance(node, bytes):
                    self._told.difference_update(node.output)
            self._settled |= self._told
            self._told.clear()

    def seed(self, names: Sequence[str], value_types: Sequence[TypeProto | None]) -> None:
        """Set types of values, except where a declared or inferred type has a shape."""
        for name, value_type in zip(names, value_types, strict=False):
            known = self.typed.get(name) or self.declared_type(name)
            if name and value_type is not None and elem_type_of(value_type) and (known is None or not has_shape(known)):
                self.typed[name] = value_type

    def declared_type(self, name: str) -> TypeProto | None:
        """The type of an initializer, or the type that the model declares."""
        if name in self.initializers or (name in self._tensors and self.source.declared_type(name) is None):
            tensor = self._tensors[name]
            if name not in self._held_types:
                self._held_types[name] = tensor_type(tensor.data_type, tensor.dims)
            return self._held_types[name]
        return self.source.declared_type(name)

    def stated_elem_type(self, name: str) -> int:
        """The element type that the model declares, or a step has set, for a value of this body; 0 if neither."""
        stated = self.typed.get(name)
        if stated is None and (stated := self.declared_type(name)) is not None:
            self.context.trust.take_type(name, self)
        return 0 if stated is None else elem_type_of(stated)


def is_constant_node(node: NodeProto) -> bool:
    return node.op_type == "Constant" and not normalize_domain(node.domain)


def _fuller(inferred: TypeProto | None, declared: TypeProto | None) -> TypeProto | None:
    """Choose the type with a shape; the inferred one if neither or both have one."""
    known = inferred is None or (declared is not None and has_shape(declared) and not has_shape(inferred))
    return declared if known else inferred
