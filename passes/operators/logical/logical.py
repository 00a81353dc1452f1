"""Comparisons, which took fewer and fewer types the older they are, and shifts."""

from __future__ import annotations

from typing import Any

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.broadcast import LEGACY
from opshift.passes.operators.shared.recipes import carried
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto

SMALL_INTEGERS = (T.INT8, T.INT16, T.UINT8, T.UINT16)
WIDENED: dict[int, int] = {T.INT8: T.INT32, T.INT16: T.INT32, T.UINT8: T.UINT32, T.UINT16: T.UINT32}
SIGNED: dict[int, int] = {T.INT8: T.UINT8, T.INT16: T.UINT16, T.INT32: T.UINT32, T.INT64: T.UINT64}
BITS: dict[int, int] = {
    **dict.fromkeys((T.INT8, T.UINT8), 8),
    **dict.fromkeys((T.INT16, T.UINT16), 16),
    **dict.fromkeys((T.INT32, T.UINT32), 32),
    **dict.fromkeys((T.INT64, T.UINT64), 64),
}
INT64_MAX = 2**63 - 1


@says("Only bool, int32 and int64 were allowed: smaller integers are cast, others equal if neither is less.")
def equal_numbers(node: Node) -> Replacement:
    kind, build = node.elem_type(), node.build
    if kind in (T.BOOL, T.INT32, T.INT64):
        return None
    if kind in SMALL_INTEGERS or kind == T.UINT32:
        return carried({**dict.fromkeys(SMALL_INTEGERS, T.INT32), T.UINT32: T.INT64})(node)
    a, b = node.inputs
    equal = build.Not(build.Or(build.Less(a, b), build.Greater(a, b)))
    if kind != T.UINT64:
        numbers = [_is_number(build, operand, kind) for operand in (a, b)]
        equal = build.And(equal, build.And(*numbers))
    return str(equal)


def _is_number(build: Builder, x: str, kind: int) -> str:
    """A NaN is neither less than one nor greater than zero."""
    return str(build.Or(build.Less(x, build.constant(1, kind)), build.Greater(x, build.constant(0, kind))))


@says("Strings were not allowed: they are equal where their places in the list of distinct strings are.")
def equal_strings(node: Node) -> Replacement:
    if node.elem_type() != T.STRING:
        return None
    build = node.build
    flat = build.Concat(*(build.Reshape(name, [-1]) for name in node.inputs), axis=0)
    places = build.emit("Unique", [flat], outputs=3)[2]
    split = build.Reshape(build.Size(node.input(0)), [1])
    parts = [build.Slice(places, [0], split), build.Slice(places, split, [INT64_MAX])]
    return str(build.Equal(*(_shaped_like(node, *pair) for pair in zip(parts, node.inputs, strict=True))))


def _shaped_like(node: Node, value: str, like: str) -> str:
    dims = node.scope.shape(like)
    filled = dims is not None and all(isinstance(dim, int) and dim > 0 for dim in dims)
    return str(node.build.Reshape(value, node.build.Shape(like), allowzero=None if filled else 1))


@says("Integers were not allowed: 32 bits are compared as double, 64 bits as two halves, higher first.")
def ordered_integers(node: Node) -> Replacement:
    kind, build, op = node.elem_type(), node.build, node.op_type
    if any(_survives_rounding(node.scope.array(name)) for name in node.inputs):
        return carried(dict.fromkeys(BITS, T.DOUBLE))(node)
    if kind not in (T.INT64, T.UINT64):
        return carried(dict.fromkeys((*SMALL_INTEGERS, T.INT32, T.UINT32), T.DOUBLE))(node)
    half = build.constant(2**32, kind)
    high = [build.Div(name, half) for name in node.inputs]  # rounds towards zero; the rest has the sign of the whole
    low = [build.Sub(n, build.Mul(h, half)) for n, h in zip(node.inputs, high, strict=True)]
    (high_a, high_b), (low_a, low_b) = ([build.Cast(part, to=T.DOUBLE) for part in parts] for parts in (high, low))
    tied = build.Equal(*(build.Cast(part, to=T.INT64) for part in high))
    return str(build.Or(build.emit(op, [high_a, high_b]), build.And(tied, build.emit(op, [low_a, low_b]))))


def _survives_rounding(held: Any) -> bool:
    """Whether each number is on the same side of a constant before and after all are rounded to double."""
    return held is not None and held.dtype.kind in "iu" and bool(((held > -(2**53)) & (held < 2**53)).all())


@says("Signed integers and shifts by all bits or more had no defined result; it is computed.")
def defined_shift(node: Node) -> Replacement:
    """Unsigned, a shift by all bits leaves 0. To the right, a negative x is shifted as ~x, and inverted back:
    sign = 0 or -1;  ~x or x = (x - sign) * (1 + 2 * sign);  x >> y = (~x or x) >> y * (1 + 2 * sign) + sign
    """
    kind, build = node.elem_type(), node.build
    held = node.scope.array(node.input(1))
    short = held is not None and bool(((held >= 0) & (held < BITS[kind])).all())
    if short and kind not in SIGNED:
        return None
    wide = WIDENED.get(kind, kind)
    unsigned = SIGNED.get(wide, wide)
    x, count = (_cast(build, name, kind, wide) for name in node.inputs)
    count = _cast(build, count, wide, unsigned)
    sign = None
    if kind in SIGNED and node.attributes["direction"] == "RIGHT":
        sign = build.Neg(build.Cast(build.Less(x, build.constant(0, wide)), to=wide))
        factor = build.Add(build.Add(sign, sign), build.constant(1, wide))
        x = build.Mul(build.Sub(x, sign), factor)
    shifted = build.again(node.proto, [_cast(build, x, wide, unsigned), count])
    if not short:
        inside = build.Less(count, build.constant(BITS[unsigned], unsigned))
        shifted = build.Mul(shifted, build.Cast(inside, to=unsigned))
    if sign is not None:
        shifted = build.Add(build.Mul(_cast(build, shifted, unsigned, wide), factor), sign)
        unsigned = wide
    return _cast(build, shifted, unsigned, kind)


def _cast(build: Builder, name: str, kind: int, to: int) -> str:
    return name if kind == to else str(build.Cast(name, to=to))


@says("The comparison becomes Or(Greater(a, b), Equal(a, b)), or the same with Less; both are false for NaN.")
def ordered_or_equal(node: Node) -> str:
    build, operands = node.build, node.inputs
    strict = build.emit(node.op_type.removesuffix("OrEqual"), operands)
    return str(build.Or(strict, build.Equal(*operands)))


ORDER = ["Greater", "Less"]

changed(["And", "Or", "Xor", "Equal", *ORDER], 7, LEGACY)
changed("Equal", 11, Pair(down=equal_numbers))
changed("Equal", 19, Pair(down=equal_strings))
changed(ORDER, 9, Pair(down=ordered_integers))
changed(["GreaterOrEqual", "LessOrEqual"], 12, Pair(down=ordered_or_equal))
changed(["GreaterOrEqual", "LessOrEqual"], 16, Pair(down=carried({T.BFLOAT16: T.FLOAT})))
changed("BitShift", 28, Pair(down=defined_shift))
