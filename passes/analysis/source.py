"""Answer questions about a body of the source model, which no conversion changes."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

from opshift.passes.analysis import claims
from opshift.passes.analysis.inferring.type_inference import Inference
from opshift.passes.model.messages import FunctionProto, GraphProto, NodeProto, TypeProto
from opshift.passes.model.traversal import Body
from opshift.passes.model.types import Dim, dims_of, has_shape, tensor_type


class Inferred(Protocol):
    """The part of `Context` that this file needs."""

    @property
    def trusting(self) -> bool: ...
    @property
    def inference(self) -> Inference: ...


class Source:
    """A body of the source model: who produces a value, its inferred type and shape, and its declared type.

    Types are inferred only if there is a `path` to the body. A declared type is a claim: inference may contradict it.
    """

    def __init__(self, body: Body, context: Inferred, path: tuple[Any, ...] | None, *, outermost: bool):
        self.body = body
        self.path = path
        self._context = context
        self._outermost = outermost

    def producer(self, name: str) -> NodeProto | None:
        """The node that produces a value; None for inputs and initializers."""
        return self.producers.get(name)

    @cached_property
    def producers(self) -> dict[str, NodeProto]:
        """The node by each value that it produces."""
        return {name: node for node in self.body.node for name in node.output[:] if name}

    @cached_property
    def inputs(self) -> frozenset[str]:
        """The inputs of the body, and its sparse initializers."""
        body = self.body
        given = body.input if isinstance(body, FunctionProto) else (value.name for value in body.input)
        sparse = body.sparse_initializer if isinstance(body, GraphProto) else ()
        return frozenset([*given, *(held.values.name for held in sparse)])

    def type(self, name: str) -> TypeProto | None:
        """The inferred type of a value; None where inference tells none."""
        return None if self.path is None else self._context.inference.type(self.path, name)

    def shape(self, name: str) -> list[Dim] | None:
        """The inferred shape of a value; None if the rank is unknown."""
        found = self.type(name)
        return dims_of(found) if found is not None and has_shape(found) else None

    def declared_type(self, name: str) -> TypeProto | None:
        """The type that the graph or function declares."""
        return self.declarations.get(name)

    @cached_property
    def declarations(self) -> dict[str, TypeProto]:
        """The declared types by name; without shapes if the context does not trust them (inputs keep theirs)."""
        graph = self.body if isinstance(self.body, GraphProto) else None
        stated = (*graph.value_info, *graph.output, *graph.input) if graph else getattr(self.body, "value_info", ())
        found = {value.name: value.type for value in stated if value.HasField("type")}
        if not self._context.trusting:
            given = {value.name for value in graph.input} if graph and self._outermost else set()
            found = {
                name: value_type if name in given else claims.bare(value_type) for name, value_type in found.items()
            }
        for held in graph.sparse_initializer if graph else ():  # whose readers know them as dense
            found.setdefault(held.values.name, tensor_type(held.values.data_type, held.dims))
        return found
