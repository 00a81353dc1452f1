"""Clip: limits were settled (6), bounds became inputs (11), integers came (12), crossed bounds a meaning (13)."""

from __future__ import annotations

import math

from opshift.passes.model.messages import TensorProto
from opshift.passes.model.numbers import single
from opshift.passes.operators.shared.carriers import HELD_BY_FLOATS, SMALL_INTEGERS
from opshift.passes.operators.shared.recipes import carrier_casts, pick, with_defaults, without_hint
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
FLOAT_MAX = 3.4028234663852886e38  # what an absent bound attribute means, whatever the type
# What an absent bound input means.
LARGEST: dict[int, float] = {
    T.FLOAT16: 65504.0,
    T.BFLOAT16: 3.3895313892515355e38,
    T.FLOAT: FLOAT_MAX,
    T.DOUBLE: 1.7976931348623157e308,
}


@says("Replaced Clip by Max and Min where min may exceed max, as older opsets leave that result undefined")
def crossed_bounds(node: Node) -> Replacement:
    """Bounds known only at run time stay: the runtimes did so before the text did."""
    low, high = (node.scope.array(node.input(index)) for index in (1, 2))
    if low is None or high is None or low.size != 1 or high.size != 1 or not low.item() > high.item():
        return None
    return _between(node.build, node.input(0), *_bounds(node))


def _bounds(node: Node) -> list[str]:
    """Both bounds, so that a scalar stays one: runtimes take a vector of one element, which Max and Min broadcast."""
    scope, build, (value, *bounds) = node.scope, node.build, map(node.input, range(3))
    if scope.rank(value):
        return bounds
    return [build.Reshape(name, []) if name and scope.rank(name) != 0 else name for name in bounds]


def _between(build: Builder, value: str, low: str, high: str) -> str:
    """In this order, so that the upper bound wins."""
    value = build.Max(value, low) if low else value
    return str(build.Min(value, high) if high else value)


@says("Replaced Clip by Min(Max(input, min), max)")
def maximum_then_minimum(node: Node) -> str:
    low, high = (name or _limit(node, sign) for name, sign in zip(_bounds(node), (-1, 1), strict=True))
    return _between(node.build, node.input(0), low, high) if low or high else str(node.build.Identity(node.input(0)))


def _limit(node: Node, sign: int) -> str:
    elem_types = [elem_type for name in filter(None, node.inputs) if (elem_type := node.scope.elem_type(name))]
    if not elem_types:
        node.close("a missing bound lets infinities pass")
        return ""
    return node.build.constant(sign * LARGEST[elem_types[0]], elem_types[0]) if elem_types[0] in LARGEST else ""


@says("Clipped integers of 8 and 16 bits as floats, other integers by Max and Min")
def bounded_integers(node: Node) -> Replacement:
    elem_type, build = _elem_type(node), node.build
    if elem_type in SMALL_INTEGERS:
        return carrier_casts(HELD_BY_FLOATS)(node)
    if elem_type in HELD_BY_FLOATS:
        wide = [name and build.Cast(name, to=HELD_BY_FLOATS[elem_type]) for name in (node.input(0), *_bounds(node))]
        return str(build.Cast(_between(build, *wide), to=elem_type))
    if elem_type not in (T.INT64, T.UINT64):
        return None
    value = node.input(0)
    for op, bound in zip(("Max", "Min"), _bounds(node), strict=True):
        value = pick(build, op, value, bound) if bound else value
    return value


@says("Moved min and max of Clip from attributes to inputs")
def bounds_to_inputs(node: Node) -> None:
    elem_type = node.elem_type()
    for index, name, limit in ((1, "min", -FLOAT_MAX), (2, "max", FLOAT_MAX)):
        bound = node.attributes.pop(name, limit if elem_type != T.FLOAT else None)
        if bound is not None:
            node.set_input(index, node.build.constant(_round(bound, elem_type), elem_type, hint=name))


def _round(bound: float, elem_type: int) -> float:
    """Beyond the reach of float16 lies infinity."""
    return math.copysign(math.inf, bound) if elem_type == T.FLOAT16 and abs(bound) >= 65520 else bound


@says("Moved constant min and max of Clip from inputs to attributes; replaced dynamic ones by Max and Min")
def bounds_to_attributes(node: Node) -> Replacement:
    elem_type = _elem_type(node)
    crossed = crossed_bounds(node)
    if crossed is not None:
        return crossed
    names = {"min": node.input(1), "max": node.input(2)}
    limits = {"min": -LARGEST[elem_type], "max": LARGEST[elem_type]}
    values = {bound: _value(node, name) if name else limits[bound] for bound, name in names.items()}
    if not all(map(_is_float, values.values())):
        limited = zip(_bounds(node), limits.values(), strict=True)
        return _between(
            node.build, node.input(0), *(name or node.build.constant(limit, elem_type) for name, limit in limited)
        )
    node.inputs = [node.input(0)]
    for bound, value in values.items():
        if names[bound] or elem_type != T.FLOAT:
            node.attributes[bound] = value
    return None


def _value(node: Node, name: str) -> float | None:
    held = node.scope.array(name)
    return float(held.item()) if held is not None and held.size == 1 else None


def _is_float(value: float | None) -> bool:
    """Whether a float attribute holds the value."""
    if value is None or abs(value) > FLOAT_MAX:
        return value is not None and math.isinf(value)
    return single(value) == value


def _elem_type(node: Node) -> int:
    """Of any operand: they share it."""
    return next(filter(None, map(node.scope.elem_type, filter(None, node.inputs))), 0) or node.elem_type()


@says("Set missing min and max to the limits of the type, as their defaults changed")
def limits_of_type(node: Node) -> None:
    without_hint(node)
    if {"min", "max"} <= set(node.attributes) or node.elem_type() == T.FLOAT:
        return
    limit = LARGEST[node.elem_type()]
    if node.elem_type() == T.DOUBLE:
        limit = float("inf")  # the attribute is a float
        node.close("lets infinities pass")
    with_defaults({"min": -limit, "max": limit})(node)


@says("Set missing min and max to the limits of float, as their defaults changed")
def limits_of_float(node: Node) -> None:
    if {"min", "max"} <= set(node.attributes) or node.elem_type() == T.FLOAT:
        return
    with_defaults({"min": -FLOAT_MAX, "max": FLOAT_MAX})(node)


changed("Clip", 6, Pair(up=limits_of_type, down=limits_of_float))
changed("Clip", 11, Pair(up=bounds_to_inputs, down=bounds_to_attributes))
changed("Clip", 12, Pair(down=bounded_integers))
changed("Clip", 13, Pair(down=crossed_bounds))
defined("Clip", maximum_then_minimum, opset=13)
