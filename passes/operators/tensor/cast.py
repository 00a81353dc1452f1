"""Cast, CastLike and BitCast: names and numbers of types, and values or bits in another type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model import installed
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import NUMBERS, number_name
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined, same
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Changed the attribute to of Cast from a name to a number")
def type_name_to_number(node: Node) -> None:
    name = node.attributes["to"]
    if name.upper() not in NUMBERS:
        raise CannotConvert(node, f"to={name!r}", supported="a name of TensorProto.DataType")
    node.attributes["to"] = NUMBERS[name.upper()]


@says("Changed the attribute to of Cast from a number to a name")
def type_number_to_name(node: Node) -> None:
    node.attributes["to"] = number_name(node.attributes["to"])


@says("Dropped the attribute saturate, which only float8 uses")
def without_saturate(node: Node) -> None:
    node.attributes.pop("saturate", None)


@says("Dropped the attribute round_mode, which only float8e8m0 uses")
def without_round_mode(node: Node) -> None:
    node.attributes.pop("round_mode", None)


@says("Removed a Cast from string to string")
def without_strings(node: Node) -> Replacement:
    elem_types = {node.scope.elem_type(name) for name in (node.input(0), *node.outputs)}
    if elem_types == {T.STRING}:
        return str(node.build.Identity(node.input(0)))
    if T.STRING in elem_types:
        raise CannotConvert(
            node, "the Cast is from or to strings, and no operator of opset 8 converts between numbers and strings"
        )
    return None


@says("Replaced CastLike by Cast")
def cast_to_the_other_type(node: Node) -> str:
    kept = {name: node.attributes[name] for name in node.attributes}
    return str(node.build.Cast(node.input(0), to=node.elem_type(1), **kept))


# --- BitCast ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FloatLayout:
    """How many bits of a float are its exponent and its mantissa, and the integer of the same width."""

    bits: int
    exponent: int
    mantissa: int


FLOATS: dict[int, FloatLayout] = {T.FLOAT: FloatLayout(T.UINT32, 8, 23), T.DOUBLE: FloatLayout(T.UINT64, 11, 52)}
SIGNED: dict[int, int] = {
    T.INT8: T.UINT8,
    T.INT16: T.UINT16,
    T.INT32: T.UINT32,
    T.INT64: T.UINT64,
    NUMBERS["INT4"]: NUMBERS["UINT4"],
    NUMBERS["INT2"]: NUMBERS["UINT2"],
}
UNSIGNED = set(SIGNED.values())
BELOW_A_BYTE = {NUMBERS[name] for name in ("INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1")}


@says("Replaced BitCast by Cast for integers, by a table or arithmetic for floats")
def cast_or_looked_up(node: Node) -> str:
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
        return _look_up(node, SIGNED.get(source, source), to)
    if to in FLOATS and SIGNED.get(source, source) == FLOATS[to].bits:
        return _assemble(node, FLOATS[to], to)
    name, why = number_name, ""
    if not {source, to} & BELOW_A_BYTE and source not in integers:
        why = ", whose NaN bits no older operator can read"
    raise CannotConvert(
        node,
        f"the BitCast goes from {name(source)} to {name(to)}{why}",
        supported="from integers to integers or floats",
    )


def _assemble(node: Node, layout: FloatLayout, to: int) -> str:
    """(1 if exponent, plus mantissa / 2**m) * 2**(exponent - bias), with its sign; no factor is subnormal"""
    import numpy as np

    build, m, bits = node.build, layout.mantissa, layout.bits
    x = node.input(0) if node.elem_type() == bits else build.Cast(node.input(0), to=bits)
    largest, bias = 2**layout.exponent - 1, 2 ** (layout.exponent - 1) - 1
    shifted = build.BitShift(x, build.constant(m, bits), direction="RIGHT")
    exponent = build.Cast(build.BitwiseAnd(shifted, build.constant(largest, bits)), to=T.INT64)
    mantissa = build.BitwiseAnd(x, build.constant(2**m - 1, bits))
    negative = build.Cast(build.BitShift(x, build.constant(m + layout.exponent, bits), direction="RIGHT"), to=T.INT64)
    first = build.constant(np.array([0.0] + [1.0] * largest), to)
    scales = np.ldexp(1.0, np.maximum(np.arange(largest), 1) - bias)
    fraction = build.Mul(build.Cast(mantissa, to=to), build.constant(2.0**-m, to))
    whole = build.Add(fraction, build.Gather(first, exponent))
    number = build.Mul(whole, build.Gather(build.constant(np.append(scales, np.inf), to, "scales"), exponent))
    number = build.Mul(number, build.Gather(build.constant([1.0, -1.0], to), negative))
    rest = build.Cast(mantissa, to=T.BOOL)
    not_a_number = build.And(build.Equal(exponent, largest), rest)
    return str(build.Where(not_a_number, build.constant(float("nan"), to), number))


def _look_up(node: Node, unsigned: int, to: int) -> str:
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

    installed.check_type(elem_type)
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))


changed("Cast", 6, Pair(up=type_name_to_number, down=type_number_to_name))
changed("Cast", 9, Pair(down=without_strings))  # what the text adds on numbers, runtimes did before
same("Cast", 13, "bfloat16 added; the text states what casts out of range yield, as runtimes did before")
changed(["Cast", "CastLike"], 19, Pair(down=without_saturate))
# For an infinity cast to a fnuz type the texts of 19..23 say NaN where 24 says the largest number. That is an
# erratum: no runtime ever made NaN of it.
changed(["Cast", "CastLike"], 24, Pair(down=without_round_mode))
changed("CastLike", 15, Pair(down=cast_to_the_other_type))
defined("CastLike", cast_to_the_other_type)
changed("BitCast", 26, Pair(down=cast_or_looked_up))
