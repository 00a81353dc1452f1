"""Max and Min of any number of operands: broadcasting came (8), then integers (12)."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import Dim
from opshift.passes.operators.shared.broadcast import covers, of_one_shape, same_shape
from opshift.passes.operators.shared.carriers import HELD_BY_FLOATS
from opshift.passes.operators.shared.recipes import carrier_casts, mirror, pick, without_hint
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Broadcast the operands to one shape by multiplying with ones")
def extreme_of_one_shape(node: Node) -> None:
    if of_one_shape(node):
        return
    build, zero = node.build, node.build.constant(0.0, node.elem_type())
    shapes = [node.scope.shape(name) for name in node.inputs]
    widest = _widest(node, shapes)
    full = None if widest is None else shapes[widest]
    ones = ""
    for name in node.inputs if widest is None else [node.input(widest)]:
        own = build.Pow(name, zero)
        ones = build.Mul(ones, own) if ones else own
    node.inputs = [
        name if index == widest or same_shape(shapes[index], full) else build.Mul(name, ones)
        for index, name in enumerate(node.inputs)
    ]


def _widest(node: Node, shapes: list[list[Dim] | None]) -> int | None:
    """The operand that has the shape of the result; None if none is known to."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    try:
        return next((i for i, a in enumerate(known) if all(covers(node, a, b) for b in known if b is not a)), None)
    except CannotConvert:
        return None


@says("Compared integers as floats where a float holds them, else two at a time")
def extreme_of_integers(node: Node) -> Replacement:
    if node.elem_type() not in (T.INT64, T.UINT64):
        return carrier_casts(HELD_BY_FLOATS)(node)
    value, *others = node.inputs
    for other in others:
        value = pick(node.build, node.op_type, value, other)
    return value


@says("Replaced Min by -Max(-x)")
def mirrored_maximum(node: Node) -> str:
    build, elem_type = node.build, node.elem_type()
    return mirror(build, str(build.emit("Max", [mirror(build, name, elem_type) for name in node.inputs])), elem_type)


changed(["Max", "Min"], 6, Pair(up=without_hint))
changed(["Max", "Min"], 8, Pair(down=extreme_of_one_shape))
changed(["Max", "Min"], 12, Pair(down=extreme_of_integers))
defined("Min", mirrored_maximum, opset=14)
