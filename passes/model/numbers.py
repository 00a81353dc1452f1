"""The elements of small constants, without numpy."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod

from opshift.passes.model import tensor_data
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import ELEMENTS

T = TensorProto
FEW = 64
"""Elements of a constant that is a parameter of an operator, not a weight."""


def read(held: TensorProto) -> Sequence[float] | None:
    """The elements of a tensor in order; None for types that are rarely a parameter's, or data that do not fit."""
    elem_type, count = held.data_type, prod(held.dims)
    code = (
        "H" if elem_type == T.BFLOAT16 else ELEMENTS[elem_type].code.replace("?", "B") if elem_type in ELEMENTS else ""
    )
    if tensor_data.is_stored(held) or not code:
        return None
    values: Sequence[float]
    if held.raw_data:
        if len(held.raw_data) != count * struct.calcsize(code):
            return None
        values = struct.unpack(f"<{count}{code}", held.raw_data)
    elif elem_type == T.FLOAT:
        values = held.float_data
    elif elem_type == T.DOUBLE:
        values = held.double_data
    elif elem_type == T.INT64:
        values = held.int64_data
    elif elem_type in (T.UINT32, T.UINT64):
        values = held.uint64_data
    else:
        values = held.int32_data
        if elem_type == T.FLOAT16:
            values = [struct.unpack("<e", struct.pack("<H", bits & 0xFFFF))[0] for bits in values]
    if elem_type == T.BFLOAT16:
        values = [struct.unpack("<f", struct.pack("<I", (int(bits) & 0xFFFF) << 16))[0] for bits in values]
    return values if len(values) == count else None


def single(value: float) -> float:
    """The float32 that is nearest to a number."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def as_written(value: float) -> float:
    """The number of seven digits that is nearest to a float32, which is mostly the one that somebody wrote."""
    return float(f"{value:.7g}")
