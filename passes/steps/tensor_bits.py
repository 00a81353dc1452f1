"""BitCast, before the bits of a number could be read as another type."""

from __future__ import annotations

from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.protos import TensorProto
from opshift.passes.registry import Pair, changed
from opshift.passes.view import Node

T = TensorProto

SIGNED: dict[int, int] = {T.INT8: T.UINT8, T.INT16: T.UINT16, T.INT32: T.UINT32, T.INT64: T.UINT64, T.INT4: T.UINT4, T.INT2: T.UINT2}
UNSIGNED = set(SIGNED.values())
BELOW_A_BYTE = {T.INT4, T.UINT4, T.INT2, T.UINT2, T.FLOAT4E2M1}


def cast_or_looked_up(node: Node) -> str:
    """BitCast did not exist: integers of one width are cast, others of up to 16 bits looked up in a table."""
    build, x, source, to = node.build, node.input(0), node.elem_type(), node.attributes["to"]
    held = node.scope.array(x)
    if source == to:
        return str(build.Identity(x))
    if held is not None and not {source, to} & BELOW_A_BYTE:
        return build.constant(held.view(_dtype(to)), to)
    integers = SIGNED.keys() | UNSIGNED
    if {source, to} <= integers and SIGNED.get(source, source) == SIGNED.get(to, to):
        return str(build.Cast(x, to=to))
    if source == T.BOOL and to in (T.INT8, T.UINT8):
        return str(build.Cast(x, to=to))
    if source in (T.INT8, T.UINT8, T.INT16, T.UINT16) and _dtype(source).itemsize == _dtype(to).itemsize:
        return _looked_up(node, SIGNED.get(source, source), to)
    name = T.DataType.Name
    raise CannotConvert(
        node,
        f"the bits of {name(source)} as {name(to)}; integers of one width, or of 8 or 16 bits, could be expressed",
    )


def _looked_up(node: Node, unsigned: int, to: int) -> str:
    """The value of every pattern of bits in a table, which the bits as a number point into."""
    import numpy as np

    build, bits = node.build, _dtype(unsigned)
    table = np.arange(2 ** (8 * bits.itemsize)).astype(bits).view(_dtype(to))
    x = node.input(0)
    place = build.Cast(x if node.elem_type() == unsigned else build.Cast(x, to=unsigned), to=T.INT32)
    return str(build.Gather(build.constant(table, to, "bits"), place, axis=0))


def _dtype(elem_type: int) -> Any:
    import numpy as np
    import onnx.helper

    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))


changed("BitCast", 26, Pair(down=cast_or_looked_up))
