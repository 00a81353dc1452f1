"""Minima for a backend that only finds maxima."""

from __future__ import annotations

from opshift.passes.operators.shared.recipes import mirrored
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

_ARG_DEFAULTS = {"axis": 0, "keepdims": 1, "select_last_index": 0}
_REDUCE_DEFAULTS = {"keepdims": 1, "noop_with_empty_axes": 0}


@says("ArgMin becomes the place of the maximum of -x; of integers, which may have no negative, of -1 - x.")
def place_of_mirrored_maximum(node: Node) -> str:
    build, given = node.build, node.attributes
    options = {name: given.get(name, default) for name, default in _ARG_DEFAULTS.items()}
    return str(build.emit("ArgMax", [mirrored(build, node.input(0), node.elem_type())], options))


@says("ReduceMin becomes a maximum of what is negated, negated; of integers, which may have no negative, of -1 - x.")
def mirrored_maximum_along_axes(node: Node) -> str:
    build, given, kind = node.build, node.attributes, node.elem_type()
    options = {name: given.get(name, default) for name, default in _REDUCE_DEFAULTS.items()}
    inputs = [mirrored(build, node.input(0), kind), *node.inputs[1:]]
    return mirrored(build, str(build.emit("ReduceMax", inputs, options)), kind)


defined("ArgMin", place_of_mirrored_maximum, opset=14)
defined("ReduceMin", mirrored_maximum_along_axes, opset=18)
