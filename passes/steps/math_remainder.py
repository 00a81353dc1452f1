"""Mod before it existed."""

from __future__ import annotations

from opshift.passes.build import Builder
from opshift.passes.errors import CannotConvert
from opshift.passes.protos import TensorProto
from opshift.passes.registry import Pair, changed
from opshift.passes.view import Node

T = TensorProto

SMALL_INTEGERS = (T.INT8, T.INT16, T.UINT8, T.UINT16)
UNSIGNED = (T.UINT8, T.UINT16, T.UINT32, T.UINT64)
DIGITS = 28
"""Bits of a quotient found at once: with the 24 of a float32 divisor their product fits the 53 of a double."""
ROUNDS: dict[int, int] = {T.FLOAT16: 2, T.FLOAT: 10}
"""Ratios reach 2**40 for float16 and 2**277 for float32, in digits."""


def remainder_of_division(node: Node) -> str:
    """The remainder becomes a - a / b * b; that of floats, a long division in double."""
    kind, build = node.elem_type(), node.build
    fmod = node.attributes.get("fmod", 0)
    if kind in ROUNDS and fmod:
        return _long_division(node, kind)
    if kind not in (*SMALL_INTEGERS, T.INT32, T.INT64, *UNSIGNED):
        found = "double" if fmod else "floating-point numbers without fmod=1"
        raise CannotConvert(node, f"the remainder of {found}; that of float and float16 could be expressed")
    wide = T.INT32 if kind in SMALL_INTEGERS else kind
    a, b = (_cast(build, name, kind, wide) for name in node.inputs)
    rest = build.Sub(a, build.Mul(build.Div(a, b), b))
    if not fmod and kind not in UNSIGNED:
        zero = build.constant(0, wide)
        apart = build.Xor(build.Less(rest, zero), build.Less(b, zero))
        wrong = build.And(apart, build.Not(build.Equal(rest, zero)))
        rest = build.Where(wrong, build.Add(rest, b), rest)
    return _cast(build, rest, wide, kind)


def _long_division(node: Node, kind: int) -> str:
    """The remainder of |a| by |b| * 2**k is taken by |b| * 2**(k - 28) and so on, down to |b| itself.

    What is left at each round and what is subtracted from it have 52 bits, so that no difference rounds and no
    quotient is rounded up to an integer. An infinite divisor is replaced by a finite one beyond all of the type.
    """
    build = node.build

    def number(value: float) -> str:
        return str(build.constant(value, T.DOUBLE))

    a, b = (build.Cast(name, to=T.DOUBLE) for name in node.inputs)
    rest, size = build.Abs(a), build.Abs(b)
    size = build.Where(build.Less(number(2.0**128), size), number(2.0**129), size)
    for k in reversed(range(ROUNDS[kind])):
        part = build.Mul(size, number(2.0 ** (DIGITS * k))) if k else size
        rest = build.Sub(rest, build.Mul(build.Floor(build.Div(rest, part)), part))
    negative = build.Cast(build.Less(a, number(0.0)), to=T.DOUBLE)
    sign = build.Sub(number(1.0), build.Add(negative, negative))
    return str(build.Cast(build.Mul(rest, sign), to=kind))


def _cast(build: Builder, name: str, kind: int, to: int) -> str:
    return name if kind == to else str(build.Cast(name, to=to))


changed("Mod", 10, Pair(down=remainder_of_division))
