"""What is wrong with tensors, of whose data only the sizes are looked at."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from opshift.passes.model import tensor_data
from opshift.passes.model.messages import SparseTensorProto, TensorProto
from opshift.passes.model.types import NUMBERS

_DATA_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "raw_data", "double_data", "uint64_data")
_TENSOR = TensorProto
_STORED: dict[int, str] = {
    **dict.fromkeys([_TENSOR.FLOAT, _TENSOR.COMPLEX64], "float_data"),
    **dict.fromkeys([_TENSOR.DOUBLE, _TENSOR.COMPLEX128], "double_data"),
    **dict.fromkeys([_TENSOR.UINT32, _TENSOR.UINT64], "uint64_data"),
    _TENSOR.INT64: "int64_data",
    _TENSOR.STRING: "string_data",
}
_PAIRS = {_TENSOR.COMPLEX64, _TENSOR.COMPLEX128}
UNCOUNTED = 1 << 63  # elements
_KNOWN_TYPES = set(NUMBERS.values()) - {_TENSOR.UNDEFINED}


def fault(tensor: TensorProto) -> str:
    """What is wrong with a tensor, of whose data only the size is looked at; empty for nothing."""
    elem_type = tensor.data_type
    if not elem_type:
        return "has no element type"
    sizes = {field: size for field in _DATA_FIELDS if (size := len(getattr(tensor, field)))}
    held = [*sizes]
    if tensor_data.is_stored(tensor):
        return _stored_fault(tensor, held)
    if any(dim < 0 for dim in tensor.dims):
        return f"has a negative dimension: {list(tensor.dims)}"
    count = _count(tensor)
    if count >= UNCOUNTED:
        return f"has too many elements: {list(tensor.dims)}"
    unknown = "" if elem_type in _KNOWN_TYPES else f"is of the unknown element type {elem_type}"
    if not count:
        return f"has no elements, but holds data in {held[0]}" if held else unknown
    if len(held) != 1:
        return f"holds data in {' and '.join(held) or 'no field'}; it must be in one field"
    if held == ["raw_data"]:
        needed, there = (0 if unknown else tensor_data.nbytes(tensor)), sizes["raw_data"]
        if elem_type == _TENSOR.STRING:
            return "holds strings as raw_data, which is not allowed"
        return f"has {there} bytes of data; its shape and type need {needed}" if there < needed else ""
    if unknown:
        return unknown
    field = _STORED.get(elem_type, "int32_data")
    if held != [field]:
        return f"holds data in {held[0]}; its type needs {field}"
    packed = {2: 16, 4: 8}.get(tensor_data.bits(elem_type), 1)
    needed = 2 * count if elem_type in _PAIRS else -(-count // packed)
    there = sizes[field]
    return f"has {there} values in {field}; its shape needs {needed}" if there < needed else ""


def _stored_fault(tensor: TensorProto, held: list[str]) -> str:
    if held:
        return f"is external, but holds data in {held[0]}"
    if not any(entry.key == "location" and entry.value for entry in tensor.external_data):
        return "is external, but has no location"
    if tensor_data.is_embedded(tensor):
        there, needed = tensor_data.place(tensor).length, tensor_data.nbytes(tensor)
        if there is not None and there < needed and tensor.data_type != _TENSOR.STRING:
            return f"has {there} bytes of data; its shape and type need {needed}"
    return ""


def _count(tensor: TensorProto) -> int:
    """How many elements a tensor has; at least `UNCOUNTED` if the sizes in front of a 0 are more already."""
    count = 1
    for dim in tensor.dims:
        count *= dim
        if count >= UNCOUNTED:
            break
    return count


def sparse_fault(sparse: SparseTensorProto) -> str:
    values, indices, dims = sparse.values, sparse.indices, list(sparse.dims)
    if len(values.dims) != 1:
        return f"has values of rank {len(values.dims)}; it must be 1"
    if not dims or min(dims) <= 0:
        return f"has the dimensions {dims}; it needs one or more positive ones"
    if not sparse.HasField("indices"):
        return "has values, but no indices" if values.dims[0] else ""
    if indices.data_type != _TENSOR.INT64:
        return "has indices that are not int64"
    if len(indices.dims) not in (1, 2):
        return f"has indices of rank {len(indices.dims)}; it must be 1 or 2"
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
