"""Fields of messages: what is kept, put and measured of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opshift.passes.model.messages import FunctionProto, GraphProto, NodeProto


def retain(held: Any, kept: Sequence[bool]) -> None:
    """Drop those of a repeated field's messages that are not `kept`; the others are not copied, only moved."""
    flags = iter(kept)
    held.sort(key=lambda _: not next(flags))
    del held[sum(kept) :]


def put(body: GraphProto | FunctionProto, taken: Mapping[int, Sequence[NodeProto | bytes]]) -> None:
    """Put nodes in the places of those at the indices in `taken`; the others are not copied, only moved.

    Bytes stand for a node as the body's field holds it.
    """
    field, nodes = tag(body.NODE_FIELD_NUMBER), body.node
    places: list[int] = []  # where each node goes, first those that are there, then those that are added
    added: list[bytes] = []
    later: list[int] = []
    position, last = 0, sum(map(len, taken.values())) + len(nodes)
    for index in range(len(nodes)):
        made = taken.get(index)
        if made is None:
            places.append(position)
            position += 1
            continue
        places.append(last)
        for node in made:
            if isinstance(node, bytes):
                added.append(node)
            elif node is nodes[index]:
                places[-1] = position
                position += 1
                continue
            else:
                added.append(field + sized(node.SerializeToString()))
            later.append(position)
            position += 1
    if len(later) == position:
        del nodes[:]
        body.MergeFromString(b"".join(added))
        return
    body.MergeFromString(b"".join(added))
    order = iter(places + later)
    nodes.sort(key=lambda _: next(order))
    del nodes[position:]


def tag(number: int) -> bytes:
    """What stands in front of the bytes of a message or text in the field of this number."""
    assert number < 16, "in one byte"
    return bytes([number << 3 | 2])


def length(data: bytes, at: int) -> tuple[int, int]:
    """Where what stands behind the length at `at` begins, and how many bytes it has."""
    size, start = 0, at
    while True:
        size |= (data[at] & 127) << 7 * (at - start)
        at += 1
        if data[at - 1] < _SHORT:
            return at, size


def sized(data: bytes) -> bytes:
    """Bytes behind their length, as a field holds them."""
    size = len(data)
    if size < _SHORT:
        return _LENGTHS[size] + data
    head = bytearray()
    while size >= _SHORT:
        head.append(size & 127 | 128)
        size >>= 7
    return bytes([*head, size]) + data


_SHORT = 128  # what takes one byte
_LENGTHS = [bytes([size]) for size in range(_SHORT)]
