"""The element types that values can be given, and which numbers they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opshift.passes.model.messages import TensorProto
from opshift.passes.model.recoding import round_array as round_array
from opshift.passes.model.recoding import widen
from opshift.passes.records import dataclass

if TYPE_CHECKING:
    import numpy as np

T = TensorProto


@dataclass(frozen=True)
class Format:
    """Which numbers a floating-point type holds.

    Attributes:
        name: as users write it.
        most: the largest finite number.
        normal: the least positive number with all bits of precision.
        least: the least positive number.
        integers: all integers up to this one are among its numbers.
    """

    name: str
    most: float
    normal: float
    least: float
    integers: int

    @property
    def vanishes_below(self) -> float:
        """Numbers below this one round to 0, and so does this one."""
        return self.least / 2


FORMATS: Mapping[int, Format] = {
    T.FLOAT16: Format("float16", 65504.0, 2.0**-14, 2.0**-24, 2**11),
    T.BFLOAT16: Format("bfloat16", float.fromhex("0x1.fep127"), 2.0**-126, 2.0**-133, 2**8),
    T.FLOAT: Format("float32", float.fromhex("0x1.fffffep127"), 2.0**-126, 2.0**-149, 2**24),
    T.INT64: Format("int64", 2.0**63, 1.0, 1.0, 2**63),
    T.INT32: Format("int32", 2.0**31, 1.0, 1.0, 2**31),
    T.DOUBLE: Format("float64", float.fromhex("0x1.fffffffffffffp1023"), 2.0**-1022, 2.0**-1074, 2**53),
}

INTEGERS = frozenset((T.INT32, T.INT64))

NAMES: Mapping[str, int] = {
    **{"float16": T.FLOAT16, "fp16": T.FLOAT16, "half": T.FLOAT16, "f16": T.FLOAT16},
    **{"bfloat16": T.BFLOAT16, "bf16": T.BFLOAT16},
    **{"float32": T.FLOAT, "fp32": T.FLOAT, "f32": T.FLOAT, "float": T.FLOAT},
    **{"int64": T.INT64, "int32": T.INT32},
    **{"float64": T.DOUBLE, "fp64": T.DOUBLE, "f64": T.DOUBLE, "double": T.DOUBLE},
}
"""The types that users can name, by all the names that they have for them."""

SOURCES: Mapping[int, tuple[int, ...]] = {
    T.FLOAT16: (T.FLOAT,),
    T.BFLOAT16: (T.FLOAT,),
    T.FLOAT: (T.FLOAT16, T.BFLOAT16),
    T.DOUBLE: (T.FLOAT,),
    T.INT32: (T.INT64,),
    T.INT64: (T.INT32,),
}
"""The types that become one that is named alone: `float16` narrows float32, and leaves float64 as it is."""


def is_narrower(source: int, target: int) -> bool:
    """Whether a type holds fewer numbers than the one that it takes the place of."""
    return not (FORMATS[target].most >= FORMATS[source].most and FORMATS[target].integers >= FORMATS[source].integers)


def as_floats(array: np.ndarray[Any, Any], elem_type: int) -> np.ndarray[Any, Any]:
    """Numbers of a type, bfloat16 as its bits, as float64."""
    import numpy as np

    return widen(array, elem_type).astype(np.float64)
