"""Picking elements by their indices: Gather, GatherElements, GatherND, OneHot, Compress."""

from __future__ import annotations

from opshift.passes.protos import TensorProto, default_domain
from opshift.passes.registry import Pair, changed, same
from opshift.passes.scope import Scope
from opshift.passes.steps._recipes import counted_from_front
from opshift.passes.view import Node

T = TensorProto


# --- Gather -------------------------------------------------------------------------------------------------

# Operators that make no negative number, and those that make none of numbers that are not negative.
NONNEGATIVE = {"Shape", "Size", "NonZero", "ArgMax", "ArgMin"}
TRANSPARENT = {
    "Identity",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Transpose",
    "Slice",
    "Gather",
    "Expand",
    "Tile",
}
UNSIGNED = {T.BOOL, T.UINT8, T.UINT16}


def never_negative(scope: Scope, name: str) -> bool:
    """Whether the operators that make a value tell that no element of it is negative."""
    while name:
        node = scope.producer(name)
        if node is None or default_domain(node.domain):
            return False
        if node.op_type in NONNEGATIVE or (
            node.op_type == "Cast" and scope.elem_type(node.input[0]) in UNSIGNED
        ):
            return True
        if node.op_type not in TRANSPARENT:
            return False
        name = node.input[0]
    return False


def nonnegative_indices(node: Node) -> None:
    """Negative indices were not allowed and are counted from the front."""
    name = node.input(1)
    if never_negative(node.scope, name):
        return
    axis = node.attributes.get("axis", 0)
    dims = node.scope.shape(node.input(0))
    size = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
    held = node.scope.array(name)
    if held is not None and not (held < 0).any():
        return
    elem_type = node.elem_type(1)
    if held is not None and isinstance(size, int):
        node.set_input(1, node.build.constant((held < 0) * size + held, elem_type, "indices"))
        return
    node.set_input(1, counted_from_front(node, name, _size(node, axis, size, elem_type), elem_type))


def _size(node: Node, axis: int, known: object, elem_type: int) -> str:
    build = node.build
    if isinstance(known, int):
        return build.constant(known, elem_type)
    shape = build.Shape(node.input(0))
    at = axis if axis >= 0 else build.Add(build.Size(shape), axis)
    size = build.Gather(shape, at)
    return str(size if elem_type == T.INT64 else build.Cast(size, to=elem_type))


changed("Gather", 11, Pair(down=nonnegative_indices))
same(["Gather", "GatherElements"], 13, "bfloat16 came; the text was rewritten")
