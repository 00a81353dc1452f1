"""Defaults that ONNX's inference takes otherwise than the text says; what is stated, it reads."""

from __future__ import annotations

from collections.abc import Iterable

from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import NodeProto
from opshift.passes.model.traversal import Body, Calls

_TAKEN_OTHERWISE = {"STFT": ("onesided", 1)}
"""By operator: of onnx 1.23.2, held against the outputs of all published cases with and without their defaults."""


def is_mistaken(node: NodeProto) -> bool:
    """Whether a default of the node is taken otherwise."""
    if node.op_type not in _TAKEN_OTHERWISE or node.domain:
        return False
    name, _ = _TAKEN_OTHERWISE[node.op_type]
    return all(attribute.name != name for attribute in node.attribute)


def state_default(node: NodeProto) -> NodeProto:
    """A copy that states it; the node itself where it does already."""
    if not is_mistaken(node):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    state_in_place(copy)
    return copy


def state_in_place(node: NodeProto) -> None:
    """State it in the node itself."""
    node.attribute.append(make_attribute(*_TAKEN_OTHERWISE[node.op_type]))


def state_all(held: Iterable[Body], calls: Calls) -> None:
    """State it in all nodes of these bodies, which call these operators."""
    if any(not domain and op in _TAKEN_OTHERWISE for domain, op in calls):
        for node in [node for body in held for node in body.node if is_mistaken(node)]:
            state_in_place(node)
