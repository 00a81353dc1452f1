"""Ceil, Floor and Round: the hint went (6), Round came (11), bfloat16 after it (22)."""

from __future__ import annotations

from opshift.passes.operators.shared.recipes import BFLOAT16, carrier_casts, round_to_even, with_sign, without_hint
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined, same
from opshift.passes.rewrite.says import says


@says("Replaced Ceil by -Floor(-x)")
def negated_floor(node: Node) -> str:
    build = node.build
    return str(build.Neg(build.Floor(build.Neg(node.input(0)))))


@says("Replaced Round by Floor, with halves going to even numbers")
def round_half_to_even(node: Node) -> str:
    build, elem_type, x = node.build, node.elem_type(), node.input(0)
    return with_sign(build, round_to_even(build, build.Abs(x), elem_type), x, elem_type)


changed(["Ceil", "Floor"], 6, Pair(up=without_hint))
same(["Ceil", "Floor"], 13, "bfloat16 added; the text states how special values are rounded, as runtimes did before")
changed("Round", 11, Pair(down=round_half_to_even))
changed("Round", 22, Pair(down=carrier_casts(BFLOAT16)))
defined("Ceil", negated_floor, opset=13)
