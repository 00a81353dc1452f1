"""Types in which others are computed: each holds every value of those, or its results are rounded once."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import BFLOAT16, carrier_casts
from opshift.passes.rewrite.registry import Pair

T = TensorProto

SMALL_INTEGERS: tuple[int, ...] = (T.INT8, T.INT16, T.UINT8, T.UINT16)
HELD_BY_FLOATS: dict[int, int] = {**dict.fromkeys(SMALL_INTEGERS, T.FLOAT), T.INT32: T.DOUBLE, T.UINT32: T.DOUBLE}

INTEGERS_AS_DOUBLE: dict[int, int] = dict.fromkeys(
    (T.BOOL, T.INT8, T.INT16, T.INT32, T.UINT8, T.UINT16, T.UINT32), T.DOUBLE
)
# Integers that are multiplied by 0 and 1, and the types that multiplication takes.
MULTIPLIED: dict[int, int] = {
    T.INT8: T.INT32,
    T.INT16: T.INT32,
    T.UINT8: T.INT32,
    T.UINT16: T.INT32,
    T.UINT32: T.INT64,
    T.INT32: T.INT32,
    T.INT64: T.INT64,
    T.UINT64: T.UINT64,
}

ROUNDED = Pair(down=carrier_casts(BFLOAT16, why="bfloat16 is computed in float and rounded once"))
bfloat16_in_float = carrier_casts(BFLOAT16, why="bfloat16 is computed in float32")
