"""Find what in a model a backend does not support: an entry for each node or value, with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opshift.passes.analysis.scope import Context, Scope, open_main_graph
from opshift.passes.backends import measurements
from opshift.passes.backends.backend import Backend, Limit
from opshift.passes.errors import Refusal
from opshift.passes.model import schemas
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import FunctionProto, ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import Body, Op, subgraphs
from opshift.passes.model.types import plain_type, type_text
from opshift.passes.model.validity import is_runtime_extension


def obstacles(model: ModelProto, backend: Backend, folder: str | None = None) -> list[Refusal]:
    """List everything in the model that the backend does not support; `folder` is where external data lie."""
    return [*_versions(model, backend), *_ObstacleSearch(model, backend, folder).find_all()]


def find_failing(model: ModelProto, backend: Backend, folder: str | None = None) -> set[Op]:
    """List operators that are called with a type that failed when the backend was measured."""
    held = backend.measured.values()
    measured = any(each.failed or any(types.failed for types in each.types.values()) for each in held)
    return set(_ObstacleSearch(model, backend, folder).find_failing()) if measured else set()


def find_copied_outputs(model: ModelProto, backend: Backend, folder: str | None = None) -> dict[str, NodeProto]:
    """Find outputs of the model that an Identity has to copy, and the nodes that make them."""
    limits = [limit for limit in backend.limits if limit.copied]
    if not any(limit.ops & {(node.domain, node.op_type) for node in model.graph.node} for limit in limits):
        return {}
    scope = open_main_graph(model, folder)
    makers = dict[str, NodeProto]()
    for name in dict.fromkeys(value.name for value in model.graph.output):
        node, dims = scope.producer(name), scope.shape(name)
        if node is not None and dims is not None and any(
            (node.domain, node.op_type) in limit.ops and len(dims) in limit.copied for limit in limits
        ):  # fmt: skip
            makers[name] = node
    return makers


def _versions(model: ModelProto, backend: Backend) -> Iterator[Refusal]:
    """List opsets and IR versions of the model that are newer than what the backend reads. Part of `obstacles`."""
    imported = opsets(model)
    rows = [
        ("opset", imported.get("", 0), backend.opset),
        ("opset of ai.onnx.ml", imported.get("ai.onnx.ml", 0), backend.ml_opset),
        ("ir_version", model.ir_version, backend.ir_version),
    ]
    for what, own, newest in rows:
        if newest and own > newest:
            yield Refusal("", what, "", 0, False, f"the model has {own}; supported: at most {newest}")


class _ObstacleSearch:
    """Walks all graphs and functions of a model."""

    def __init__(self, model: ModelProto, backend: Backend, folder: str | None):
        self._model = model
        self._backend = backend
        self._context = Context(model, model, folder)
        self._held = {tensor.name for tensor in model.graph.initializer}
        self._known = dict[Scope, dict[str, bool]]()
        self._local = {(normalize_domain(f.domain), f.name) for f in model.functions}

    def find_all(self) -> Iterator[Refusal]:
        """List every value and node that the backend does not support, with the reason."""
        for scope, imports, where in self._scopes():
            yield from self._find_value_obstacles(scope, where)
            for node in scope.body.node:
                why = self._find_obstacle(node, scope, imports)
                if why:
                    name = node.name or next(iter(node.output), "")
                    yield Refusal(name, node.op_type, normalize_domain(node.domain), 0, False, why, where)

    def find_failing(self) -> Iterator[Op]:
        """List operators of calls that failed when the backend was measured."""
        for scope, imports, _ in self._scopes():
            for node in scope.body.node:
                domain = normalize_domain(node.domain)
                if self._find_failed_type(node, scope, imports.get(domain, 1)):
                    yield domain, node.op_type

    def _scopes(self) -> Iterator[tuple[Scope, Mapping[str, int], str]]:
        """List all graphs and functions that the backend reads, with their opset imports and their place.

        Part of the search for obstacles.
        """
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

    def _find_value_obstacles(self, scope: Scope, where: str) -> Iterator[Refusal]:
        """List values of types that the backend does not support. Part of the search for obstacles."""
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
            value_type = scope.type(name)
            text = type_text(value_type) if value_type is not None else None
            if text and text not in types:
                yield Refusal(name, "value", "", 0, False, f"{text} is not supported", where)

    def _find_obstacle(self, node: NodeProto, scope: Scope, imports: Mapping[str, int]) -> str:
        """Say why the backend does not support a node: its operator, its version, a limit, or a failed type; empty
        if it does. Asked for each node.
        """
        domain, op = normalize_domain(node.domain), node.op_type
        if (domain, op) in self._local:
            return "" if self._backend.functions else "model-local functions are not supported"
        opset = imports.get(domain, 1)
        if is_runtime_extension(domain, op, opset):
            domain = schemas.ONNXRUNTIME
        if not self._backend.has(domain, op, opset):
            some = max(self._backend.lacks.get((domain, op), 0), self._backend.oldest.get((domain, op), 0)) > 1
            return f"version {schemas.since(domain, op, opset)} is not supported" if some else "not supported"
        version = schemas.since(domain, op, opset) or 1
        for limit in self._backend.limits:
            if limit.holds(domain, op, version):
                why = self._find_excess(limit, node, scope, schemas.schema(domain, op, opset))
                if why:
                    return why
        return self._find_failed_type(node, scope, opset)

    def _find_failed_type(self, node: NodeProto, scope: Scope, opset: int) -> str:
        """Say which type of a node failed when the backend was measured; a node of constants alone does not matter."""
        measured = self._backend.measured.get((normalize_domain(node.domain), node.op_type))
        if measured is None:
            return ""
        first = next(filter(None, node.input), "")
        dims = scope.shape(first) if measured.failed and first else None
        if dims is not None and len(dims) in measured.failed and not self._decide_known(scope, first):
            return f'"{first}" has rank {len(dims)}, which failed when measured'
        for name, kind, found in measurements.find_open_types(node, scope, self._backend, opset):
            if kind is not None and found is not None and kind in found.failed - found.ran:
                if node.input and all(self._decide_known(scope, given) for given in node.input if given):
                    return ""
                return f'"{name}" is {plain_type(kind)}, which failed when measured'
        return ""

    def _decide_known(self, scope: Scope, name: str) -> bool:
        """Decide whether a backend knows a value before it runs: a constant, an empty value, a default of an input, or
        what it computes of these where it folds sizes.
        """
        known = self._known.setdefault(scope, {})
        pending = [] if name in known else [name]
        while pending:  # the chain of an unrolled loop is too long for calls of calls
            inputs = self._list_deciding(scope, pending[-1])
            of_inputs = [known.get(each) for each in inputs or ()]
            if inputs is not None and None in of_inputs and False not in of_inputs:
                pending.append(inputs[of_inputs.index(None)])
            else:
                known[pending.pop()] = inputs is not None and False not in of_inputs
        return known[name]

    def _list_deciding(self, scope: Scope, name: str) -> list[str] | None:
        """List the values that have to be known before this one is; None if that is never so."""
        if scope.is_constant(name) or self._is_default(scope, name) or 0 in (scope.shape(name) or ()):
            return []
        node = scope.producer(name) if self._backend.folds_sizes else None
        if node is None or not node.input or next(subgraphs(node), None) is not None:
            return None
        return [] if node.op_type in ("Shape", "Size") else list(filter(None, node.input))

    def _is_default(self, scope: Scope, name: str) -> bool:
        owner = scope.owner(name) if name in self._held else None
        return owner is not None and owner.parent is None and owner.graph is not None

    def _find_excess(self, limit: Limit, node: NodeProto, scope: Scope, schema: schemas.Schema | None) -> str:
        """Say how a node exceeds a limit; empty if it does not. Part of the search for obstacles."""
        if schema is None:
            return ""
        if limit.attribute and (why := find_refused_value(limit, node, schema, scope)):
            known = limit.attribute not in schema.attributes and all(self._decide_known(scope, n) for n in node.input)
            return "" if known else why
        if why := find_shape_limit(limit, node, schema, scope):
            return why
        for parameter, name in zip(schema.inputs, node.input, strict=False):
            if name and parameter.name in limit.constant and not self._decide_known(scope, name):
                return f'input {parameter.name} "{name}" is dynamic; supported: constants'
            if name and parameter.name in limit.unused and 0 not in (scope.shape(name) or ()):
                return f'input {parameter.name} "{name}" is not supported'
            value_type = scope.type(name) if limit.types and name else None
            text = type_text(value_type) if value_type is not None else None
            if text and text not in limit.types:
                return f'"{name}" is {text}; supported: {", ".join(sorted(limit.types))}'
        for parameter, name in zip(schema.outputs, node.output, strict=False):
            if name and parameter.name in limit.unused and name not in self._context.unread:
                return f'output {parameter.name} "{name}" is not supported'
        return ""


def find_shape_limit(limit: Limit, node: NodeProto, schema: schemas.Schema, scope: Scope) -> str:
    """Say how the rank or the sizes of a node's inputs exceed a limit; empty if they do not.

    Asked for each limit of a node's operator.
    """
    named = zip(schema.inputs, node.input, strict=False)
    name = next((name for parameter, name in named if limit.input in ("", parameter.name)), "")
    dims = scope.shape(name) if limit.ranks and name else None
    if dims is not None and len(dims) not in limit.ranks:
        return f'"{name}" has rank {len(dims)}; supported: {" or ".join(map(str, limit.ranks))}'
    if limit.numbers:
        for name in filter(None, node.input):
            if any(not isinstance(dim, int) for dim in scope.shape(name) or [None]):
                return f'"{name}" has dynamic sizes; supported: fixed sizes; try --fix-shape'
    return ""


def find_refused_value(limit: Limit, node: NodeProto, schema: schemas.Schema, scope: Scope) -> str:
    """Say which value of an attribute, or of a constant input, a limit refuses; empty if it takes it.

    Asked for each limit of a node's operator.
    """
    value = _find_limited_value(limit.attribute, node, schema, scope)
    if value is None:
        return ""
    items = value if isinstance(value, list) else [value]
    if limit.most:
        return f"{limit.attribute}={value!r}; supported: at most {limit.most}" if len(items) > limit.most else ""
    if limit.refuses:
        return f"{limit.attribute}={value!r} is not supported" if any(item in limit.refuses for item in items) else ""
    if all(item in limit.takes for item in items):
        return ""
    return f"{limit.attribute}={value!r}; supported: {' or '.join(map(repr, limit.takes))}"


def _find_limited_value(name: str, node: NodeProto, schema: schemas.Schema, scope: Scope) -> Any:
    """Find the value of the attribute or the constant input of a name; None if the node has no such constant."""
    declared = schema.attributes.get(name)
    if declared is not None:
        attribute = next((a for a in node.attribute if a.name == name), declared.default)
        return None if attribute is None or attribute.ref_attr_name else attribute_value(attribute)
    given = next((value for formal, value in zip(schema.inputs, node.input, strict=False) if formal.name == name), "")
    held = scope.array(given) if given else None
    return None if held is None else held.reshape(-1).tolist()
