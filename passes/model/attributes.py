"""Attributes of nodes as values, and values as attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opshift.passes.model.messages import AttributeProto, GraphProto, TensorProto

_FIELDS: dict[int, str] = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.SPARSE_TENSORS: "sparse_tensors",
    AttributeProto.TYPE_PROTOS: "type_protos",
}


_SCALARS = {AttributeProto.FLOAT, AttributeProto.INT}


_TEXTS = {AttributeProto.STRING, AttributeProto.STRINGS}


def attribute_type_of(attribute: AttributeProto) -> int:
    """The attribute's type; files of IR 1 leave it out, so it is read from the field that is set."""
    if attribute.type:
        return attribute.type
    present = {descriptor.name for descriptor, _ in attribute.ListFields()}
    return next((attribute_type for attribute_type, name in _FIELDS.items() if name in present), 0)


def attribute_value(attribute: AttributeProto) -> Any:
    """The Python value of an attribute: int, float, str, a message, or a list of those."""
    attribute_type = attribute_type_of(attribute)
    if attribute_type not in _FIELDS:
        return None
    value = getattr(attribute, _FIELDS[attribute_type])
    if attribute_type == AttributeProto.STRING:
        return value.decode("utf-8", "surrogateescape")
    if attribute_type == AttributeProto.STRINGS:
        return [text.decode("utf-8", "surrogateescape") for text in value]
    return value if attribute_type <= AttributeProto.GRAPH or not isinstance(value, Sequence) else list(value)


def make_attribute(name: str, value: Any, attribute_type: int = 0) -> AttributeProto:
    """An attribute holding `value`. `kind` settles what the value alone cannot: 1 as FLOAT, [] as INTS."""
    if isinstance(value, AttributeProto):
        copied = AttributeProto.FromString(value.SerializeToString())
        copied.name = name
        return copied
    attribute_type = attribute_type or _attribute_type_of(value)
    attribute = AttributeProto(name=name, type=attribute_type)  # type: ignore[arg-type]
    field = _FIELDS[attribute_type]
    if attribute_type in _TEXTS:
        value = [_bytes(v) for v in value] if attribute_type == AttributeProto.STRINGS else _bytes(value)
    if attribute_type in _SCALARS or attribute_type == AttributeProto.STRING:
        setattr(attribute, field, value)
    elif attribute_type in (AttributeProto.TENSOR, AttributeProto.GRAPH, AttributeProto.TYPE_PROTO):
        getattr(attribute, field).CopyFrom(value)
    else:
        getattr(attribute, field).extend(value)
    return attribute


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text


def _attribute_type_of(value: Any) -> int:
    single = value[0] if isinstance(value, (list, tuple)) and value else value
    several = isinstance(value, (list, tuple))
    if isinstance(single, float):
        return AttributeProto.FLOATS if several else AttributeProto.FLOAT
    if isinstance(single, (str, bytes)):
        return AttributeProto.STRINGS if several else AttributeProto.STRING
    if isinstance(single, TensorProto):
        return AttributeProto.TENSOR
    if isinstance(single, GraphProto):
        return AttributeProto.GRAPH
    return AttributeProto.INTS if several else AttributeProto.INT
