"""Rounding to a narrow type of floats, written in operators of a wider one.

    quantum = 2 ** (floor(log2(|x|)) - digits + 1), not below that of the smallest numbers
    rounded = round(x / quantum) * quantum, halves to even ones

The exponent comes from a logarithm, which may lie a little off; a table of powers of two and a comparison make it
exact, whatever a runtime's logarithm is like.
"""

from __future__ import annotations

from math import inf, log, nan

from opshift.passes.model.formats import Floats
from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.builder import Builder

T = TensorProto
_MARGIN = 2.0**-10
"""How far the logarithm is moved down, so that it is never too large; it is wrong by less."""


def round_floats(build: Builder, x: str, to: Floats, work: int, *, saturate: bool = True) -> str:
    """Round floats of the type `work`, which holds all of `to`, to the nearest number of that type, ties to even.

    What is beyond the largest number becomes that where it saturates, or else an infinity or NaN, as Cast has it.
    bfloat16, which Cast does not saturate, has infinities there.
    """
    unknown = build.IsNaN(x)
    quantum = _quantum(build, x, unknown, to, work)
    result = build.Mul(build.Round(build.Div(x, quantum)), quantum)
    if to.name == "bfloat16":
        if work == T.DOUBLE:
            result = _limit(build, result, to, work, saturate=False)
    else:
        result = _limit(build, result, to, work, saturate=saturate or not to.nan)
        if saturate or not to.nan:  # Clip may make a number of NaN
            result = build.Where(unknown, x if to.nan else build.constant(-0.0, work), result)
    if not to.negative_zero:
        zero = build.constant(0.0, work)
        result = build.Where(build.Equal(result, zero), zero, result)
    return str(result)


def _quantum(build: Builder, x: str, unknown: str, to: Floats, work: int) -> str:
    """The distance between neighbours of |x| in the narrow type."""
    size = build.Where(unknown, build.constant(1.0, work), build.Abs(x))
    top = _exponent(to.largest)
    within = build.Clip(size, build.constant(2.0**to.least, work), build.constant(2.0**top, work))
    lowest = to.least - 1  # one less, as the logarithm never is too large, but may be too small
    steps = build.Add(
        build.Mul(build.Log(within), build.constant(1 / log(2), work)), build.constant(-lowest - _MARGIN, work)
    )
    table = [2.0 ** (lowest + k - to.digits + 1) for k in range(top - lowest + 1)]
    quantum = build.Gather(build.constant(table, work, "quanta"), build.Cast(build.Floor(steps), to=T.INT32), axis=0)
    is_large = build.Not(build.Less(within, build.Mul(quantum, build.constant(2.0**to.digits, work))))
    return str(build.Add(quantum, build.Mul(quantum, build.Cast(is_large, to=work))))


def _exponent(number: float) -> int:
    """floor(log2(number)), exactly."""
    from math import frexp

    return frexp(number)[1] - 1


def _limit(build: Builder, x: str, to: Floats, work: int, *, saturate: bool) -> str:
    largest = build.constant(to.largest, work)
    if saturate:
        return str(build.Clip(x, build.constant(-to.largest, work), largest))
    beyond = build.Greater(build.Abs(x), largest)
    outside = build.Mul(x, build.constant(inf, work)) if to.infinite else build.constant(nan, work)
    return str(build.Where(beyond, outside, x))


def round_to_power(build: Builder, x: str, to: Floats, work: int, *, saturate: bool, mode: str) -> str:
    """Round positive floats to powers of two: up, down, or to the nearest, from the middle on up.

    Zero is rounded as the smallest power is, and negative numbers, of which the text says nothing, as their size.
    """
    unknown = build.IsNaN(x)
    size = build.Abs(x)
    power = _quantum(build, x, unknown, to, work)  # of a type of one digit: the largest power that is not above
    if mode != "down":
        edge = power if mode == "up" else build.Mul(power, build.constant(1.5, work))
        above = build.Greater(size, edge) if mode == "up" else build.Not(build.Less(size, edge))
        power = build.Where(above, build.Add(power, power), power)
    ends = build.constant(2.0**to.least, work), build.constant(to.largest, work)
    if saturate:
        return str(build.Where(unknown, x, build.Clip(power, *ends)))
    outside = build.Or(build.Less(size, ends[0]), build.Greater(size, ends[1]))
    return str(build.Where(build.Or(unknown, outside), build.constant(nan, work), power))
