"""What equal constants have in common."""

from __future__ import annotations

import hashlib

from opshift.passes.model import tensor_data, tensors
from opshift.passes.model.messages import TensorProto


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
