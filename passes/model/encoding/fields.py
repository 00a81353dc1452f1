"""Fields of messages: what is kept, put and measured of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from mmap import mmap
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
                added.append(field + prefix_length(node.SerializeToString()))
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


def prefix_length(data: bytes) -> bytes:
    """Bytes behind their length, as a field holds them."""
    length = len(data)
    return (_LENGTHS[length] if length < len(_LENGTHS) else encode_number(length)) + data


_LENGTHS = [bytes([length]) for length in range(128)]


class Malformed(ValueError):
    """The bytes are no message, and why."""


def encode_number(value: int) -> bytes:
    """A number of varying length."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def varint(data: bytes | mmap, pos: int) -> tuple[int, int]:
    """The number of varying length at a place, and the place behind it."""
    byte = data[pos]
    if byte < 128:
        return byte, pos + 1
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, pos
        shift += 7
        if shift > 63:
            raise Malformed("a number is longer than 10 bytes")
