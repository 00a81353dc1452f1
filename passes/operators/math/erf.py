"""Erf, which opset 9 brought: W. J. Cody's rational approximations, in double closer than float32 can tell."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import select
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined, same
from opshift.passes.rewrite.says import says

T = TensorProto

PAPER = '"Rational Chebyshev Approximations for the Error Function", 1969'
# From the highest power down. Below 0.5: x * P(x * x) / Q(x * x); up to 4: 1 - exp(-x * x) * P(x) / Q(x).
NEAR = (
    (
        1.85777706184603153e-1,
        3.16112374387056560e0,
        1.13864154151050156e2,
        3.77485237685302021e2,
        3.20937758913846947e3,
    ),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
FAR = (
    (
        *(2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1),
        *(2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3),
        1.23033935479799725e3,
    ),
    (
        *(1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3),
        *(3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
    ),
)


@says("Replaced Erf by rational functions, computed in double")
def rational_approximation(node: Node) -> str:
    elem_type, build = node.elem_type(), node.build
    if elem_type not in (T.FLOAT16, T.FLOAT):
        raise CannotConvert(
            node,
            "the input is double or integer, and opshift approximates Erf for smaller floats only",
            supported="float and float16",
        )
    node.close("approximates in double, beyond float32 precision")
    x = build.Cast(node.input(0), to=T.DOUBLE)
    size = build.Abs(x)
    square = build.Mul(x, x)
    near = build.Mul(x, _ratio(build, square, *NEAR))
    rest = build.Mul(build.Exp(build.Neg(square)), _ratio(build, size, *FAR))
    above = build.Sub(_number(build, 1.0), rest)
    above = select(build, build.Greater(size, _number(build, 4.0)), _number(build, 1.0), above, T.DOUBLE)
    negative = build.Cast(build.Less(x, _number(build, 0.0)), to=T.DOUBLE)
    far = build.Mul(above, build.Sub(_number(build, 1.0), build.Add(negative, negative)))
    return str(build.Cast(select(build, build.Less(size, _number(build, 0.5)), near, far, T.DOUBLE), to=elem_type))


def _ratio(build: Builder, x: str, above: Sequence[float], below: Sequence[float]) -> str:
    return str(build.Div(_polynomial(build, x, above), _polynomial(build, x, below)))


def _polynomial(build: Builder, x: str, factors: Sequence[float]) -> str:
    value = _number(build, factors[0])
    for factor in factors[1:]:
        value = build.Add(build.Mul(value, x), _number(build, factor))
    return value


def _number(build: Builder, value: float) -> str:
    return build.constant(value, T.DOUBLE)


changed("Erf", 9, Pair(down=rational_approximation))
same(
    "Erf",
    13,
    "bfloat16 added, integers removed",
)
defined("Erf", rational_approximation, opset=13, source=PAPER)
