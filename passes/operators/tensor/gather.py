"""Picking elements by their indices: Gather, GatherElements, GatherND, OneHot, Compress."""

from __future__ import annotations

from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.flat_indices import never_negative
from opshift.passes.operators.shared.recipes import BFLOAT16, carried, counted_from_front, nonnegative_axis
from opshift.passes.operators.tensor.shape import size_along
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, same
from opshift.passes.rewrite.says import says

T = TensorProto


# --- Gather -------------------------------------------------------------------------------------------------

UNSIGNED_INTEGERS = {T.UINT8, T.UINT16, T.UINT32, T.UINT64}


@says("Negative indices were not allowed and are counted from the front.")
def nonnegative_indices(node: Node) -> None:
    name = node.input(1)
    held = node.scope.array(name)
    if not (held < 0).any() if held is not None else never_negative(node.scope, name):
        return
    build, elem_type = node.build, node.elem_type(1)
    size = size_along(node, node.attributes.get("axis", 0))
    if held is not None and isinstance(size, int):
        node.set_input(1, build.constant(held + (held < 0) * size, elem_type, "indices"))
        return
    if isinstance(size, int):
        size = build.constant(size, elem_type)
    elif elem_type != T.INT64:
        size = build.Cast(size, to=elem_type)
    node.set_input(1, counted_from_front(node, name, size, elem_type))


changed("Gather", 11, Pair(down=nonnegative_indices))
same(["Gather", "GatherElements"], 13, "bfloat16 came; the text was rewritten")


# --- GatherND -----------------------------------------------------------------------------------------------


@says("batch_dims did not exist: every index is preceded by its own place in the batch.")
def batch_coordinates(node: Node) -> None:
    batch = node.attributes.pop("batch_dims", 0)
    if not batch:
        return
    build, indices, rank = node.build, node.input(1), node.rank(1)
    lead = build.Slice(build.Shape(indices), [0], [-1], [0])
    one_each = build.Concat(lead, [1], axis=0)
    coordinates = []
    for axis in range(batch):
        length = build.Slice(lead, [axis], [axis + 1], [0])
        count = build.Squeeze(build.NonZero(build.ConstantOfShape(length, value=tensors.int64s([1]))), axes=[0])
        others = [other for other in range(rank) if other != axis]
        coordinates.append(build.Expand(build.Unsqueeze(count, axes=others), one_each))
    node.set_input(1, build.Concat(*coordinates, indices, axis=rank - 1))


changed("GatherND", 12, Pair(down=batch_coordinates))
same("GatherND", 13, "bfloat16 came; the text was rewritten")


# --- OneHot -------------------------------------------------------------------------------------------------


@says("Indices from -depth to -1 had no meaning and are counted from the front; lower ones leave the range.")
def nonnegative_classes(node: Node) -> None:
    axis = node.attributes.get("axis", -1)
    if axis < -1:
        node.attributes["axis"] = axis + node.rank() + 1
    name = node.input(0)
    held = node.scope.array(name)
    if node.elem_type() in UNSIGNED_INTEGERS or (
        not (held < 0).any() if held is not None else never_negative(node.scope, name)
    ):
        return
    build = node.build
    indices, depth = (
        node.input(i) if node.elem_type(i) == T.INT64 else build.Cast(node.input(i), to=T.INT64) for i in (0, 1)
    )
    for outside in (build.Add(indices, depth), depth):
        indices = build.Where(build.Less(indices, 0), outside, indices)
    node.set_input(0, indices)


# The text of 9 says that indices must not be negative, so that going up loses nothing.
changed("OneHot", 11, Pair(down=nonnegative_classes))
changed("OneHot", 28, Pair(down=carried(BFLOAT16, variable="T3")))


# --- Compress -----------------------------------------------------------------------------------------------

changed("Compress", 11, Pair(down=nonnegative_axis(default=0)))
changed("Compress", 28, Pair(down=carried(BFLOAT16)))
