"""TopK: k became an input (10); the smallest elements and integers came (11), bfloat16 (24)."""

from __future__ import annotations

from opshift.passes import constants
from opshift.passes.errors import CannotConvert
from opshift.passes.protos import TensorProto
from opshift.passes.registry import Pair, Replacement, changed
from opshift.passes.steps._recipes import carried, nonnegative_axis
from opshift.passes.steps.math import BFLOAT16, HELD_BY_FLOATS
from opshift.passes.view import Node

T = TensorProto


def k_to_input(node: Node) -> None:
    """k was an attribute and becomes an input."""
    node.set_input(1, node.build.constant(constants.int64s([node.attributes.pop("k")]), hint="k"))


def k_to_attribute(node: Node) -> Replacement:
    """k becomes an attribute; where it is known only at run time, all are sorted and the first k taken."""
    held = node.scope.ints(node.input(1))
    if held is not None and len(held) == 1:
        node.set_input(1, "")
        node.attributes["k"] = held[0]
        return None
    dims, axis = node.scope.shape(node.input(0)), node.attributes.get("axis", -1)
    length = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
    if dims is None or not isinstance(length, int):
        raise CannotConvert(node, "k is known only at run time; a constant k, or a fixed length, could be expressed")
    build = node.build
    ones = build.ConstantOfShape(node.input(1), value=constants.int64s([1]))
    first = build.Squeeze(build.NonZero(ones), axes=[0])
    return [
        build.Gather(out, first, axis=axis % len(dims)) for out in build.again(node.proto, [node.input(0)], k=length)
    ]


def largest_in_order(node: Node) -> Replacement:
    """The largest were taken, in order: of negated elements for the smallest, through floats for integers."""
    node.attributes.pop("sorted", 1)  # 0 allows any order
    largest = node.attributes.pop("largest", 1)
    if node.attributes.get("axis", -1) < -1:  # the default shows that -1 was allowed
        nonnegative_axis(default=-1)(node)
    kind, build = node.elem_type(), node.build
    if kind in (T.INT64, T.UINT64):
        raise CannotConvert(node, f'"{node.input(0)}" has 64 bits; integers up to 32 bits could be expressed')
    if largest and kind not in HELD_BY_FLOATS:
        return None
    x = build.Cast(node.input(0), to=HELD_BY_FLOATS[kind]) if kind in HELD_BY_FLOATS else node.input(0)
    values, indices = build.again(node.proto, [x if largest else build.Neg(x), node.input(1)])
    values = values if largest else build.Neg(values)
    return [build.Cast(values, to=kind) if kind in HELD_BY_FLOATS else values, indices]


changed("TopK", 10, Pair(up=k_to_input, down=k_to_attribute))
changed("TopK", 11, Pair(down=largest_in_order))
changed("TopK", 24, Pair(down=carried(BFLOAT16)))
