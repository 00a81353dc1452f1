"""Attributes left out that say what holds without them, for backends that stumble over some of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opshift.passes.changes import Change
from opshift.passes.model import imports, schemas
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import AttributeProto, ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import bodies

_ACTIVATIONS = {"GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"], "RNN": ["Tanh"]}
"""What each direction computes unless it is told otherwise; no schema says so."""
_HOW = "Removed attributes that equal their defaults"


def has_default(model: ModelProto, op: str) -> bool:
    """Whether some call of an operator has such an attribute."""
    return any(True for node, version in _calls(model, op) if _plain(node, version))


def plain(model: ModelProto, op: str) -> tuple[ModelProto, list[Change]]:
    """The model whose calls of `op` say no defaults; itself where there are none."""
    made = ModelProto()
    made.CopyFrom(model)
    changes: list[Change] = []
    for node, version in _calls(made, op):
        left_out = _plain(node, version)
        if left_out:
            kept = [attribute for attribute in node.attribute if attribute.name not in left_out]
            del node.attribute[:]
            node.attribute.extend(kept)
            changes.append(Change(node.name or node.output[0], op, "", version, version, _HOW))
    return (made, changes) if changes else (model, changes)


def _calls(model: ModelProto, op: str) -> Iterator[tuple[NodeProto, int]]:
    version = schemas.since("", op, imports.opsets(model).get("", 1)) or 1
    for body in bodies(model):
        for node in body.node:
            if node.op_type == op and not normalize_domain(node.domain):
                yield node, version


def _plain(node: NodeProto, version: int) -> set[str]:
    """The names of the attributes that say what holds without them."""
    schema = schemas.schema("", node.op_type, version)
    if schema is None:
        return set()
    found = set()
    for attribute in node.attribute:
        declared = schema.attributes.get(attribute.name)
        usual = _usual(node) if attribute.name == "activations" else None
        if declared is not None and declared.default is not None:
            usual = attribute_value(declared.default)
        if usual is not None and not attribute.ref_attr_name and attribute_value(attribute) == usual:
            found.add(attribute.name)
    return found


def _usual(node: NodeProto) -> list[str]:
    return _ACTIVATIONS.get(node.op_type, []) * (2 if _direction(node.attribute) == b"bidirectional" else 1)


def _direction(attributes: Iterable[AttributeProto]) -> bytes:
    return next((attribute.s for attribute in attributes if attribute.name == "direction"), b"forward")
