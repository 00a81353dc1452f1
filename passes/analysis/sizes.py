"""Find the size along one axis by the nodes nearby, as `ranks.py` finds ranks: a Conv has as many channels as kernels.

This answers most questions about one axis, so that types of the whole model need not be inferred. Axes are negative:
they are counted from the end.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from opshift.passes.analysis import ranks
from opshift.passes.analysis.knowledge import KnownBody
from opshift.passes.analysis.ranks import certain_dims, read_held_integers, read_ints_attribute
from opshift.passes.model.messages import NodeProto


def size(scope: KnownBody, name: str, axis: int) -> int | None:
    """Find the size of a tensor along an axis; None if the nodes nearby do not tell it."""
    look = _SizeLook()
    return look.size(scope, name, axis) if axis < 0 else look.size_from_front(scope, name, axis)


class _SizeLook(ranks.RankLook):
    """Answers one question, and looks at few nodes."""

    def size_from_front(self, scope: KnownBody, name: str, axis: int) -> int | None:
        """Find the size along an axis that is counted from the front."""
        rank = self.rank(scope, name)
        return None if rank is None or not 0 <= axis < rank else self.size(scope, name, axis - rank)

    def size(self, scope: KnownBody, name: str, axis: int) -> int | None:
        owner = scope.owner(name) if name else None
        if owner is None:
            return None
        if (dims := certain_dims(owner, name)) is not None:
            found = dims[axis] if -axis <= len(dims) else None
            return found if isinstance(found, int) else None
        made = self.maker(owner, name)
        if made is None:
            return None
        node, opset = made
        if node.op_type in ranks.SIZED_AS_THE_FIRST:
            return self.size(owner, node.input[0], axis)
        if node.op_type in ranks.BROADCAST:
            return self._broadcast(owner, node, axis) if opset >= ranks.BROADCAST_SINCE else None
        return _SIZES[node.op_type](self, owner, node, axis) if node.op_type in _SIZES else None

    def _broadcast(self, owner: KnownBody, node: NodeProto, axis: int) -> int | None:
        """Return the first size of an operand that is not 1: all other operands have this size, or 1."""
        sizes = (self.size(owner, name, axis) for name in node.input)
        return next((found for found in sizes if found is not None and found != 1), None)


def _size_of_transpose(look: _SizeLook, owner: KnownBody, node: NodeProto, axis: int) -> int | None:
    order = read_ints_attribute(node, "perm")
    if not order or -axis > len(order):
        return None
    return look.size(owner, node.input[0], order[axis] - len(order))


def _size_of_conv(look: _SizeLook, owner: KnownBody, node: NodeProto, axis: int) -> int | None:
    """Find the number of channels, which is the number of kernels; None for other axes."""
    rank = look.rank(owner, node.input[1])
    return look.size(owner, node.input[1], -rank) if rank and axis == 1 - rank else None


def _product(look: _SizeLook, owner: KnownBody, node: NodeProto, axis: int) -> int | None:
    lowest = min((look.rank(owner, name) or 0 for name in node.input), default=0)
    return look.size(owner, node.input[axis], axis) if lowest > 1 and axis in (-1, -2) else None


def _size_of_reshape(look: _SizeLook, owner: KnownBody, node: NodeProto, axis: int) -> int | None:
    asked = read_held_integers(owner, node.input[1]) if len(node.input) == 2 else None
    if not asked or -axis > len(asked) or _integer(node, "allowzero") != 0:
        return None
    if asked[axis] > 0:
        return asked[axis]
    if asked[axis] == 0:
        return look.size_from_front(owner, node.input[0], len(asked) + axis)
    kept = [place for place, number in enumerate(asked) if number == 0]
    rank = look.rank(owner, node.input[0])
    left = [look.size_from_front(owner, node.input[0], place) for place in range(rank or 0) if place not in kept]
    known, given = [number for number in left if number is not None], prod(n for n in asked if n > 0)
    return prod(known) // given if left and len(known) == len(left) and 0 not in known else None


def _size_of_slice(look: _SizeLook, owner: KnownBody, node: NodeProto, axis: int) -> int | None:
    bounds = [read_held_integers(owner, name) for name in node.input[1:]]
    rank = look.rank(owner, node.input[0])
    if not rank or not 3 <= len(bounds) <= 4:
        return None
    starts, ends, axes, steps = (*bounds, [1] * len(bounds[0] or ()))[:4]
    if starts is None or ends is None or axes is None or steps is None or any(step < 1 for step in steps):
        return None
    whole = look.size(owner, node.input[0], axis)
    cuts = [cut for at, *cut in zip(axes, starts, ends, steps, strict=False) if at % rank == axis % rank]
    return len(range(whole)[slice(*cuts[0])]) if whole is not None and cuts else whole


def _size_of_gather(look: _SizeLook, owner: KnownBody, node: NodeProto, axis: int) -> int | None:
    data, indices = (look.rank(owner, name) for name in node.input)
    at = _integer(node, "axis")
    if not data or indices is None or at is None:
        return None
    at, place = at % data, axis + data + indices - 1
    if at <= place < at + indices:
        return look.size_from_front(owner, node.input[1], place - at)
    return look.size_from_front(owner, node.input[0], place if place < at else place - indices + 1)


def _state_size(look: _SizeLook, owner: KnownBody, node: NodeProto, axis: int) -> int | None:
    """Find the hidden size or the number of directions of a recurrent operator; None for other axes."""
    if axis not in (-1, -3) or _integer(node, "layout") != 0:
        return None
    return look.size(owner, node.input[2 if axis == -1 else 1], axis)


def _integer(node: NodeProto, name: str) -> int | None:
    """Read an attribute with the default 0; None if the caller of the function around gives it."""
    return next((None if a.ref_attr_name else a.i for a in node.attribute if a.name == name), 0)


_SIZES: dict[str, Callable[[_SizeLook, KnownBody, NodeProto, int], int | None]] = {
    "Conv": _size_of_conv,
    "GRU": _state_size,
    "Gather": _size_of_gather,
    "LSTM": _state_size,
    "MatMul": _product,
    "RNN": _state_size,
    "Reshape": _size_of_reshape,
    "Slice": _size_of_slice,
    "Transpose": _size_of_transpose,
}
