"""ONNX's inference, with integers forgotten where they come back from a narrow type: it takes what a Cast makes for the
same number, whatever the type holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from opshift.passes.model.messages import FunctionProto, ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import bodies
from opshift.passes.model.types import HOLDING_SIZES

_CARRYING = frozenset(["Add", "Concat", "Gather", "Identity", "Mul", "Slice", "Squeeze", "Sub", "Unsqueeze"])
"""The operators that inference follows integers through, whatever their type."""
_FORGETTING = "RandomUniformLike"
"""The operator of which inference tells the same type and shape, and no more."""
_ATTRIBUTES = {"Cast": "to", _FORGETTING: "dtype"}
"""What names the type of a result."""


def rewrite(model: ModelProto) -> Callable[[ModelProto], None] | None:
    """Let Casts back from a narrow type be calls of which inference tells no numbers; returns what takes that back."""
    places = list(_widening(model))
    if not places:
        return None
    _turn(model, places, _FORGETTING)
    return lambda rewritten: _turn(rewritten, places, "Cast")


def _widening(model: ModelProto) -> Iterator[tuple[int, int]]:
    """The places of Casts to a wide type of what may have been narrow: of a body, and of a node in it."""
    held = list(bodies(model))
    if not any(_is_narrowing(node) for body in held for node in body.node):
        return
    called = {(function.domain, function.name) for function in model.functions}
    narrow: set[str] = set()
    for body in held:
        if isinstance(body, FunctionProto):
            narrow.update(body.input)
        for node in body.node:
            carries = not normalize_domain(node.domain) and node.op_type in _CARRYING
            if (
                _is_narrowing(node)
                or (node.domain, node.op_type) in called
                or (carries and not narrow.isdisjoint(node.input))
            ):
                narrow.update(node.output)
    for place, body in enumerate(held):
        for index, node in enumerate(body.node):
            if _is_cast(node) and _type(node) in (0, *HOLDING_SIZES) and not narrow.isdisjoint(node.input):
                yield place, index


def _is_cast(node: NodeProto) -> bool:
    return node.op_type == "Cast" and not normalize_domain(node.domain)


def _is_narrowing(node: NodeProto) -> bool:
    return node.op_type == "Cast" and not normalize_domain(node.domain) and _type(node) not in HOLDING_SIZES


def _type(cast: NodeProto) -> int:
    """The type that a Cast states; 0 where the caller of its function does."""
    return next((a.i for a in cast.attribute if a.name == "to" and not a.ref_attr_name), 0)


def _turn(model: ModelProto, places: Sequence[tuple[int, int]], op: str) -> None:
    """Let the nodes at these places be calls of `op`."""
    held = list(bodies(model))
    for place, index in places:
        node = held[place].node[index]
        for attribute in node.attribute:
            if attribute.name == _ATTRIBUTES[node.op_type]:
                attribute.name = _ATTRIBUTES[op]
        node.op_type = op
