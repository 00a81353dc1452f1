"""Checks that every node is legal at the target. What is not is a refusal or a bug, never output."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from functools import cache

from opshift.passes.errors import Refusal
from opshift.passes.model import schemas
from opshift.passes.model.attributes import attribute_type_of
from opshift.passes.model.messages import FunctionProto, ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import bodies
from opshift.passes.model.types import ELEMENT_TYPES, elem_type_of, type_text

_INTERNAL = "__"
"""What implementations note in attributes begins so; no schema declares it."""


class LegalityJudge:
    """Tells whether calls are legal at given opsets; calls that differ in names and values only are judged once."""

    def __init__(self) -> None:
        self._known: dict[object, str] = {}

    def why_not(self, node: NodeProto, opset: int) -> str:
        """Why a call is not legal at `opset` of its own domain; empty if it is, and for domains that are not known."""
        attributes = node.attribute
        kinds = tuple([(a.name, a.type or attribute_type_of(a)) for a in attributes]) if attributes else ()
        return self.why(node.domain, node.op_type, len(node.input), len(node.output), kinds, opset)

    def why(
        self, domain: str, op: str, inputs: int, outputs: int, attributes: tuple[tuple[str, int], ...], opset: int
    ) -> str:
        """The same for any call with so many inputs and outputs and attributes of these names and types."""
        key = domain, op, inputs, outputs, attributes, opset
        try:
            return self._known[key]
        except KeyError:
            self._known[key] = why = _judge(*key)
            return why


def illegal(node: NodeProto, opset: int, why: str, where: str) -> Refusal:
    """The refusal of a call that is not legal."""
    name = node.name or next(iter(node.output), "")
    domain = normalize_domain(node.domain)
    return Refusal(name, node.op_type, domain, 0, True, f"not legal at opset {opset}: {why}", where)


def problems(model: ModelProto) -> Iterator[Refusal]:
    """Every node, of every graph and function, that the opsets it is imported at do not take."""
    judge = LegalityJudge()
    home: dict[str, int] = {}
    where = ""
    for body in bodies(model):
        if isinstance(body, FunctionProto):
            home, where = _imports(body), f"function {body.name}"
        elif body is model.graph:
            home, where = _imports(model), ""
        for node in body.node:
            opset = home.get(normalize_domain(node.domain))
            if opset is not None and (why := judge.why_not(node, opset)):
                yield illegal(node, opset, why, where)
    yield from unknown_initializers(model)


def unknown_initializers(model: ModelProto) -> Iterator[Refusal]:
    """Every initializer of a type that no operator takes at the opset that the model imports."""
    opset = _imports(model).get("", 1)
    if {tensor.data_type for tensor in model.graph.initializer} - _element_types(opset):
        yield from _unknown_at(opset, [(tensor.name, tensor.data_type) for tensor in model.graph.initializer])


def _imports(holder: ModelProto | FunctionProto) -> dict[str, int]:
    return {normalize_domain(i.domain): i.version for i in holder.opset_import}


def misuse(node: NodeProto, domain: str, version: int) -> str:
    """Why a call is none that a vendor's operator takes; empty if it is one, or the operator is not known."""
    schema = schemas.schema(domain, node.op_type, max(version, 1))
    if schema is None:
        return ""
    for formal, name in zip(schema.inputs, node.input, strict=False):
        if not name and formal.option == "Single":
            return f"input {formal.name} is missing"
    kinds = tuple((a.name, attribute_type_of(a)) for a in node.attribute)
    return _against(schema, len(node.input), len(node.output), kinds)


Kinds = tuple[tuple[str, int], ...]
"""The attributes of a call, by name and type."""


def _judge(raw: str, op: str, inputs: int, outputs: int, attributes: Kinds, opset: int) -> str:
    domain = normalize_domain(raw)
    if not schemas.is_onnx_domain(domain):
        return ""
    schema = schemas.schema(domain, op, opset)
    if schema is None:
        known = schemas.versions(domain, op)
        return f"it is new in opset {known[0]}" if known else "ONNX has no such operator"
    return _against(schema, inputs, outputs, attributes)


def _against(schema: schemas.Schema, inputs: int, outputs: int, attributes: Kinds) -> str:
    domain, op = schema.domain, schema.name
    if schema.deprecated:
        return f"it is deprecated since opset {schema.since}"
    if not schema.min_input <= inputs <= schema.max_input:
        return f"{inputs} inputs; supported: {_span(schema.min_input, schema.max_input)}"
    if not schema.min_output <= outputs <= schema.max_output:
        return f"{outputs} outputs; supported: {_span(schema.min_output, schema.max_output)}"
    if (domain, op) == ("", "BatchNormalization") and outputs not in (counts := (1, 3 if schema.since > 9 else 5)):
        return f"{outputs} outputs; supported: {counts[0]} or {counts[1]}"
    for name, attribute_type in attributes:
        declared = schema.attributes.get(name)
        if declared is None and name.startswith(_INTERNAL):
            continue
        if declared is None:
            return f"attribute {name} does not exist"
        if attribute_type != declared.type:
            return f"attribute {name} has the wrong type"
    given = dict(attributes)
    if len(given) < len(attributes):
        return "an attribute is given twice"
    missing = [n for n, a in schema.attributes.items() if a.required and n not in given]
    return f"attribute {missing[0]} is missing" if missing else ""


def _span(least: int, most: int) -> str:
    """How many inputs or outputs an operator may have, as `2` or `1 to 3`."""
    return str(least) if least == most else f"{least} to {most}"


def readers(model: ModelProto, dissolved: set[str]) -> Iterator[Refusal]:
    """Everything that still reads a sequence or an optional that no node makes any more."""
    if not dissolved:
        return
    why = "the node reads a sequence or an optional, which the opset asked for does not have"
    for body in bodies(model):
        for node in body.node:
            if not dissolved.isdisjoint(node.input):
                name = node.name or next(iter(node.output), "")
                yield Refusal(name, node.op_type, normalize_domain(node.domain), 0, False, why)
        for value in body.output:
            name = value if isinstance(value, str) else value.name
            if name in dissolved:
                yield Refusal(
                    name,
                    "value",
                    "",
                    0,
                    False,
                    "this value is a sequence or an optional, which the opset asked for does not have",
                )


def find_unexpanded(model: ModelProto, ops: Container[tuple[str, str]]) -> Iterator[Refusal]:
    """Refuse every node, at any depth, whose operator should have been expanded. A check: conversion leaves none."""
    for body in bodies(model):
        for node in body.node:
            domain = normalize_domain(node.domain)
            if (domain, node.op_type) in ops:
                name = node.name or next(iter(node.output), "")
                yield Refusal(
                    name,
                    node.op_type,
                    domain,
                    0,
                    False,
                    "the operator was to be replaced, but the converted model still has it (an error of "
                    "opshift; please report it)",
                )


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
    plain = (node for body in bodies(model) for node in body.node if not normalize_domain(node.domain))
    met = {name for node in plain for name in (*node.input, *node.output)}
    for name in filter(met.__contains__, early):
        first, role = _HOLDERS[early[name]], "an input" if name in inputs else "an output"
        why = f"it is {role} of the model and {early[name]}, which is new in opset {first}"
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
