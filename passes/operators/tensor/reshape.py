"""Reshape: a shape in an attribute, and what a 0 in it means."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.operators.shared.carriers import INTEGERS_AS_DOUBLE
from opshift.passes.operators.shared.flat_indices import empty
from opshift.passes.operators.shared.recipes import carrier_casts
from opshift.passes.operators.shared.shapes import fillable_type, in_shape
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says


@says("Dropped allowzero of Reshape; computed an empty result from its shape")
def zero_copies(node: Node) -> Replacement:
    if not node.attributes.pop("allowzero", 0):
        return None
    shape = node.scope.ints(node.input(1))
    if shape is None and 0 in (node.scope.shape(node.input(0)) or []):
        return empty(node.build, str(node.build.Max(node.input(1), 0)), fillable_type(node))  # -1 is 0 of nothing
    if shape is None:
        return in_shape(node, node.input(1))
    if 0 not in shape:
        return None
    if -1 in shape:
        raise CannotConvert(node, f"allowzero=1 with shape {shape}", supported="0 or -1 in the shape, not both")
    return empty(node.build, node.input(1), fillable_type(node))


@says("Moved shape of Reshape from attribute to input")
def shape_to_input(node: Node) -> None:
    node.attributes.pop("consumed_inputs", None)
    if "shape" not in node.attributes:
        raise CannotConvert(node, "attribute shape is missing")
    node.set_input(1, node.build.constant(tensors.int64s(node.attributes.pop("shape"))))


@says("Moved shape of Reshape from input to attribute; reshaped integers as double")
def shape_to_attribute(node: Node) -> Replacement:
    shape = node.scope.ints(node.input(1))
    if shape is None:
        shape = _shape_of_result(node)
    node.set_input(1, "")
    node.attributes["shape"] = shape
    return carrier_casts(INTEGERS_AS_DOUBLE)(node)


def _shape_of_result(node: Node) -> list[int]:
    """What is known of the result says the same as the shape input, if it leaves at most one size open."""
    dims = node.scope.shape(node.outputs[0])
    if dims is None or 0 in dims or sum(not isinstance(dim, int) for dim in dims) > 1:
        raise CannotConvert(
            node,
            "Reshape takes shape as an attribute in older opsets, but shape is dynamic here",
            supported="a constant shape",
        )
    return [dim if isinstance(dim, int) else -1 for dim in dims]


changed("Reshape", 5, Pair(up=shape_to_input, down=shape_to_attribute))
changed("Reshape", 14, Pair(down=zero_copies))
