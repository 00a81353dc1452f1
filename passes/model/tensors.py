"""Small constants in and out of `TensorProto`, without numpy where the values are integers."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from opshift.passes.model import installed, numbers, tensor_data
from opshift.passes.model.messages import AttributeProto, NodeProto, TensorProto
from opshift.passes.model.types import ELEMENTS

if TYPE_CHECKING:
    import numpy as np

SMALL = 4096  # elements: a parameter, not a weight


def int64s(values: Sequence[int], dims: Sequence[int] | None = None) -> TensorProto:
    """An int64 tensor; 1-D unless `dims` says otherwise."""
    shape = [len(values)] if dims is None else list(dims)
    raw = struct.pack(f"<{len(values)}q", *values)
    return TensorProto(data_type=TensorProto.INT64, dims=shape, raw_data=raw)


def tensor(values: Any, elem_type: int) -> TensorProto:
    """A tensor of any element type from a number, a (nested) list or an array."""
    code = ELEMENTS[elem_type].code if elem_type in ELEMENTS else ""
    if isinstance(values, (int, float)) and code:
        try:
            return TensorProto(data_type=elem_type, raw_data=struct.pack(f"<{code}", values))
        except (OverflowError, struct.error):  # it does not fit, or is a fraction
            pass
    import numpy as np
    import onnx.helper
    import onnx.numpy_helper

    installed.check_type(elem_type)
    array = np.asarray(values)
    if elem_type == TensorProto.STRING:
        return onnx.numpy_helper.from_array(array.astype(object))
    return onnx.numpy_helper.from_array(array.astype(onnx.helper.tensor_dtype_to_np_dtype(elem_type)))


def size(of: TensorProto) -> int:
    """The number of elements that the dims claim."""
    return prod(of.dims)


def integers(of: TensorProto) -> list[int] | None:
    """The values of an int64 or int32 tensor in order; None for other types and for data that do not fit."""
    found = numbers.read(of) if of.data_type in (TensorProto.INT64, TensorProto.INT32) else None
    return None if found is None else [int(number) for number in found]


def array(of: TensorProto) -> np.ndarray[Any, Any] | None:
    """The tensor as a numpy array; None where its data do not fit its dims, or are not in the message."""
    import onnx.numpy_helper

    if tensor_data.is_stored(of):
        return None
    installed.check_type(of.data_type)
    try:
        return onnx.numpy_helper.to_array(of)
    except (ValueError, TypeError):
        return None


def of_constant(node: NodeProto) -> TensorProto | None:
    """The tensor that a Constant node holds; None for sparse values and references."""
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            return None
        if attribute.name == "value":
            return attribute.t
        if attribute.name == "value_ints":
            return int64s(attribute.ints)
        if attribute.name == "value_int":
            return int64s([attribute.i], [])
        if attribute.name == "value_string":
            return TensorProto(data_type=TensorProto.STRING, string_data=[attribute.s])
        if attribute.name == "value_strings":
            texts = attribute.strings
            return TensorProto(data_type=TensorProto.STRING, dims=[len(texts)], string_data=texts)
        if attribute.name in ("value_float", "value_floats"):
            floats = [attribute.f] if attribute.type == AttributeProto.FLOAT else list(attribute.floats)
            dims = [] if attribute.type == AttributeProto.FLOAT else [len(floats)]
            raw = struct.pack(f"<{len(floats)}f", *floats)
            return TensorProto(data_type=TensorProto.FLOAT, dims=dims, raw_data=raw)
    return None
