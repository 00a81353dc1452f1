"""What equal constants have in common."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator

from opshift.passes.model import tensor_data, tensors
from opshift.passes.model.messages import TensorProto

_HEAD = 1 << 10  # bytes that tell most tensors apart


def content(tensor: TensorProto) -> object:
    """What two equal constants have in common; None for one of many bytes. Bytes in a file are known by their place."""
    if tensor_data.is_stored(tensor):
        place = sorted((entry.key, entry.value) for entry in tensor.external_data)
        return tensor.data_type, tuple(tensor.dims), tuple(place)
    if tensors.size(tensor) > tensors.SMALL:
        return None
    bare = TensorProto()
    bare.CopyFrom(tensor)
    for field in ("name", "doc_string"):
        bare.ClearField(field)
    return bare.SerializeToString()


def digest(tensor: TensorProto) -> object:
    """The same for one of many bytes that are at hand; None for one whose bytes lie in a file."""
    if tensor_data.is_stored(tensor) or not tensor.raw_data:
        return None
    return tensor.data_type, tuple(tensor.dims), hashlib.blake2b(tensor.raw_data).digest()


def alike(tensors: Iterable[TensorProto]) -> Iterator[TensorProto]:
    """Those that may be equal to another one: they begin as that does, and have its type and dimensions."""
    found: dict[object, list[TensorProto]] = {}
    for tensor in tensors:
        found.setdefault((tensor.data_type, *tensor.dims), []).append(tensor)
    for held in found.values():
        if len(held) > 1:
            heads = [tensor.raw_data[:_HEAD] for tensor in held]
            counts = Counter(heads)
            yield from (tensor for tensor, head in zip(held, heads, strict=True) if counts[head] > 1)
