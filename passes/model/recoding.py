"""Numbers of one element type as those of another, rounded once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto, TensorProto
from opshift.passes.model.types import tensor_type

if TYPE_CHECKING:
    import numpy as np

T = TensorProto

DTYPES: Mapping[int, str] = {
    **{T.FLOAT: "<f4", T.DOUBLE: "<f8", T.FLOAT16: "<f2", T.BFLOAT16: "<u2"},
    **{T.INT32: "<i4", T.INT64: "<i8"},
}
"""How numpy reads the bytes of each type; bfloat16 as its bits."""


def round_array(array: np.ndarray[Any, Any], target: int) -> np.ndarray[Any, Any]:
    """The numbers of an array rounded once to a type, as an array of that type; bfloat16 as its bits.

    Integers beyond the range become the ends of it.
    """
    import numpy as np

    if target in (T.INT32, T.INT64):
        ends = np.iinfo(DTYPES[target])
        array = np.clip(array, ends.min, ends.max)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return _bfloat16_bits(array) if target == T.BFLOAT16 else array.astype(DTYPES[target])


def widen(array: np.ndarray[Any, Any], elem_type: int) -> np.ndarray[Any, Any]:
    """Numbers of a type as such that numpy has: bfloat16, by its bits, as float32."""
    import numpy as np

    return (array.astype(np.uint32) << np.uint32(16)).view(np.float32) if elem_type == T.BFLOAT16 else array


_MANY = 1 << 18
"""Bytes from which on onnxruntime converts numbers, seven times as fast as numpy."""


def recode_bytes(data: bytes | memoryview, source: int, target: int) -> memoryview:
    """Bytes of numbers of one type as those of another."""
    import numpy as np

    held = np.frombuffer(data, DTYPES[source])
    if len(data) >= _MANY and (source, target) == (T.FLOAT, T.FLOAT16):
        found = _cast(target).run(None, {"x": held})[0]
    else:
        found = round_array(widen(held, source), target)
    return np.ascontiguousarray(found).view(np.uint8).data


@cache
def _cast(target: int) -> Any:
    """A session that casts float32."""
    import onnxruntime

    node = NodeProto(op_type="Cast", input=["x"], output=["y"], attribute=[make_attribute("to", target)])
    graph = GraphProto(name="cast", node=[node])
    for values, name, elem_type in ((graph.input, "x", T.FLOAT), (graph.output, "y", target)):
        values.add(name=name, type=tensor_type(elem_type, [None]))
    model = ModelProto(ir_version=7, graph=graph)
    model.opset_import.add(domain="", version=13)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _bfloat16_bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bits of numbers rounded to bfloat16, to even where two are as near.

    Of float64, a number between two of float32 first goes to the one that is odd, so that it is not rounded twice.
    """
    import numpy as np

    single = np.ascontiguousarray(array, dtype=np.float32)
    bits = single.view(np.uint32)
    if array.dtype == np.float64:
        inexact = (single.astype(np.float64) != array) & np.isfinite(array) & np.isfinite(single)
        toward = np.where(np.abs(single.astype(np.float64)) > np.abs(array), bits - np.uint32(1), bits)
        bits = np.where(inexact, toward | np.uint32(1), bits)
    upper = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    quiet = np.uint16(0x7FC0) | (bits >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(single), quiet, upper.astype(np.uint16))
