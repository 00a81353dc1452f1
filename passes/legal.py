"""Checks that every node is legal at the target. What is not is a refusal or a bug, never output."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache

from opshift.passes import schemas
from opshift.passes.errors import Refusal
from opshift.passes.names import Body, bodies
from opshift.passes.protos import (
    ELEMENT_TYPES,
    FunctionProto,
    ModelProto,
    NodeProto,
    default_domain,
    elem_type_of,
    type_text,
)
from opshift.passes.view import attribute_kind

_Signature = tuple[str, str, int, int, tuple[tuple[str, int], ...]]  # domain, operator, arity, attributes


def problems(model: ModelProto, held: Iterable[Body] | None = None) -> Iterator[Refusal]:
    """Every node, of every graph and function, that the opsets it is imported at do not take.

    `held` are the model's bodies, where they are known already.
    """
    home: dict[str, int] = {}
    where = ""
    judged: dict[_Signature, str | None] = {}
    verdicts: dict[tuple[tuple[str, int], ...], dict[_Signature, str | None]] = {}
    for body in bodies(model) if held is None else held:
        if isinstance(body, FunctionProto):
            home, where = _imports(body), f"function {body.name}"
        elif body is model.graph:
            home, where = _imports(model), ""
        if isinstance(body, FunctionProto) or body is model.graph:
            judged = verdicts.setdefault(tuple(sorted(home.items())), {})
        for node in body.node:
            attributes = node.attribute
            kinds = tuple([(a.name, a.type) for a in attributes]) if attributes else ()
            signature = node.domain, node.op_type, len(node.input), len(node.output), kinds
            try:
                why = judged[signature]
            except KeyError:
                why = judged[signature] = _judge(node, home)
            if why:
                name = node.name or next(iter(node.output), "")
                domain = default_domain(node.domain)
                why = f"not legal at opset {home.get(domain)}: {why}"
                yield Refusal(name, node.op_type, domain, 0, True, why, where)
    opset = _imports(model).get("", 1)
    yield from _unknown_at(opset, ((t.name, t.data_type) for t in model.graph.initializer))


def _imports(holder: ModelProto | FunctionProto) -> dict[str, int]:
    return {default_domain(i.domain): i.version for i in holder.opset_import}


def _judge(node: NodeProto, home: Mapping[str, int]) -> str | None:
    domain = default_domain(node.domain)
    opset = home.get(domain)
    if opset is None or not schemas.known_domain(domain):
        return None
    schema = schemas.schema(domain, node.op_type, opset)
    if schema is None:
        known = schemas.versions(domain, node.op_type)
        return f"it exists from opset {known[0]} on" if known else "no such operator"
    if schema.deprecated:
        return f"deprecated since opset {schema.since}"
    if not schema.min_input <= len(node.input) <= schema.max_input:
        return f"{len(node.input)} inputs; {schema.min_input} to {schema.max_input} could be expressed"
    if not schema.min_output <= len(node.output) <= schema.max_output:
        return f"{len(node.output)} outputs; {schema.min_output} to {schema.max_output} could be expressed"
    for attribute in node.attribute:
        declared = schema.attributes.get(attribute.name)
        if declared is None:
            return f"attribute {attribute.name} does not exist there"
        if attribute_kind(attribute) != declared.type:
            return f"attribute {attribute.name} has the wrong type"
    given = {a.name for a in node.attribute}
    missing = [n for n, a in schema.attributes.items() if a.required and n not in given]
    return f"attribute {missing[0]} is missing" if missing else None


def readers(model: ModelProto, dissolved: set[str]) -> Iterator[Refusal]:
    """Everything that still reads a sequence or an optional that no node makes any more."""
    if not dissolved:
        return
    why = "it reads a sequence or an optional, which does not exist there"
    for body in bodies(model):
        for node in body.node:
            if not dissolved.isdisjoint(node.input):
                name = node.name or next(iter(node.output), "")
                yield Refusal(name, node.op_type, default_domain(node.domain), 0, False, why)
        for value in body.output:
            name = value if isinstance(value, str) else value.name
            if name in dissolved:
                yield Refusal(
                    name, "value", "", 0, False, "it is a sequence or an optional, which does not exist there"
                )


def left(model: ModelProto, ops: Container[tuple[str, str]]) -> Iterator[Refusal]:
    """Every node, at any depth, whose operator was to be expanded; conversion leaves none."""
    for body in bodies(model):
        for node in body.node:
            domain = default_domain(node.domain)
            if (domain, node.op_type) in ops:
                name = node.name or next(iter(node.output), "")
                yield Refusal(name, node.op_type, domain, 0, False, "it was to be expanded and is still there")


_HOLDERS = {f"seq({text})": 11 for text in ELEMENT_TYPES}
_HOLDERS |= {f"optional({text})": 15 for text in (*ELEMENT_TYPES, *_HOLDERS)}
"""The opset from which on operators take and make values that hold tensors."""


def missing_types(model: ModelProto, opset: int) -> Iterator[Refusal]:
    """Every graph input and output of a type that no operator takes at `opset`."""
    graph = model.graph
    yield from _unknown_at(opset, [(v.name, elem_type_of(v.type)) for v in (*graph.input, *graph.output)])
    yield from _unknown_holders(model, opset)


def _unknown_holders(model: ModelProto, opset: int) -> Iterator[Refusal]:
    """Every graph input and output that operators of the default domain made or read, though it holds tensors."""
    inputs, graph = {value.name for value in model.graph.input}, model.graph
    spelled = {value.name: type_text(value.type) or "" for value in (*graph.input, *graph.output)}
    early = {name: text for name, text in spelled.items() if opset < _HOLDERS.get(text, 0)}
    if not early:
        return
    plain = (node for body in bodies(model) for node in body.node if not default_domain(node.domain))
    met = {name for node in plain for name in (*node.input, *node.output)}
    for name in filter(met.__contains__, early):
        first, role = _HOLDERS[early[name]], "an input" if name in inputs else "an output"
        why = f"it is {role} of the model and {early[name]}, which exists from opset {first} on"
        yield Refusal(name, "value", "", first, False, why)


def _unknown_at(opset: int, held: Iterable[tuple[str, int]]) -> Iterator[Refusal]:
    known = _element_types(opset)
    for name, elem_type in held:
        if elem_type and elem_type not in known:
            spelled = next((t for t, value in ELEMENT_TYPES.items() if value == elem_type), str(elem_type))
            first = next((o for o in range(opset, schemas.latest() + 1) if elem_type in _element_types(o)), 0)
            yield Refusal(name, "value", "", first, False, f"{spelled} does not exist at opset {opset}")


@cache
def _element_types(opset: int) -> frozenset[int]:
    return frozenset(ELEMENT_TYPES[t] for t in schemas.types_at(opset) if t in ELEMENT_TYPES)
