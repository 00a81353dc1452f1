"""Keep ONNX's inference from following integers through a Cast to a narrow type and back.

Inference takes 300 for 300 behind a Cast to uint8, which holds 44.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from opshift.passes.model.messages import FunctionProto, ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import bodies
from opshift.passes.model.types import HOLDING_SIZES

_CARRYING = frozenset(["Add", "Concat", "Gather", "Identity", "Mul", "Slice", "Squeeze", "Sub", "Unsqueeze"])
"""Operators through which inference follows integers, whatever their type."""
_FORGETTING = "RandomUniformLike"
"""For this operator, inference tells the same type and shape as for Cast, but no numbers."""
_ATTRIBUTES = {"Cast": "to", _FORGETTING: "dtype"}
"""The attribute that names the output's type."""


def rewrite(model: ModelProto) -> Callable[[ModelProto], None] | None:
    """Replace Casts back from a narrow type before inference; returns a function that takes that back."""
    places = list(_widening(model))
    if not places:
        return None
    _turn(model, places, _FORGETTING)
    return lambda rewritten: _turn(rewritten, places, "Cast")


def _widening(model: ModelProto) -> Iterator[tuple[int, int]]:
    """Find Casts to a wide type whose input may have been narrow; yields the places of the body and of the node."""
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
    """Read the type of a Cast; 0 if the caller of its function gives it."""
    return next((a.i for a in cast.attribute if a.name == "to" and not a.ref_attr_name), 0)


def _turn(model: ModelProto, places: Sequence[tuple[int, int]], op: str) -> None:
    """Rename the operators of the nodes at these places to `op`."""
    held = list(bodies(model))
    for place, index in places:
        node = held[place].node[index]
        for attribute in node.attribute:
            if attribute.name == _ATTRIBUTES[node.op_type]:
                attribute.name = _ATTRIBUTES[op]
        node.op_type = op
