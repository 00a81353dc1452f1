"""Mod, which opset 10 brought, and which did not floor the quotients of floats before 28."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import tensor_type
from opshift.passes.operators.shared.carriers import SMALL_INTEGERS
from opshift.passes.operators.shared.recipes import recast, with_sign
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, same
from opshift.passes.rewrite.says import says

T = TensorProto
UNSIGNED = (T.UINT8, T.UINT16, T.UINT32, T.UINT64)
FLOATS = (T.FLOAT16, T.BFLOAT16, T.FLOAT, T.DOUBLE)
DIGITS = 28
"""Bits of a quotient found at once: with the 24 of a float32 divisor their product fits the 53 of a double."""
ROUNDS: dict[int, int] = {T.FLOAT16: 2, T.FLOAT: 10}
"""Ratios reach 2**40 for float16 and 2**277 for float32, in digits."""


@says("Replaced Mod by a - a / b * b, for floats by a long division")
def remainder_of_division(node: Node) -> str:
    elem_type, build = node.elem_type(), node.build
    fmod = node.attributes.get("fmod", 0)
    if elem_type in ROUNDS and fmod:
        return _long_division(node, elem_type)
    if elem_type == T.DOUBLE and fmod:
        return _binary_division(node)
    if elem_type not in (*SMALL_INTEGERS, T.INT32, T.INT64, *UNSIGNED):
        raise CannotConvert(node, "floats without fmod=1", supported="integers, or floats with fmod=1")
    wide = T.INT32 if elem_type in SMALL_INTEGERS else elem_type
    a, b = (recast(build, name, elem_type, wide) for name in node.inputs)
    if elem_type in (T.INT32, T.INT64) and not _is_never_minus_one(node):
        b = build.Where(build.Equal(b, build.constant(-1, wide)), build.constant(1, wide), b)  # leaves 0, as -1 does
    rest = build.Sub(a, build.Mul(build.Div(a, b), b))
    if not fmod and elem_type not in UNSIGNED:
        zero = build.constant(0, wide)
        apart = build.Xor(build.Less(rest, zero), build.Less(b, zero))
        wrong = build.And(apart, build.Not(build.Equal(rest, zero)))
        rest = build.Where(wrong, build.Add(rest, b), rest)
    return recast(build, rest, wide, elem_type)


def _is_never_minus_one(node: Node) -> bool:
    """Whether the divisor is known not to be: the quotient of the least integer by -1 ends the process."""
    held = node.scope.tensor(node.input(1), tensors.SMALL)
    return held is not None and (value := tensors.array(held)) is not None and not (value == -1).any()


def _long_division(node: Node, elem_type: int) -> str:
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
    for k in reversed(range(ROUNDS[elem_type])):
        part = build.Mul(size, number(2.0 ** (DIGITS * k))) if k else size
        rest = build.Sub(rest, build.Mul(build.Floor(build.Div(rest, part)), part))
    return str(build.Cast(with_sign(build, rest, a, T.DOUBLE), to=elem_type))


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
    value_type = tensor_type(T.DOUBLE, node.scope.shape(rest))

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

    (part,) = build.loop(None, [(size, value_type)], double, ends=True)
    rest, _ = build.loop(None, [(rest, value_type), (part, value_type)], subtract, ends=True)
    rest = build.Where(defined, rest, build.constant(float("nan"), T.DOUBLE))
    return with_sign(build, rest, a, T.DOUBLE)  # last, as runtimes may lose the sign of a zero in Where


def _any(build: Builder, where: str) -> str:
    count = build.ReduceSum(build.Cast(where, to=T.FLOAT), keepdims=0)
    return str(build.Less(build.constant(0.0, T.FLOAT), count))


@says("Computed the remainder with fmod=1, and added b where the signs differ")
def floored_remainder(node: Node) -> Replacement:
    elem_type, build, divisor = node.elem_type(), node.build, node.input(1)
    if node.attributes.get("fmod", 0) or elem_type not in FLOATS:
        return None
    zero, one, minus = (build.constant(value, elem_type) for value in (0.0, 1.0, -1.0))
    rest = build.again(node.proto, node.inputs, fmod=1)
    negative = build.Less(divisor, zero)
    across = build.And(build.Not(build.Equal(rest, zero)), build.Xor(build.Less(rest, zero), negative))
    rest = build.Where(across, build.Add(rest, divisor), rest)
    sign = build.Where(negative, minus, one)  # of a zero, too
    return str(build.Mul(build.Abs(rest), sign))


changed("Mod", 10, Pair(down=remainder_of_division))
same("Mod", 13, "only the text changed: it forbids fmod=1 for integers, which runtimes compute")
changed("Mod", 28, Pair(down=floored_remainder))
