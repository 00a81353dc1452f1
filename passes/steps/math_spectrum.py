"""DFT: its axis was an attribute and became an input (20)."""

from __future__ import annotations

from opshift.passes import constants
from opshift.passes.errors import CannotConvert
from opshift.passes.protos import AttributeProto
from opshift.passes.registry import Pair, changed
from opshift.passes.view import Node


def axis_to_input(node: Node) -> None:
    """axis was an attribute, 1 by default, and becomes an input, -2 by default."""
    held = node.attributes.find("axis")
    if held is not None and held.ref_attr_name:
        bound = AttributeProto(name="value_int", type=AttributeProto.INT, ref_attr_name=held.ref_attr_name)
        axis = node.build.emit("Constant", [], {"value_int": bound})
    else:
        axis = node.build.constant(constants.int64s([held.i if held else 1], []), hint="axis")
    node.set_input(2, axis)
    if held is not None:
        del node.attributes["axis"]


def axis_to_attribute(node: Node) -> None:
    """axis becomes an attribute, written out because the default was 1 and is -2."""
    held = node.scope.ints(node.input(2)) if node.input(2) else [-2]
    if held is None or len(held) != 1:
        raise CannotConvert(node, "the axis is known only at run time; a constant one could be expressed")
    node.set_input(2, "")
    node.attributes["axis"] = held[0]


changed("DFT", 20, Pair(up=axis_to_input, down=axis_to_attribute))
