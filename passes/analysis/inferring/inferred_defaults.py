"""Write defaults of attributes that ONNX's inference assumes wrongly; attributes that are written, it reads."""

from __future__ import annotations

from collections.abc import Iterable

from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import NodeProto
from opshift.passes.model.traversal import Body, Calls

_TAKEN_OTHERWISE = {"STFT": ("onesided", 1)}
"""The attribute and its true default, by operator.

Found with onnx 1.23.2, by inferring all published node tests with and without their defaults.
"""


def is_mistaken(node: NodeProto) -> bool:
    """Tell whether inference assumes a wrong default for the node."""
    if node.op_type not in _TAKEN_OTHERWISE or node.domain:
        return False
    name, _ = _TAKEN_OTHERWISE[node.op_type]
    return all(attribute.name != name for attribute in node.attribute)


def state_default(node: NodeProto) -> NodeProto:
    """Copy the node with the default written; returns the node itself if inference reads it correctly."""
    if not is_mistaken(node):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    state_in_place(copy)
    return copy


def state_in_place(node: NodeProto) -> None:
    node.attribute.append(make_attribute(*_TAKEN_OTHERWISE[node.op_type]))


def state_all(held: Iterable[Body], calls: Calls) -> None:
    """Write the defaults in all nodes of these bodies."""
    if any(not domain and op in _TAKEN_OTHERWISE for domain, op in calls):
        for node in [node for body in held for node in body.node if is_mistaken(node)]:
            state_in_place(node)
