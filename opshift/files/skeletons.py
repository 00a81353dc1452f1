"""Large tensor data, taken out of a model file unread, and put back into another.

A model file becomes a *skeleton*: the same message, in which the data fields of every large tensor are replaced by a
reference to where they lie (see `opshift.passes.model.tensor_data`). Everything else is copied as it is, unknown
fields, too.
Only lengths are read on the way, so that the cost depends on the number of nodes and tensors and not on what they hold.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from opshift.files.wire import (
    BYTES,
    FIXED32,
    FIXED64,
    LEVELS,
    MODEL,
    TENSOR,
    TOO_DEEP,
    TRUNCATED,
    VARINT,
    Buffer,
    children,
    fields,
    single,
)
from opshift.passes.model import tensor_data
from opshift.passes.model.encoding.fields import Malformed, encode_number, varint
from opshift.passes.model.messages import AttributeProto, ModelProto, TensorProto

_ATTRIBUTE = AttributeProto.DESCRIPTOR
_LISTS = {AttributeProto.FLOATS_FIELD_NUMBER, AttributeProto.INTS_FIELD_NUMBER, AttributeProto.STRINGS_FIELD_NUMBER}
LARGE = 32 * 1024  # bytes: what a step may ask for stays in the message

_RAW, _FLOATS, _DOUBLES, _TYPE, _LOCATION, _EXTERNAL = (
    TensorProto.DESCRIPTOR.fields_by_name[name].number
    for name in ("raw_data", "float_data", "double_data", "data_type", "data_location", "external_data")
)
# The fields that hold values, and the wire type of one of them on its own.
_DATA = {
    field.number: BYTES
    if field.cpp_type == field.CPPTYPE_STRING
    else {"float_data": FIXED32, "double_data": FIXED64}.get(field.name, VARINT)
    for field in TensorProto.DESCRIPTOR.fields
    if field.name.endswith("_data") and field.number != _EXTERNAL
}
# The types whose values have in a message's field the bytes that they have in external data.
_PLAIN = {
    _FLOATS: (TensorProto.FLOAT, TensorProto.COMPLEX64),
    _DOUBLES: (TensorProto.DOUBLE, TensorProto.COMPLEX128),
}

_RESERVED = tensor_data.FIELDS.encode()


class ByteRange(NamedTuple):
    """Bytes of a file, of which only the place is known."""

    found: tensor_data.DataPlace
    start: int
    end: int


class Recoded(NamedTuple):
    """Numbers in a file, of which only the place is known, and that get another type on the way."""

    found: tensor_data.DataPlace
    size: int
    target: int


Piece = bytes | ByteRange | Recoded


# --- out of a file ------------------------------------------------------------------------------------------


def skeleton(data: Buffer, location: str, stamp: str, large: int = LARGE) -> bytes:
    """The model with a reference in the place of all tensor data of more than `large` bytes.

    Raises:
        Malformed: the bytes are no message, as far as they were looked at.
    """
    pieces: list[bytes] = []
    thinning = _Thinning(data, location, stamp, large)
    try:
        thinning.message(0, len(data), MODEL, pieces, 1)
    except IndexError:
        raise Malformed(TRUNCATED) from None
    made = b"".join(pieces)
    check_reserved(made, thinning.references)
    return made


def check_reserved(data: bytes, references: int = 0) -> None:
    """Raise `Malformed` for a model that passes off references as made here."""
    if data.count(_RESERVED) != references:
        raise Malformed(f"it contains the reserved text {tensor_data.FIELDS!r}")


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
            raise Malformed(TOO_DEEP)
        if kind is _ATTRIBUTE and _is_list(self._data, pos, end):
            pieces.append(self._data[pos:end])
            return end - pos
        data, large, holding, once = self._data, self._large, children(kind), single(kind)
        known, references, seen = len(pieces), self.references, set[int]()
        copied, total = pos, 0
        for tag, begin, start, stop in fields(data, pos, end):
            if tag & 7 != BYTES:
                continue
            if once and tag >> 3 in once:
                if tag >> 3 in seen:  # protobuf merges them, values and all: stays as it is
                    del pieces[known:]
                    self.references = references
                    pieces.append(data[pos:end])
                    return end - pos
                seen.add(tag >> 3)
            if stop - start > large and (child := holding.get(tag >> 3)) and stop <= end:
                inner: list[bytes] = []
                held = self._thin(start, stop, child, inner, level + 1)
                before = data[copied:begin] + encode_number(tag) + encode_number(held)
                pieces += [before, *inner]
                total += len(before) + held
                copied = stop
        pieces.append(data[copied:end])
        return total + end - copied

    def _thin(self, start: int, end: int, kind: Descriptor, pieces: list[bytes], level: int) -> int:
        if kind is TENSOR:
            found = self._tensor(start, end)
            if found is not None:
                pieces.append(found)
                return len(found)
        return self.message(start, end, kind, pieces, level)

    def _tensor(self, start: int, end: int) -> bytes | None:
        """A tensor with a reference in the place of its data; None if it is to stay as it is."""
        data, copied = self._data, start
        rest: list[bytes] = []
        taken: list[tensor_data.Range] = []
        only, count, elem_type = (0, 0, 0), 0, 0
        for tag, begin, inside, stop in fields(data, start, end):
            number = tag >> 3
            if number == _EXTERNAL or (number == _LOCATION and (tag & 7 != VARINT or data[inside])):
                return None
            if number == _TYPE and tag & 7 == VARINT:
                elem_type = varint(data, inside)[0]
            if number in _DATA:
                if tag & 7 not in (BYTES, _DATA[number]):  # an unknown field to protobuf
                    return None
                count += 1
                if count == 1 and tag & 7 == BYTES:
                    only = number, inside, stop
            elif number != _LOCATION:
                continue
            if taken and taken[-1][1] == begin:
                taken[-1] = (taken[-1][0], stop)
            else:
                taken.append((begin, stop))
                rest.append(data[copied:begin])
            copied = stop
        if sum(last - first for first, last in taken) <= self._large:
            return None
        self.references += 1
        made = TensorProto()
        tensor_data.mark(made, self._location, self._stamp, taken, _plain(*only, elem_type) if count == 1 else None)
        return b"".join([*rest, data[copied:end], made.SerializeToString()])


def _is_list(data: Buffer, start: int, end: int) -> bool:
    """Find attributes that protobuf parses faster: those that begin with a list of numbers or strings, without tensors.

    A tree ensemble has lists of millions. protobuf reads them at once, which takes seconds here, field by field.
    """
    if not any(tag >> 3 in _LISTS for tag, *_ in islice(fields(data, start, end), 8)):
        return False
    try:
        attribute = AttributeProto.FromString(data[start:end])
    except DecodeError:
        return False
    return children(_ATTRIBUTE).keys().isdisjoint(field.number for field, _ in attribute.ListFields())


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
                return TOO_DEEP
            for tag, _, start, stop in fields(data, pos, end):
                child = kind.fields_by_number.get(tag >> 3)
                if tag & 7 == BYTES and child is not None and child.message_type is not None:
                    pending.append((start, stop, child.message_type, level + 1))
    except IndexError:
        return TRUNCATED
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
    _grow(data, 0, len(data), MODEL, spots[::-1], pieces)
    return pieces


def length_of(pieces: list[Piece]) -> int:
    """How many bytes they are in a file."""
    return sum(map(size_of, pieces))


def size_of(piece: Piece) -> int:
    """How many bytes a piece is in a file."""
    if isinstance(piece, ByteRange):
        return piece.end - piece.start
    return piece.size if isinstance(piece, Recoded) else len(piece)


def _grow(data: bytes, pos: int, end: int, kind: Descriptor, spots: list[int], pieces: list[Piece]) -> None:
    """Append a message; `spots`, the first one last, are where references may be."""
    holding = children(kind)
    copied = pos
    for tag, begin, start, stop in fields(data, pos, end):
        if not spots or spots[-1] >= end:
            break
        if spots[-1] >= stop or tag & 7 != BYTES:
            continue
        inner: list[Piece] = []
        if (child := holding.get(tag >> 3)) is TENSOR:
            inner = _with_data(data[start:stop])
        elif child is not None:
            _grow(data, start, stop, child, spots, inner)
        if inner:
            pieces += [data[copied:begin], encode_number(tag), encode_number(length_of(inner)), *inner]
            copied = stop
        while spots and spots[-1] < stop:
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
        return [head, *(ByteRange(found, start, end) for start, end in found.fields)]
    if found.source:
        whole = tensor_data.nbytes(tensor)
        return [head, encode_number(_RAW << 3 | BYTES) + encode_number(whole), Recoded(found, whole, tensor.data_type)]
    size = found.length or 0  # external data that are to be embedded
    tag = encode_number(_RAW << 3 | BYTES) + encode_number(size)
    return [head, tag, ByteRange(found, found.offset, found.offset + size)]
