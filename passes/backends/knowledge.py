"""Decide for each call in a model whether the backend was measured to run it, is documented to, or is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.backends import measurements
from opshift.passes.backends.backend import Backend
from opshift.passes.errors import Refusal
from opshift.passes.model import schemas
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import FunctionProto, ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import Body, subgraphs
from opshift.passes.model.types import plain_type
from opshift.passes.model.validity import is_runtime_extension

READ, BELIEVED, UNKNOWN = "read", "believed", "unknown"
"""Somebody saw such a call run; somebody says that it does; nobody knows."""


class KnownCalls(NamedTuple):
    """Whether the backend runs the calls of one operator: `read`, `believed` or `unknown`, and why it is unknown."""

    operator: str
    word: str
    why: str = ""


def find_known_calls(
    model: ModelProto, backend: Backend, folder: str | None = None, obstacles: Iterable[Refusal] = ()
) -> Iterator[KnownCalls]:
    """Say for each call that is no obstacle what is known of it, in the order of the model.

    `inspect --target` prints it.
    """
    blocked = {(refusal.node, refusal.op) for refusal in obstacles}
    context = Context(model, model, folder)
    local = {(normalize_domain(function.domain), function.name) for function in model.functions}
    bodies: list[Body] = [model.graph, *model.functions]
    for body in bodies:
        imports = opsets(body if isinstance(body, FunctionProto) else model)
        pending = [Scope(body, context, imports.get("", 1), path=None if isinstance(body, FunctionProto) else ())]
        while pending:
            scope = pending.pop()
            for index, node in enumerate(scope.body.node):
                op = normalize_domain(node.domain), node.op_type
                named = node.name or next(iter(node.output), ""), node.op_type
                if op not in local and named not in blocked and backend.has(*op, imports.get(op[0], 1)):
                    yield _judge_call(node, scope, backend, imports.get(op[0], 1))
                for attribute, k, graph in subgraphs(node):
                    inner = None if scope.path is None else (*scope.path, (index, attribute, k))
                    pending.append(Scope(graph, context, scope.opset, scope, inner))


def _judge_call(node: NodeProto, scope: Scope, backend: Backend, opset: int) -> KnownCalls:
    """Decide what is known of one call: measured to run, documented to run, or unknown, with the reason."""
    domain, op = normalize_domain(node.domain), node.op_type
    name = f"{domain}::{op}" if domain else op
    if is_runtime_extension(domain, op, opset) or (domain, op) in backend.vendors:
        return KnownCalls(name, BELIEVED)
    if not schemas.is_onnx_domain(domain):
        listed = backend.supports is not None and (domain, op) in backend.supports
        return (
            KnownCalls(name, BELIEVED)
            if listed
            else KnownCalls(name, UNKNOWN, f"the target says nothing about {domain}")
        )
    if not backend.measured:
        return KnownCalls(name, BELIEVED)
    measured = backend.measured.get((domain, op))
    if measured is None:
        return KnownCalls(name, UNKNOWN, "not measured")
    first = next(filter(None, node.input), "")
    dims = scope.shape(first) if first and measured.ranks else []
    if dims is None:
        return KnownCalls(name, UNKNOWN, "the rank of its input is unknown")
    if measured.ranks and first and len(dims) not in measured.ranks:
        return KnownCalls(name, UNKNOWN, f"rank {len(dims)} was not measured")
    if not measured.symbolic and any(not isinstance(dim, int) for dim in dims):
        return KnownCalls(name, UNKNOWN, "dynamic sizes were not measured")
    for value in measurements.find_open_types(node, scope, backend, opset):
        if value.type is None:
            return KnownCalls(name, UNKNOWN, "a type is unknown")
        if value.types is None or value.type not in value.types.ran:
            failed = value.types is not None and value.type in value.types.failed
            kind = plain_type(value.type)
            return KnownCalls(name, UNKNOWN, f"{kind} failed when measured" if failed else f"{kind} was not measured")
    return KnownCalls(name, READ)
