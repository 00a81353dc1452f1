"""Concat: its axis, and the types that it joins."""

from __future__ import annotations

from opshift.passes.operators.shared.carriers import INTEGERS_AS_DOUBLE
from opshift.passes.operators.shared.recipes import carrier_casts, nonnegative_axis
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says


@says("Set the attribute axis of Concat to 1, its old default")
def axis_is_written(node: Node) -> None:
    if "axis" not in node.attributes:
        node.attributes["axis"] = 1


changed("Concat", 4, Pair(up=axis_is_written, down=carrier_casts(INTEGERS_AS_DOUBLE)))
changed("Concat", 11, Pair(down=nonnegative_axis(default=0)))
