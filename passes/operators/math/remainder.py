"""Mod before it existed."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import tensor_type
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto

SMALL_INTEGERS = (T.INT8, T.INT16, T.UINT8, T.UINT16)
UNSIGNED = (T.UINT8, T.UINT16, T.UINT32, T.UINT64)
DIGITS = 28
"""Bits of a quotient found at once: with the 24 of a float32 divisor their product fits the 53 of a double."""
ROUNDS: dict[int, int] = {T.FLOAT16: 2, T.FLOAT: 10}
"""Ratios reach 2**40 for float16 and 2**277 for float32, in digits."""


@says("The remainder becomes a - a / b * b; that of floats, a long division.")
def remainder_of_division(node: Node) -> str:
    kind, build = node.elem_type(), node.build
    fmod = node.attributes.get("fmod", 0)
    if kind in ROUNDS and fmod:
        return _long_division(node, kind)
    if kind == T.DOUBLE and fmod:
        return _binary_division(node)
    if kind not in (*SMALL_INTEGERS, T.INT32, T.INT64, *UNSIGNED):
        raise CannotConvert(
            node, "the remainder of floating-point numbers without fmod=1; with it, and of integers, could be expressed"
        )
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
    return str(build.Cast(build.Mul(rest, _sign(build, a)), to=kind))


def _sign(build: Builder, a: str) -> str:
    """1 or -1; that of -0.0 shows in its reciprocal."""
    zero, one = (build.constant(value, T.DOUBLE) for value in (0.0, 1.0))
    negative = build.Cast(build.Or(build.Less(a, zero), build.Less(build.Reciprocal(a), zero)), to=T.DOUBLE)
    return str(build.Sub(one, build.Add(negative, negative)))


def _binary_division(node: Node) -> str:
    """|b| is doubled while it fits into |a|, then halved again down to |b| and subtracted wherever it fits.

    What is subtracted is at least half of what it is subtracted from, so that no difference rounds.
    """
    build = node.build
    a, b = node.inputs
    zero, half, infinity = (build.constant(value, T.DOUBLE) for value in (0.0, 0.5, float("inf")))
    shaped = build.Less(a, b)  # the shape that both are broadcast to
    rest, size = (build.Where(shaped, part, part) for part in (build.Abs(a), build.Abs(b)))
    defined = build.And(build.Less(rest, infinity), build.Less(zero, size))
    kind = tensor_type(T.DOUBLE, node.scope.shape(rest))

    def double(inner: Builder, at: str, values: list[str]) -> list[str]:
        part, twice = values[0], inner.Add(values[0], values[0])
        fits = inner.And(defined, inner.Not(inner.Less(rest, twice)))
        return [_any(inner, fits), inner.Where(fits, twice, part)]

    def subtract(inner: Builder, at: str, values: list[str]) -> list[str]:
        left, part = values
        fits = inner.And(defined, inner.Not(inner.Less(left, part)))
        larger = inner.And(defined, inner.Less(size, part))
        less = inner.Where(fits, inner.Sub(left, part), left)
        return [_any(inner, larger), less, inner.Where(larger, inner.Mul(part, half), part)]

    (part,) = build.loop(None, [(size, kind)], double, ends=True)
    rest, _ = build.loop(None, [(rest, kind), (part, kind)], subtract, ends=True)
    rest = build.Where(defined, rest, build.constant(float("nan"), T.DOUBLE))
    return str(build.Mul(rest, _sign(build, a)))  # last, as runtimes may lose the sign of a zero in Where


def _any(build: Builder, where: str) -> str:
    count = build.ReduceSum(build.Cast(where, to=T.FLOAT), keepdims=0)
    return str(build.Less(build.constant(0.0, T.FLOAT), count))


def _cast(build: Builder, name: str, kind: int, to: int) -> str:
    return name if kind == to else str(build.Cast(name, to=to))


changed("Mod", 10, Pair(down=remainder_of_division))
