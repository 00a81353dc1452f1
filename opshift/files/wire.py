"""The wire format of model files: large tensor data taken out of a file unread, and put back into another.

A model file becomes a *skeleton*: the same message, in which the data fields of every large tensor are replaced by a
reference to where they lie (see `opshift.passes.model.tensor_data`). Everything else is copied as it is, unknown
fields, too.
Only lengths are read on the way, so that the cost depends on the number of nodes and tensors and not on what they hold.
"""

from __future__ import annotations

import os
from functools import cache
from mmap import mmap
from typing import BinaryIO, NamedTuple, cast

from google.protobuf.descriptor import Descriptor

from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensor_data
from opshift.passes.model.messages import ModelProto, TensorProto

LEVELS = 100  # of messages inside messages: protobuf reads no more
LARGE = 32 * 1024  # bytes: what a step may ask for stays in the message

_VARINT, _FIXED64, _BYTES, _START, _END, _FIXED32 = range(6)
_RAW, _FLOATS, _DOUBLES, _TYPE, _LOCATION, _EXTERNAL = (
    TensorProto.DESCRIPTOR.fields_by_name[name].number
    for name in ("raw_data", "float_data", "double_data", "data_type", "data_location", "external_data")
)
# The fields that hold values, and the wire type of one of them on its own.
_DATA = {
    field.number: {"float_data": _FIXED32, "double_data": _FIXED64}.get(field.name, _VARINT)
    if field.GetOptions().packed
    else _BYTES
    for field in TensorProto.DESCRIPTOR.fields
    if field.name.endswith("_data") and field.number != _EXTERNAL
}
# The types whose values have in a message's field the bytes that they have in external data.
_PLAIN = {
    _FLOATS: (TensorProto.FLOAT, TensorProto.COMPLEX64),
    _DOUBLES: (TensorProto.DOUBLE, TensorProto.COMPLEX128),
}

_MODEL = cast(Descriptor, ModelProto.DESCRIPTOR)
_TENSOR = TensorProto.DESCRIPTOR
_RESERVED = tensor_data.FIELDS.encode()

Buffer = bytes | mmap


class Malformed(ValueError):
    """The bytes are no message, and why."""


class Range(NamedTuple):
    """Bytes of a file, of which only the place is known."""

    found: tensor_data.Place
    start: int
    end: int


Piece = bytes | Range


@cache
def _children(kind: Descriptor) -> dict[int, Descriptor]:
    """The fields of a message in which there may be a tensor, at any depth."""
    held = {field.number: field.message_type for field in kind.fields}
    return {number: inner for number, inner in held.items() if inner is not None and _holds_tensors(inner)}


@cache
def _single(kind: Descriptor) -> frozenset[int]:
    """Those of them that a message has at most once."""
    repeated = {field.number for field in kind.fields if field.default_value == []}  # in every version of protobuf
    return frozenset(_children(kind).keys() - repeated)


def _holds_tensors(kind: Descriptor) -> bool:
    seen: set[str] = set()
    pending: list[Descriptor | None] = [kind]
    while pending:
        current = pending.pop()
        if current is None or current.full_name in seen:
            continue
        if current is _TENSOR:
            return True
        seen.add(current.full_name)
        pending += [field.message_type for field in current.fields]
    return False


def _varint(data: Buffer, pos: int) -> tuple[int, int]:
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


def _encoded(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def _skip(data: Buffer, pos: int, tag: int) -> int:
    """Behind the value of a field that holds no message."""
    wire = tag & 7
    if tag < 8:
        raise Malformed("there is no field of number 0")
    if wire == _VARINT:
        return _varint(data, pos)[1]
    if wire == _FIXED64:
        return pos + 8
    if wire == _FIXED32:
        return pos + 4
    if wire == _BYTES:
        length, pos = _varint(data, pos)
        return pos + length
    if wire != _START:
        raise Malformed(f"wire type {wire} does not exist there")
    return _skip_group(data, pos, tag)


def _skip_group(data: Buffer, pos: int, tag: int) -> int:
    """Behind the end of a group, a form that ONNX does not use: unknown fields may."""
    stack = [tag >> 3]
    while stack:
        if len(stack) > LEVELS:
            raise Malformed(_TOO_DEEP)
        tag, pos = _varint(data, pos)
        if tag & 7 == _START:
            stack.append(tag >> 3)
        elif tag & 7 == _END:
            if stack.pop() != tag >> 3:
                raise Malformed("a group ends that did not begin")
        else:
            pos = _skip(data, pos, tag)
    return pos


_TOO_DEEP = f"it is nested deeper than the {LEVELS} levels of messages that protobuf reads"
_TRUNCATED = "it ends in the middle of a field"


# --- out of a file ------------------------------------------------------------------------------------------


def skeleton(data: Buffer, location: str, stamp: str, large: int = LARGE) -> bytes:
    """The model with a reference in the place of all tensor data of more than `large` bytes.

    Raises:
        Malformed: the bytes are no message, as far as they were looked at.
    """
    pieces: list[bytes] = []
    thinning = _Thinning(data, location, stamp, large)
    try:
        thinning.message(0, len(data), _MODEL, pieces, 1)
    except IndexError:
        raise Malformed(_TRUNCATED) from None
    made = b"".join(pieces)
    check_reserved(made, thinning.references)
    return made


def check_reserved(data: bytes, references: int = 0) -> None:
    """Raise `Malformed` for a model that passes off references as made here."""
    if data.count(_RESERVED) != references:
        raise Malformed(f"it holds the text {tensor_data.FIELDS!r}, which is reserved")


class _Thinning:
    def __init__(self, data: Buffer, location: str, stamp: str, large: int):
        self._data = data
        self._location = location
        self._stamp = stamp
        self._large = large
        self.references = 0

    def message(self, pos: int, end: int, kind: Descriptor, pieces: list[bytes], level: int) -> int:
        """Append what is left of a message; returns its length."""
        if level > LEVELS:
            raise Malformed(_TOO_DEEP)
        data, large, children = self._data, self._large, _children(kind)
        begin, known, references = pos, len(pieces), self.references
        single, seen = _single(kind), set[int]()
        copied, total = pos, 0
        while pos < end:
            field = pos
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = _varint(data, field)
            if tag & 7 != _BYTES:
                pos = _skip(data, pos, tag)
                continue
            length = data[pos]
            pos += 1
            if length > 127:
                length, pos = _varint(data, pos - 1)
            start, pos = pos, pos + length
            if single and tag >> 3 in single:
                if tag >> 3 in seen:  # protobuf merges them, values and all: stays as it is
                    del pieces[known:]
                    self.references = references
                    pieces.append(data[begin:end])
                    return end - begin
                seen.add(tag >> 3)
            if length > large and (child := children.get(tag >> 3)) and pos <= end:
                inner: list[bytes] = []
                held = self._held(start, pos, child, inner, level + 1)
                before = data[copied:field] + _encoded(tag) + _encoded(held)
                pieces += [before, *inner]
                total += len(before) + held
                copied = pos
        if pos != end:
            raise Malformed(_TRUNCATED)
        pieces.append(data[copied:end])
        return total + end - copied

    def _held(self, start: int, end: int, kind: Descriptor, pieces: list[bytes], level: int) -> int:
        if kind is _TENSOR:
            found = self._tensor(start, end)
            if found is not None:
                pieces.append(found)
                return len(found)
        return self.message(start, end, kind, pieces, level)

    def _tensor(self, start: int, end: int) -> bytes | None:
        """A tensor with a reference in the place of its data; None if it is to stay as it is."""
        data, pos, copied = self._data, start, start
        rest: list[bytes] = []
        fields: list[tensor_data.Range] = []
        first, count, elem_type = (0, 0, 0), 0, 0
        while pos < end:
            field = pos
            tag, pos = _varint(data, pos)
            number, inside = tag >> 3, pos
            pos = _skip(data, pos, tag)
            if number == _EXTERNAL or (number == _LOCATION and data[inside]):
                return None
            if number == _TYPE and tag & 7 == _VARINT:
                elem_type = _varint(data, inside)[0]
            if number in _DATA:
                if tag & 7 not in (_BYTES, _DATA[number]):  # an unknown field to protobuf
                    return None
                count += 1
                if count == 1 and tag & 7 == _BYTES:
                    first = number, _varint(data, inside)[1], pos
            elif number != _LOCATION:
                continue
            if fields and fields[-1][1] == field:
                fields[-1] = (fields[-1][0], pos)
            else:
                fields.append((field, pos))
                rest.append(data[copied:field])
            copied = pos
        if pos != end:
            raise Malformed(_TRUNCATED)
        if sum(last - first for first, last in fields) <= self._large:
            return None
        self.references += 1
        made = TensorProto()
        tensor_data.mark(made, self._location, self._stamp, fields, _plain(*first, elem_type) if count == 1 else None)
        return b"".join([*rest, data[copied:end], made.SerializeToString()])


def _plain(number: int, start: int, end: int, elem_type: int) -> tensor_data.Range | None:
    """Where the only values lie, if that is in the form of external data."""
    if elem_type == TensorProto.STRING or (number != _RAW and elem_type not in _PLAIN.get(number, ())):
        return None
    return start, end


def complaint(data: Buffer) -> str:
    """What is wrong with bytes that protobuf does not read, in words; empty where nothing more can be said."""
    pending = [(0, len(data), ModelProto.DESCRIPTOR, 1)]
    try:
        while pending:
            pos, end, kind, level = pending.pop()
            if level > LEVELS:
                return _TOO_DEEP
            while pos < end:
                tag, pos = _varint(data, pos)
                child = kind.fields_by_number.get(tag >> 3)
                start, pos = pos, _skip(data, pos, tag)
                if tag & 7 == _BYTES and child is not None and child.message_type is not None:
                    pending.append((_varint(data, start)[1], pos, child.message_type, level + 1))
            if pos != end:
                return _TRUNCATED
    except IndexError:
        return _TRUNCATED
    except Malformed as found:
        return str(found)
    return ""


# --- into a file --------------------------------------------------------------------------------------------


def whole(data: bytes) -> list[Piece]:
    """A serialized skeleton in pieces: bytes, and ranges in the place of the references to them."""
    spots: list[int] = []
    spot = data.find(_RESERVED)
    while spot >= 0:
        spots.append(spot)
        spot = data.find(_RESERVED, spot + 1)
    if not spots:
        return [data]
    pieces: list[Piece] = []
    _grow(data, 0, len(data), _MODEL, spots[::-1], pieces)
    return pieces


def length_of(pieces: list[Piece]) -> int:
    """How many bytes they are in a file."""
    return sum(len(piece) if isinstance(piece, bytes) else piece.end - piece.start for piece in pieces)


def _grow(data: bytes, pos: int, end: int, kind: Descriptor, spots: list[int], pieces: list[Piece]) -> None:
    """Append a message; `spots`, the first one last, are where references may be."""
    children = _children(kind)
    copied = pos
    while pos < end and spots and spots[-1] < end:
        field = pos
        tag = data[pos]
        pos += 1
        if tag > 127:
            tag, pos = _varint(data, field)
        if tag & 7 != _BYTES:
            pos = _skip(data, pos, tag)
            continue
        length = data[pos]
        pos += 1
        if length > 127:
            length, pos = _varint(data, pos - 1)
        start, pos = pos, pos + length
        if spots[-1] >= pos:
            continue
        inner: list[Piece] = []
        if (child := children.get(tag >> 3)) is _TENSOR:
            inner = _with_data(data[start:pos])
        elif child is not None:
            _grow(data, start, pos, child, spots, inner)
        if inner:
            pieces += [data[copied:field], _encoded(tag), _encoded(length_of(inner)), *inner]
            copied = pos
        while spots and spots[-1] < pos:
            spots.pop()
    pieces.append(data[copied:end])


def _with_data(data: bytes) -> list[Piece]:
    tensor = TensorProto.FromString(data)
    if not tensor_data.is_embedded(tensor):
        return [data]
    found = tensor_data.place(tensor)
    del tensor.external_data[:]
    tensor.ClearField("data_location")
    head = tensor.SerializeToString()
    if found.fields:
        return [head, *(Range(found, start, end) for start, end in found.fields)]
    size = found.length or 0  # external data that are to be embedded
    tag = _encoded(_RAW << 3 | _BYTES) + _encoded(size)
    return [head, tag, Range(found, found.offset, found.offset + size)]


_FALL_BACK = {"EXDEV", "ENOSYS", "EINVAL", "EOPNOTSUPP", "EPERM", "EBADF", "ETXTBSY"}
_CHUNK = 1 << 20


def copy_range(source: int, target: int, start: int, end: int) -> None:
    """Append bytes of one open file to another, in the kernel where it can.

    Raises:
        OSError: as the system does, or because the file ends before `end`.
    """
    copy = _in_kernel
    while start < end:
        done = copy(source, target, start, end - start)
        if done is None:
            copy = _by_hand
            continue
        if not done:
            raise OSError(0, "the file ended while it was copied")
        start += done


def _in_kernel(source: int, target: int, start: int, count: int) -> int | None:
    import errno

    if not hasattr(os, "copy_file_range"):
        return None
    try:
        return os.copy_file_range(source, target, min(count, 1 << 30), start) or None
    except OSError as error:
        if errno.errorcode.get(error.errno or 0) in _FALL_BACK:
            return None
        raise


def _by_hand(source: int, target: int, start: int, count: int) -> int | None:
    data = os.pread(source, min(count, _CHUNK), start)
    write_all(target, data)
    return len(data)


def write_all(target: int, data: bytes) -> None:
    """Append bytes to an open file."""
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


class Sources:
    """The files in a folder that data are copied from, each opened once. Used as a context."""

    def __init__(self, folder: str | os.PathLike[str]):
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}

    def open(self, found: tensor_data.Place) -> int:
        """The descriptor of a place's file; raises `InvalidModel` where it is not safe, not there, or has changed."""
        if found.location not in self._files:
            self._files[found.location] = tensor_data.opened(self._folder, found)
        file = self._files[found.location]
        if problem := tensor_data.misfit(found, os.fstat(file.fileno())):
            raise InvalidModel(problem)
        return file.fileno()

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()
