"""OneHot: negative indices, and before it existed."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size, never_negative
from opshift.passes.operators.shared.recipes import BFLOAT16, axis_within, carrier_casts, recast
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
MOST_PLACES = 1 << 20
UNSIGNED_INTEGERS = {T.UINT8, T.UINT16, T.UINT32, T.UINT64}


def _held_depth(node: Node) -> int | None:
    """The number of places, where it is constant and a list of them is not too long to be written down."""
    held = node.scope.array(node.input(1))
    depth = None if held is None else int(held.reshape(-1)[0])
    if depth is not None and depth < 0:
        raise CannotConvert(node, f"the depth is {depth}", supported="0 or more")
    return depth if depth is None or depth <= MOST_PLACES else None


@says("Replaced OneHot by comparing indices with positions, and Gather")
def gathered_off_and_on(node: Node) -> str:
    build, (indices, depth, values) = node.build, node.inputs
    axis = node.attributes.get("axis", -1)
    if node.elem_type() != T.INT64:
        indices = build.Cast(indices, to=T.INT64)
    held = _held_depth(node)
    size: Size = held if held is not None else build.Reshape(build.Cast(depth, to=T.INT64), [])
    if axis == -1:
        places: Size = flat_indices.count(build, size)
        column = build.Reshape(indices, build.Concat(build.Shape(indices), [1], axis=0))
    else:
        rank = node.rank() + 1
        axis = axis_within(node, rank)
        column = build.Unsqueeze(indices, axes=[axis])
        steps: list[Size] = [int(k == axis) for k in range(rank)]
        places = flat_indices.places(build, [size if step else 1 for step in steps], steps)
    return str(build.Gather(values, build.Cast(build.Equal(column, places), to=T.INT32), axis=0))


@says("Replaced negative indices of OneHot by positive ones")
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
    if not node.scope.shape(node.input(0)) and node.scope.shape(node.input(1)) != []:
        depth = build.Reshape(depth, [])  # one element would make a vector of a single index
    for outside in (build.Add(indices, depth), depth):
        indices = build.Where(build.Less(indices, 0), outside, indices)
    node.set_input(0, indices)


@says("Replaced OneHot by Where(index == position, on, off)")
def compare_with_places(node: Node) -> str:
    build, scope, axis = node.build, node.scope, node.attributes.get("axis", -1)
    size, values = _held_depth(node), scope.array(node.input(2))
    after = -axis - 1 if axis < 0 else node.rank() - axis
    column = build.Unsqueeze(recast(build, node.input(0), node.elem_type(), T.INT64), [axis])
    ones = [1] * after
    if size is not None:
        places: Size = build.constant(tensors.int64s(range(size), [size, *ones]))
    else:
        number = build.Reshape(recast(build, node.input(1), node.elem_type(1), T.INT64), [])
        places = build.Range(0, number, 1)
        places = build.Reshape(places, [-1, *ones]) if ones else places
    here = build.Equal(column, places)
    if node.elem_type() not in UNSIGNED_INTEGERS:  # of uint64, what is beyond int64 becomes negative
        if size is not None:
            from_end = build.constant(tensors.int64s(range(-size, 0), [size, *ones]))
        else:
            from_end = build.Sub(places, number)
        here = build.Or(here, build.Equal(column, from_end))
    if values is None:
        return str(build.Gather(node.input(2), build.Cast(here, to=T.INT32), axis=0))
    off, on = (build.constant(value, node.elem_type(2)) for value in values)
    return str(build.Where(here, on, off))


changed("OneHot", 9, Pair(down=gathered_off_and_on))
# The text of 9 says that indices must not be negative, so that going up loses nothing.
changed("OneHot", 11, Pair(down=nonnegative_classes))
changed("OneHot", 28, Pair(down=carrier_casts(BFLOAT16, variable="T3")))
defined("OneHot", compare_with_places, opset=16)
