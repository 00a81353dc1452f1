"""Hyperbolic functions, which opset 9 brought, and what they are in exponentials and logarithms."""

from __future__ import annotations

from math import log

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.carriers import ROUNDED
from opshift.passes.operators.shared.recipes import recast, select, with_sign
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
D = T.DOUBLE
LARGE = 2.0**60
"""Beyond it, x + 1 and sqrt(x * x + 1) are x in double."""


@says("Replaced Cosh by (exp(x) + exp(-x)) / 2 in double")
def hyperbolic_cosine(node: Node) -> str:
    x = _double(node)
    return _back(node, _cosh(node.build, x))


@says("Replaced Sinh by tanh(x) * cosh(x) in double")
def hyperbolic_sine(node: Node) -> str:
    x = _double(node)
    return _back(node, node.build.Mul(node.build.Tanh(x), _cosh(node.build, x)))


def _cosh(build: Builder, x: str) -> str:
    """exp(|x|) / 2 as a product of two roots, which do not overflow before it does."""
    size = build.Abs(x)
    root = build.Exp(build.Mul(size, _number(build, 0.5)))
    grown = build.Mul(build.Mul(root, _number(build, 0.5)), root)
    return str(build.Add(grown, build.Mul(build.Exp(build.Neg(size)), _number(build, 0.5))))


@says("Replaced Asinh by sign(x) * log1p(a + a / (1 / a + sqrt(1 / a**2 + 1))) in double, a = |x|")
def inverse_hyperbolic_sine(node: Node) -> str:
    build, x = node.build, _double(node)
    size = build.Abs(x)
    inverse = build.Reciprocal(size)
    root = build.Sqrt(build.Add(build.Mul(inverse, inverse), _number(build, 1.0)))
    y = build.Add(size, build.Div(size, build.Add(inverse, root)))
    return _back(node, with_sign(build, _log1p_or_log(build, y, size, log(2)), x, D))


@says("Replaced Acosh by log1p(t + sqrt(t) * sqrt(t + 2)) in double, t = x - 1")
def inverse_hyperbolic_cosine(node: Node) -> str:
    build, x = node.build, _double(node)
    rest = build.Sub(x, _number(build, 1.0))
    y = build.Add(rest, build.Mul(build.Sqrt(rest), build.Sqrt(build.Add(rest, _number(build, 2.0)))))
    return _back(node, _log1p_or_log(build, y, x, log(2)))


@says("Replaced Atanh by sign(x) * log1p(2 * a / (1 - a)) / 2 in double, a = |x|")
def inverse_hyperbolic_tangent(node: Node) -> str:
    build, x = node.build, _double(node)
    size = build.Abs(x)
    y = build.Div(build.Add(size, size), build.Sub(_number(build, 1.0), size))
    half = build.Mul(_log1p_or_log(build, y, y, 0.0), _number(build, 0.5))
    return _back(node, with_sign(build, half, x, D))


def _log1p_or_log(build: Builder, y: str, large: str, offset: float) -> str:
    """log(large) + offset where large is, else log(1 + y), corrected for what 1 + y rounds away."""
    one = _number(build, 1.0)
    above = build.Add(y, one)
    kept = build.Sub(above, one)
    lost = build.Not(build.Or(build.Less(kept, _number(build, 0.0)), build.Greater(kept, _number(build, 0.0))))
    nothing = build.Cast(lost, to=D)  # 1 where y is all lost in 1 + y: then log(1 + y) is y
    corrected = build.Mul(build.Log(above), build.Div(y, build.Add(kept, nothing)))
    small = build.Add(corrected, build.Mul(nothing, y))
    grown = build.Log(large)
    grown = build.Add(grown, _number(build, offset)) if offset else grown
    return select(build, build.Greater(large, _number(build, LARGE)), grown, small, D)


def _number(build: Builder, value: float) -> str:
    return build.constant(value, D)


def _double(node: Node) -> str:
    node.close("computed in double from exponentials, logarithms and roots")
    return recast(node.build, node.input(0), node.elem_type(), D)


def _back(node: Node, value: str) -> str:
    return recast(node.build, value, D, node.elem_type())


FUNCTIONS = {
    "Acosh": inverse_hyperbolic_cosine,
    "Asinh": inverse_hyperbolic_sine,
    "Atanh": inverse_hyperbolic_tangent,
    "Cosh": hyperbolic_cosine,
    "Sinh": hyperbolic_sine,
}

for op, step in FUNCTIONS.items():
    changed(op, 9, Pair(down=step))
    defined(op, step, opset=13)
changed(FUNCTIONS, 22, ROUNDED)
