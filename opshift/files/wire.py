"""The wire format of messages: tags, lengths, and what lies behind them, of bytes that nobody has parsed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from mmap import mmap
from typing import cast

from google.protobuf.descriptor import Descriptor

from opshift.passes.model.encoding.fields import Malformed, varint
from opshift.passes.model.messages import ModelProto, TensorProto

LEVELS = 100  # of messages inside messages: protobuf reads no more
VARINT, FIXED64, BYTES, START, END, FIXED32 = range(6)
TOO_DEEP = f"it is nested deeper than {LEVELS} levels, which protobuf does not read"
TRUNCATED = "it ends in the middle of a field: the file is truncated"

MODEL = cast(Descriptor, ModelProto.DESCRIPTOR)
TENSOR = TensorProto.DESCRIPTOR

Buffer = bytes | mmap
Field = tuple[int, int, int, int]
"""The tag of a field, where it begins, where its value does (that of bytes behind their length), and where it ends."""


def fields(data: Buffer, pos: int, end: int) -> Iterator[Field]:
    """The fields of a message, in their order; raises `Malformed` or `IndexError` where they do not end at `end`."""
    while pos < end:
        begin = pos
        tag = data[pos]
        pos += 1
        if tag > 127:
            tag, pos = varint(data, begin)
        start = pos
        if tag & 7 == BYTES and tag > 7:
            length = data[pos]
            start = pos + 1
            if length > 127:
                length, start = varint(data, pos)
            pos = start + length
        else:
            pos = _skip(data, pos, tag)
        yield tag, begin, start, pos
    if pos != end:
        raise Malformed(TRUNCATED)


@cache
def children(kind: Descriptor) -> dict[int, Descriptor]:
    """The fields of a message in which there may be a tensor, at any depth."""
    held = {field.number: field.message_type for field in kind.fields}
    return {number: inner for number, inner in held.items() if inner is not None and _holds_tensors(inner)}


@cache
def single(kind: Descriptor) -> frozenset[int]:
    """Those of them that a message has at most once."""
    repeated = {field.number for field in kind.fields if field.default_value == []}  # in every version of protobuf
    return frozenset(children(kind).keys() - repeated)


def _holds_tensors(kind: Descriptor) -> bool:
    seen: set[str] = set()
    pending: list[Descriptor | None] = [kind]
    while pending:
        current = pending.pop()
        if current is None or current.full_name in seen:
            continue
        if current is TENSOR:
            return True
        seen.add(current.full_name)
        pending += [field.message_type for field in current.fields]
    return False


def _skip(data: Buffer, pos: int, tag: int) -> int:
    """Behind the value of a field."""
    wire = tag & 7
    if tag < 8:
        raise Malformed("a field has number 0")
    if wire == VARINT:
        return varint(data, pos)[1]
    if wire == FIXED64:
        return pos + 8
    if wire == FIXED32:
        return pos + 4
    if wire == BYTES:
        length, pos = varint(data, pos)
        return pos + length
    if wire != START:
        raise Malformed(f"wire type {wire} does not exist there")
    return _skip_group(data, pos, tag)


def _skip_group(data: Buffer, pos: int, tag: int) -> int:
    """Behind the end of a group, a form that ONNX does not use: unknown fields may."""
    stack = [tag >> 3]
    while stack:
        if len(stack) > LEVELS:
            raise Malformed(TOO_DEEP)
        tag, pos = varint(data, pos)
        if tag & 7 == START:
            stack.append(tag >> 3)
        elif tag & 7 == END:
            if stack.pop() != tag >> 3:
                raise Malformed("a group ends that did not begin")
        else:
            pos = _skip(data, pos, tag)
    return pos
