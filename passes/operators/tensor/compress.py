"""Compress: a negative axis, and the slices that a condition selects, gathered."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.recipes import BFLOAT16, axis_inside, carrier_casts, nonnegative_axis
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined
from opshift.passes.rewrite.says import says


@says("Replaced Compress by Gather")
def gathered_where_true(node: Node) -> str:
    build, data, condition = node.build, node.input(0), node.scope.array(node.input(1))
    if condition is None:
        chosen = flat_indices.where_true(build, node.input(1))
    elif condition.ndim != 1:
        raise CannotConvert(node, f"Compress gets a condition of shape {list(condition.shape)}", supported="a vector")
    else:
        chosen = build.constant(tensors.int64s(condition.nonzero()[0].tolist()))
    if "axis" not in node.attributes:
        return str(build.Gather(build.Reshape(data, [-1]), chosen, axis=0))
    return str(build.Gather(data, chosen, axis=node.attributes["axis"]))


@says("Replaced Compress by NonZero and Gather")
def gathered_where_nonzero(node: Node) -> str:
    if node.scope.array(node.input(1)) is not None:
        return gathered_where_true(node)
    build, axis = node.build, node.attributes.get("axis")
    places = build.Squeeze(build.NonZero(node.input(1)), [0])
    data = node.input(0) if axis is not None else build.Reshape(node.input(0), [-1])
    return str(build.Gather(data, places, axis=axis or 0))


changed("Compress", 9, Pair(down=gathered_where_true))
changed("Compress", 11, Pair(up=axis_inside(default=None), down=nonnegative_axis(default=0)))
changed("Compress", 28, Pair(down=carrier_casts(BFLOAT16)))
defined("Compress", gathered_where_nonzero, opset=13)
