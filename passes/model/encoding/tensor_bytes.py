"""A tensor by the head of its bytes: what stands in front of its data, which are skipped and never looked at.

What is not sure to be right by that is left to a look at the message, see `tensor_validity`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import prod
from typing import NamedTuple

from opshift.passes.model import tensor_data, tensor_validity
from opshift.passes.model.encoding.fields import prefix_length, tag, varint
from opshift.passes.model.messages import AttributeProto, NodeProto, TensorProto
from opshift.passes.model.tensor_validity import UNCOUNTED
from opshift.passes.model.types import NUMBERS

_FIELDS = TensorProto.DESCRIPTOR.fields_by_name
_DIM, _TYPE = (_FIELDS[name].number << 3 for name in ("dims", "data_type"))
_FLOATS, _NAME, _RAW = (tag(_FIELDS[name].number)[0] for name in ("float_data", "name", "raw_data"))
_SHORT = 128  # bytes of a name whose length takes one byte
_MUCH = 1 << 16  # numbers, which are not copied more often than it takes to count them
_FIRST = 1024  # tensors
_BITS = {
    elem_type: tensor_data.bits(elem_type)
    for elem_type in NUMBERS.values()
    if elem_type not in (TensorProto.UNDEFINED, TensorProto.STRING)
}

_CONSTANT = NodeProto(op_type="Constant").SerializeToString() + tag(NodeProto.ATTRIBUTE_FIELD_NUMBER)
_VALUE = AttributeProto(name="value").SerializeToString() + tag(AttributeProto.T_FIELD_NUMBER)
_IS_TENSOR = AttributeProto(type=AttributeProto.TENSOR).SerializeToString()


class Head(NamedTuple):
    """Where the float data of a tensor begin and the length of its name stands, 0 for nowhere; where the name ends."""

    floats: int
    name: int
    end: int


def right(data: bytes, at: int, stop: int) -> Head | None:
    """What stands between `at` and `stop`, if that surely is a tensor whose data fit its type and dimensions."""
    count, elem_type, filled = 1, 0, 0
    while at < stop and data[at] == _DIM:
        size, at = varint(data, at + 1)
        count *= size
        if size >= UNCOUNTED or count >= UNCOUNTED:
            return None
    if at < stop and data[at] == _TYPE:
        elem_type, at = varint(data, at + 1)
    bits, floats, name, end = _BITS.get(elem_type), 0, 0, 0
    if bits is None:
        return None
    if at < stop and data[at] == _FLOATS and elem_type == TensorProto.FLOAT:
        filled, floats = varint(data, at + 1)
        at = floats + filled
    if at < stop and data[at] == _NAME:
        name = at + 1
        at = end = sum(varint(data, name))
    if at < stop and data[at] == _RAW and not filled:
        filled, start = varint(data, at + 1)
        at = start + filled
    fits = filled * 8 >= count * bits if count else not filled
    return Head(floats, name, end) if fits and at == stop else None


def is_constant(data: bytes, at: int) -> bool:
    """Whether what stands from `at` on is a Constant of a tensor that surely is right, and nothing else."""
    if not data.startswith(_CONSTANT, at) or not data.endswith(_IS_TENSOR):
        return False
    size, start = varint(data, at + len(_CONSTANT))
    if start + size != len(data) or not data.startswith(_VALUE, start):
        return False
    size, start = varint(data, start + len(_VALUE))
    stop = start + size
    return stop + len(_IS_TENSOR) == len(data) and right(data, start, stop) is not None


def _bytes(tensors: Iterable[TensorProto]) -> Iterator[bytes]:
    """Those of each tensor, or nothing for one that holds much; where the first ones do not, no other is asked."""
    left, found = iter(tensors), False
    for tensor in islice(left, _FIRST):
        much = prod(tensor.dims) > _MUCH
        found |= much
        yield b"" if much else tensor.SerializeToString()
    if not found:
        yield from map(TensorProto.SerializeToString, left)
    for tensor in left:
        yield b"" if prod(tensor.dims) > _MUCH else tensor.SerializeToString()


def names(tensors: Sequence[TensorProto]) -> list[bytes] | None:
    """What tensors are called, as it is spelled; None unless all of them are right, and are called something.

    One that differs from the one before in its name and in the values of its data alone is as right as that.
    """
    found = list[bytes]()
    head, at, tail, others = b"\xff", 0, b"", 0
    for data in _bytes(tensors):
        if data.startswith(head):
            size = len(data) - others
            if 0 < size < _SHORT and data[at] == size and data[at - 1] == _NAME:
                end = at + size + 1
                if not tail or data.startswith(tail, end):
                    found.append(data[at:end])
                    continue
        if (sure := right(data, 0, len(data))) and sure.name:
            at, end = sure.name, sure.end
            head, tail = data[: sure.floats or at], data[end : varint(data, end + 1)[1]] if end < len(data) else b""
            others = at + 1 + len(data) - end
            found.append(data[at:end])
            continue
        tensor = tensors[len(found)]
        if not tensor.name or tensor_validity.fault(tensor):
            return None
        found.append(prefix_length(tensor.name.encode()))
    return None if b"\0" in found else found
