"""What is wrong with tensors, of whose data only the sizes are looked at."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from opshift.passes.model import tensor_data
from opshift.passes.model.encoding.fields import tag, varint
from opshift.passes.model.messages import SparseTensorProto, TensorProto

_DATA_FIELDS = {"float_data", "int32_data", "string_data", "int64_data", "raw_data", "double_data", "uint64_data"}
_TENSOR = TensorProto
_STORED: dict[int, str] = {
    **dict.fromkeys([_TENSOR.FLOAT, _TENSOR.COMPLEX64], "float_data"),
    **dict.fromkeys([_TENSOR.DOUBLE, _TENSOR.COMPLEX128], "double_data"),
    **dict.fromkeys([_TENSOR.UINT32, _TENSOR.UINT64], "uint64_data"),
    _TENSOR.INT64: "int64_data",
    _TENSOR.STRING: "string_data",
}
_PAIRS = {_TENSOR.COMPLEX64, _TENSOR.COMPLEX128}
_KNOWN_TYPES = set(_TENSOR.DataType.values()) - {_TENSOR.UNDEFINED}
_FIELDS = TensorProto.DESCRIPTOR.fields_by_name
_NAME = tag(_FIELDS["name"].number)[0]
_RAW, _FLOATS = (tag(_FIELDS[name].number) for name in ("raw_data", "float_data"))
_NUMBERS = [bytes([_FIELDS[name].number << 3]) for name in ("dims", "data_type")]
_SHORT = 128  # what takes one byte


def names(tensors: Iterable[TensorProto]) -> list[bytes] | None:
    """What tensors are called, as bytes; None unless all of them are surely right, and are called something.

    Of those whose type and sizes are the same one is looked at.
    """
    found, right = list[bytes](), set[tuple[bytes, bytes]]()
    head, between, tail, behind = b"\xff", 0, b"", 0
    for data in map(TensorProto.SerializeToString, tensors):
        if not data.startswith(head):
            head, between = _head(data)
        at = len(head) + between
        end = 0
        if at + 1 < len(data) and data[at] == _NAME:
            start, size = at + 2, data[at + 1]
            if size >= _SHORT:
                size, start = varint(data, at + 1)
            end = start + size
            if end + behind == len(data) and data.startswith(tail, end) and (head, tail) in right:
                found.append(data[start:end])
                continue
        tensor = TensorProto.FromString(data)
        if not tensor.name or fault(tensor):
            return None
        found.append(tensor.name.encode())
        tail, behind = (
            (data[end : varint(data, end + 1)[1]] if 0 < end < len(data) else b""),
            len(data) - end,
        )
        if behind == len(tensor.raw_data) + len(tail) if tail[:1] == _RAW else between and not behind:
            right.add((head, tail))
    return found


def _head(data: bytes) -> tuple[bytes, int]:
    """What stands before a tensor's floats and name, and how many bytes the floats are."""
    at = 0
    while data[at : at + 1] in _NUMBERS:
        at += 2
        while data[at - 1] >= _SHORT:
            at += 1
    if data[at : at + 1] != _FLOATS:
        return data[:at], 0
    size, start = varint(data, at + 1)
    return data[:start], size


def fault(tensor: TensorProto) -> str:
    """What is wrong with a tensor, of whose data only the size is looked at; empty for nothing."""
    kind = tensor.data_type
    if not kind:
        return "has no element type"
    held = [field.name for field, data in tensor.ListFields() if field.name in _DATA_FIELDS and len(data)]
    if tensor_data.is_stored(tensor):
        return _stored_fault(tensor, held)
    if any(dim < 0 for dim in tensor.dims):
        return f"has a negative dimension: {list(tensor.dims)}"
    count = _count(tensor)
    if count >= 1 << 63:
        return f"has more elements than can be counted: {list(tensor.dims)}"
    if not count:
        return f"has no elements, but holds data in {held[0]}" if held else ""
    if len(held) != 1:
        return f"holds data in {' and '.join(held) or 'no field'}; in one they could be"
    if held == ["raw_data"]:
        needed, there = (tensor_data.nbytes(tensor) if kind in _KNOWN_TYPES else 0), len(tensor.raw_data)
        if kind == _TENSOR.STRING:
            return "holds strings as raw data, which cannot be"
        return f"has {there} bytes of data; its shape and type need {needed}" if there < needed else ""
    if kind not in _KNOWN_TYPES:
        return f"is of the unknown element type {kind}"
    field = _STORED.get(kind, "int32_data")
    if held != [field]:
        return f"holds data in {held[0]}; for its type they belong in {field}"
    packed = 32 // tensor_data.bits(kind) if tensor_data.bits(kind) < 8 else 1
    needed = 2 * count if kind in _PAIRS else -(-count // packed)
    there = len(getattr(tensor, field))
    return f"has {there} values in {field}; its shape needs {needed}" if there < needed else ""


def _stored_fault(tensor: TensorProto, held: list[str]) -> str:
    if held:
        return f"is stored externally, but holds data in {held[0]}"
    if not any(entry.key == "location" for entry in tensor.external_data):
        return "is stored externally, but nothing says where"
    if tensor_data.is_embedded(tensor):
        there, needed = tensor_data.place(tensor).length, tensor_data.nbytes(tensor)
        if there is not None and there < needed and tensor.data_type != _TENSOR.STRING:
            return f"has {there} bytes of data; its shape and type need {needed}"
    return ""


def _count(tensor: TensorProto) -> int:
    count = 1
    for dim in tensor.dims:
        count *= dim
    return count


def sparse_fault(sparse: SparseTensorProto) -> str:
    values, indices, dims = sparse.values, sparse.indices, list(sparse.dims)
    if len(values.dims) != 1:
        return f"has values of rank {len(values.dims)}; 1 could be"
    if not dims or min(dims) <= 0:
        return f"has the dimensions {dims}; one or more positive ones could be"
    if not sparse.HasField("indices"):
        return "has values, but no indices" if values.dims[0] else ""
    if indices.data_type != _TENSOR.INT64:
        return "has indices that are not int64"
    if len(indices.dims) not in (1, 2):
        return f"has indices of rank {len(indices.dims)}; 1 or 2 could be"
    if indices.dims[0] != values.dims[0]:
        return f"has {indices.dims[0]} indices for {values.dims[0]} values"
    if len(indices.dims) == 2 and indices.dims[1] != len(dims):
        return f"has indices of {indices.dims[1]} numbers for {len(dims)} dimensions"
    if tensor_data.is_stored(indices):
        return ""
    last = -1
    for index in _places(indices, dims):
        if index <= last:
            return "has indices that are out of range or out of order"
        last = index
    return ""


def _places(indices: TensorProto, dims: list[int]) -> Iterator[int]:
    """Where each value lies among all, -1 for outside."""
    count = _count(indices)
    held = struct.unpack_from(f"<{count}q", indices.raw_data) if indices.raw_data else indices.int64_data[:count]
    width, total = (len(dims), 0) if len(indices.dims) == 2 else (1, _product(dims))
    for start in range(0, count, width):
        place = 0
        for value, dim in zip(held[start : start + width], dims if not total else [total], strict=True):
            if not 0 <= value < dim:
                yield -1
                return
            place = place * dim + value
        yield place


def _product(dims: Iterable[int]) -> int:
    found = 1
    for dim in dims:
        found *= dim
    return found
