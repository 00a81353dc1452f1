"""What in a model a backend does not read: one entry for each node or value, with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.backends import measurements
from opshift.passes.backends.backend import Backend, Limit
from opshift.passes.errors import Refusal
from opshift.passes.model import schemas
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import FunctionProto, ModelProto, NodeProto, default_domain
from opshift.passes.model.traversal import Body, Op, subgraphs
from opshift.passes.model.types import is_fixed, symbol, type_text
from opshift.passes.model.validity import is_theirs


def obstacles(model: ModelProto, backend: Backend, folder: str | None = None) -> list[Refusal]:
    """Everything that keeps the backend from reading the model; `folder` is where external data lie."""
    return [*_versions(model, backend), *_ObstacleSearch(model, backend, folder).found()]


def failing(model: ModelProto, backend: Backend, folder: str | None = None) -> set[Op]:
    """The operators that some node calls with a type with which the backend was seen to fail, and never to run."""
    measured = any(types.failed for held in backend.measured.values() for types in held.types.values())
    return set(_ObstacleSearch(model, backend, folder).failing()) if measured else set()


def open_dimensions(model: ModelProto, backend: Backend) -> list[Refusal]:
    """Every dimension of an input that has no number, if the backend needs them all: the user has to choose them."""
    if not backend.static_shapes:
        return []
    held = {tensor.name for tensor in model.graph.initializer}
    found = []
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        open_dims = [symbol(d) or str(i) for i, d in enumerate(dims) if not is_fixed(d)]
        if value.name not in held and open_dims:
            why = f"dimension {', '.join(open_dims)} has no number; only numbers are read"
            found.append(Refusal(value.name, "input", "", 0, False, why))
    return found


def _versions(model: ModelProto, backend: Backend) -> Iterator[Refusal]:
    imported = opsets(model)
    rows = [
        ("opset", imported.get("", 0), backend.opset),
        ("opset of ai.onnx.ml", imported.get("ai.onnx.ml", 0), backend.ml_opset),
        ("ir_version", model.ir_version, backend.ir_version),
    ]
    for what, own, newest in rows:
        if newest and own > newest:
            yield Refusal("", what, "", 0, False, f"{own}; at most {newest} is read")


class _ObstacleSearch:
    """Walks all graphs and functions of a model."""

    def __init__(self, model: ModelProto, backend: Backend, folder: str | None):
        self._model = model
        self._backend = backend
        self._context = Context(model, model, folder)
        self._held = {tensor.name for tensor in model.graph.initializer}
        self._local = {(default_domain(f.domain), f.name) for f in model.functions}

    def found(self) -> Iterator[Refusal]:
        for scope, imports, where in self._scopes():
            yield from self._values(scope, where)
            for node in scope.body.node:
                why = self._node(node, scope, imports)
                if why:
                    name = node.name or next(iter(node.output), "")
                    yield Refusal(name, node.op_type, default_domain(node.domain), 0, False, why, where)

    def failing(self) -> Iterator[Op]:
        for scope, imports, _ in self._scopes():
            for node in scope.body.node:
                domain = default_domain(node.domain)
                if self._failing(node, scope, imports.get(domain, 1)):
                    yield domain, node.op_type

    def _scopes(self) -> Iterator[tuple[Scope, Mapping[str, int], str]]:
        """All graphs and functions that the backend reads, with what is imported there and where that is."""
        main = opsets(self._model)
        bodies: list[tuple[Body, Mapping[str, int], str]] = [(self._model.graph, main, "")]
        if self._backend.functions:
            bodies += [(f, opsets(f), f"function {f.name}") for f in self._model.functions]
        for body, imports, where in bodies:
            path = None if isinstance(body, FunctionProto) else ()
            pending = [Scope(body, self._context, imports.get("", 1), path=path)]
            while pending:
                scope = pending.pop()
                yield scope, imports, where
                for index, node in enumerate(scope.body.node):
                    for attribute, k, graph in subgraphs(node):
                        inner = None if scope.path is None else (*scope.path, (index, attribute, k))
                        pending.append(Scope(graph, self._context, scope.opset, scope, inner))

    def _values(self, scope: Scope, where: str) -> Iterator[Refusal]:
        """Inputs, initializers and results of types that the backend does not read."""
        types = self._backend.types
        if not types:
            return
        body = scope.body
        names = (
            []
            if isinstance(body, FunctionProto)
            else [*(v.name for v in body.input), *(t.name for t in body.initializer)]
        )
        names += [name for node in body.node for name in node.output if name]
        for name in dict.fromkeys(names):
            kind = scope.type(name)
            text = type_text(kind) if kind is not None else None
            if text and text not in types:
                yield Refusal(name, "value", "", 0, False, f"{text} is not read", where)

    def _node(self, node: NodeProto, scope: Scope, imports: Mapping[str, int]) -> str:
        domain, op = default_domain(node.domain), node.op_type
        if (domain, op) in self._local:
            return "" if self._backend.functions else "model-local functions are not read"
        opset = imports.get(domain, 1)
        if is_theirs(domain, op, opset):
            domain = schemas.ONNXRUNTIME
        if not self._backend.has(domain, op, opset):
            some = max(self._backend.lacks.get((domain, op), 0), self._backend.oldest.get((domain, op), 0)) > 1
            return f"version {schemas.since(domain, op, opset)} is not read" if some else "it is not read"
        version = schemas.since(domain, op, opset) or 1
        for limit in self._backend.limits:
            if limit.holds(domain, op, version):
                why = self._beyond(limit, node, scope, schemas.schema(domain, op, opset))
                if why:
                    return why
        return self._failing(node, scope, opset)

    def _failing(self, node: NodeProto, scope: Scope, opset: int) -> str:
        """The types of a node with which no call ran, if it has to: what constants alone decide does not."""
        held = self._backend.measured.get((default_domain(node.domain), node.op_type))
        if held is None or not any(found.failed for found in held.types.values()):
            return ""
        for name, kind, found in measurements.asked(node, scope, self._backend, opset):
            if kind is not None and found is not None and kind in found.failed - found.ran:
                if node.input and all(self._known(scope, given) for given in node.input if given):
                    return ""
                return f'"{name}" is {measurements.plain(kind)}, of which no call ran'
        return ""

    def _known(self, scope: Scope, name: str) -> bool:
        """Whether a backend knows a value before it runs: also an empty one, and one that callers could override."""
        pending, seen = [name], {name}
        while pending:
            name = pending.pop()
            if scope.is_constant(name) or self._is_default(scope, name) or 0 in (scope.shape(name) or ()):
                continue
            node = scope.producer(name) if self._backend.folds_sizes else None
            if node is None or not node.input or next(subgraphs(node), None) is not None:
                return False
            if node.op_type not in ("Shape", "Size"):
                pending += {name for name in node.input if name} - seen
                seen.update(node.input)
        return True

    def _is_default(self, scope: Scope, name: str) -> bool:
        owner = scope.owner(name) if name in self._held else None
        return owner is not None and owner.parent is None and owner.graph is not None

    def _beyond(self, limit: Limit, node: NodeProto, scope: Scope, schema: schemas.Schema | None) -> str:
        """How a node exceeds a limit; empty if it does not."""
        if schema is None:
            return ""
        if limit.attribute and (why := _untaken(limit, node, schema)):
            return why
        if why := _unshaped(limit, node, scope):
            return why
        for parameter, name in zip(schema.inputs, node.input, strict=False):
            if name and parameter.name in limit.constant and not self._known(scope, name):
                return f'input {parameter.name} "{name}" is computed; only constants are read'
            kind = scope.type(name) if limit.types and name else None
            text = type_text(kind) if kind is not None else None
            if text and text not in limit.types:
                return f'"{name}" is {text}; {", ".join(sorted(limit.types))} is read'
        for parameter, name in zip(schema.outputs, node.output, strict=False):
            if name and parameter.name in limit.unused and name not in self._context.unread:
                return f'output {parameter.name} "{name}" is not read'
        return ""


def _unshaped(limit: Limit, node: NodeProto, scope: Scope) -> str:
    """How the shapes of a node's inputs exceed a limit, as far as they are known."""
    first = scope.shape(node.input[0]) if limit.ranks and node.input and node.input[0] else None
    if first is not None and len(first) not in limit.ranks:
        return f'"{node.input[0]}" has rank {len(first)}; {" or ".join(map(str, limit.ranks))} is read'
    if limit.numbers:
        for name in filter(None, node.input):
            if any(not isinstance(dim, int) for dim in scope.shape(name) or [None]):
                return f'"{name}" has sizes without a number; only numbers are read'
    return ""


def _untaken(limit: Limit, node: NodeProto, schema: schemas.Schema) -> str:
    declared = schema.attributes.get(limit.attribute)
    if declared is None:
        return ""
    held = next((a for a in node.attribute if a.name == limit.attribute), declared.default)
    if held is None or held.ref_attr_name:
        return ""
    value: Any = attribute_value(held)
    if all(item in limit.takes for item in (value if isinstance(value, list) else [value])):
        return ""
    return f"{limit.attribute}={value!r}; {' or '.join(map(repr, limit.takes))} is read"
