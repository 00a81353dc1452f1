"""Shrink before it existed."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
SHORT = (T.FLOAT16, T.INT8, T.INT16, T.UINT8, T.UINT16)  # of which kernels make float32, the type of the attributes


def _wide(elem_type: int) -> int:
    """The type in which numbers of a type are moved."""
    return T.FLOAT if elem_type in (T.FLOAT, *SHORT) else T.DOUBLE


@says("Replaced Shrink by x + bias, x - bias or 0")
def shrunk_by_comparisons(node: Node) -> str:
    """Anything to the power 0 is 1, NaN and infinities too: one mask at most is 1, so that the product of the powers
    is what it chooses, or 1, from which 1 is taken.
    """
    build, elem_type = node.build, node.elem_type()
    wide = _wide(elem_type)
    if elem_type in (T.INT64, T.UINT64):
        raise CannotConvert(
            node,
            "the input holds 64-bit integers, which double does not hold exactly",
            supported="smaller integers, and floats",
        )
    bias, limit = node.attributes.get("bias", 0.0), node.attributes.get("lambd", 0.5)
    x = node.input(0) if wide == elem_type else build.Cast(node.input(0), to=wide)
    low = build.Less(x, build.constant(-limit, wide))
    high = build.Greater(x, build.constant(limit, wide))
    if limit < 0:
        high = build.And(high, build.Not(low))
    below, above = (build.Cast(mask, to=wide) for mask in (low, high))
    raised = build.Pow(build.Add(x, build.constant(bias, wide)), below)
    lowered = build.Pow(build.Sub(x, build.constant(bias, wide)), above)
    neither = build.Cast(build.Not(build.Or(low, high)), to=wide)
    y = build.Sub(build.Mul(raised, lowered), neither)
    return y if wide == elem_type else str(build.Cast(y, to=elem_type))


@says("Replaced Shrink by x + bias where x < -lambd, x - bias where x > lambd, else 0")
def shifted_towards_zero(node: Node) -> str:
    build, elem_type = node.build, node.elem_type()
    bias, limit = node.attributes.get("bias", 0.0), node.attributes.get("lambd", 0.5)
    if elem_type in (T.INT64, T.UINT64):
        raise CannotConvert(
            node,
            "the input holds 64-bit integers, which double does not hold exactly",
            supported="smaller integers, and floats",
        )
    wide = _wide(elem_type)
    x = recast(build, node.input(0), elem_type, wide)
    shift = build.constant(bias, wide)
    raised = build.Add(x, shift) if bias or limit < 0 else x  # a limit below 0 raises -0, too
    lowered = build.Sub(x, shift) if bias else x
    above = build.Where(build.Greater(x, build.constant(limit, wide)), lowered, build.constant(0.0, wide))
    return recast(build, build.Where(build.Less(x, build.constant(-limit, wide)), raised, above), wide, elem_type)


changed("Shrink", 9, Pair(down=shrunk_by_comparisons))
defined("Shrink", shifted_towards_zero, opset=13)
