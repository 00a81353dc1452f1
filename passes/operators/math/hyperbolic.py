"""Hyperbolic functions, Sign, Round and ThresholdedRelu before they existed."""

from __future__ import annotations

from math import log

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import rounded_to_even, selected
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
D = T.DOUBLE
FLOATS = (T.FLOAT16, T.FLOAT, T.DOUBLE)
UNSIGNED = (T.UINT8, T.UINT16, T.UINT32, T.UINT64)
LARGE = 2.0**60
"""Beyond it, x + 1 and sqrt(x * x + 1) are x in double."""


@says("Cosh becomes (exp(x) + exp(-x)) / 2, computed in double.")
def hyperbolic_cosine(node: Node) -> str:
    x = _double(node)
    return _back(node, _cosh(node.build, x))


@says("Sinh becomes tanh(x) * cosh(x), computed in double; the difference of exponentials would cancel.")
def hyperbolic_sine(node: Node) -> str:
    x = _double(node)
    return _back(node, node.build.Mul(node.build.Tanh(x), _cosh(node.build, x)))


def _cosh(build: Builder, x: str) -> str:
    """exp(|x|) / 2 as a product of two roots, which do not overflow before it does."""
    size = build.Abs(x)
    root = build.Exp(build.Mul(size, _number(build, 0.5)))
    grown = build.Mul(build.Mul(root, _number(build, 0.5)), root)
    return str(build.Add(grown, build.Mul(build.Exp(build.Neg(size)), _number(build, 0.5))))


@says("Asinh becomes the sign of x times log1p(a + a / (1 / a + sqrt(1 / a**2 + 1))), a = |x|, in double.")
def inverse_hyperbolic_sine(node: Node) -> str:
    build, x = node.build, _double(node)
    size = build.Abs(x)
    inverse = build.Reciprocal(size)
    root = build.Sqrt(build.Add(build.Mul(inverse, inverse), _number(build, 1.0)))
    y = build.Add(size, build.Div(size, build.Add(inverse, root)))
    return _back(node, _with_sign(build, _log1p_or_log(build, y, size, log(2)), x))


@says("Acosh becomes log1p(t + sqrt(t) * sqrt(t + 2)), t = x - 1, in double.")
def inverse_hyperbolic_cosine(node: Node) -> str:
    build, x = node.build, _double(node)
    rest = build.Sub(x, _number(build, 1.0))
    y = build.Add(rest, build.Mul(build.Sqrt(rest), build.Sqrt(build.Add(rest, _number(build, 2.0)))))
    return _back(node, _log1p_or_log(build, y, x, log(2)))


@says("Atanh becomes the sign of x times log1p(2 * a / (1 - a)) / 2, a = |x|, in double.")
def inverse_hyperbolic_tangent(node: Node) -> str:
    build, x = node.build, _double(node)
    size = build.Abs(x)
    y = build.Div(build.Add(size, size), build.Sub(_number(build, 1.0), size))
    half = build.Mul(_log1p_or_log(build, y, y, 0.0), _number(build, 0.5))
    return _back(node, _with_sign(build, half, x))


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
    return selected(build, build.Greater(large, _number(build, LARGE)), grown, small, D)


def _with_sign(build: Builder, size: str, x: str, kind: int = D) -> str:
    """size, negated where x is negative or -0.0; by a factor, because runtimes lose the sign of 0 in a Where."""
    zero, one = (build.constant(value, kind) for value in (0.0, 1.0))
    negative = build.Cast(build.Or(build.Less(x, zero), build.Less(build.Reciprocal(x), zero)), to=kind)
    return str(build.Mul(size, build.Sub(one, build.Add(negative, negative))))


def _number(build: Builder, value: float) -> str:
    return build.constant(value, D)


def _double(node: Node) -> str:
    node.close("computed in double from exponentials, logarithms and roots")
    return _cast(node, node.input(0), node.elem_type(), D)


def _back(node: Node, value: str) -> str:
    return _cast(node, value, D, node.elem_type())


def _cast(node: Node, value: str, kind: int, to: int) -> str:
    return value if kind == to else str(node.build.Cast(value, to=to))


# --- Sign, Round, ThresholdedRelu -----------------------------------------------------------------------


@says("Sign becomes (x > 0) - (x < 0), which a NaN passes through.")
def sign_of_comparisons(node: Node) -> str:
    build, kind, x = node.build, node.elem_type(), node.input(0)
    if kind in UNSIGNED:
        return str(build.Cast(build.Cast(x, to=T.BOOL), to=kind))
    wide = kind if kind in FLOATS else D
    x = _cast(node, x, kind, wide)
    zero = build.constant(0.0, wide)
    above, below = (build.Cast(build.emit(op, [x, zero]), to=wide) for op in ("Greater", "Less"))
    sign = build.Sub(above, below)
    if kind in FLOATS:
        sign = build.Add(sign, build.Mul(build.Tanh(x), zero))  # 0, but NaN where x is
    return _cast(node, sign, wide, kind)


@says("Round becomes the nearest integer found with Floor, halves to even ones.")
def round_half_to_even(node: Node) -> str:
    build, kind, x = node.build, node.elem_type(), node.input(0)
    return _with_sign(build, rounded_to_even(build, build.Abs(x), kind), x, kind)


@says("ThresholdedRelu becomes x where it is greater than alpha, else 0.")
def larger_than_threshold(node: Node) -> str:
    build, kind, x = node.build, node.elem_type(), node.input(0)
    alpha = build.constant(node.attributes.get("alpha", 1.0), kind)
    return str(build.Where(build.Greater(x, alpha), x, build.constant(0.0, kind)))


changed("Acosh", 9, Pair(down=inverse_hyperbolic_cosine))
changed("Asinh", 9, Pair(down=inverse_hyperbolic_sine))
changed("Atanh", 9, Pair(down=inverse_hyperbolic_tangent))
changed("Cosh", 9, Pair(down=hyperbolic_cosine))
changed("Sinh", 9, Pair(down=hyperbolic_sine))
changed("Sign", 9, Pair(down=sign_of_comparisons))
changed("ThresholdedRelu", 10, Pair(down=larger_than_threshold))
changed("Round", 11, Pair(down=round_half_to_even))
defined("Acosh", inverse_hyperbolic_cosine, opset=13)
defined("Asinh", inverse_hyperbolic_sine, opset=13)
defined("Atanh", inverse_hyperbolic_tangent, opset=13)
defined("Cosh", hyperbolic_cosine, opset=13)
defined("Sinh", hyperbolic_sine, opset=13)
