"""Gather, GatherElements and GatherND: indices counted from the end, and before they existed."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import never_negative
from opshift.passes.operators.shared.recipes import axis_within, wrap_negative
from opshift.passes.operators.shared.shapes import indexed_axes, size_along
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined, same
from opshift.passes.rewrite.says import says

T = TensorProto
END = 2**63 - 1
_MOST_SLICES = 16
"""More are slower than what a backend does where it lacks Gather."""


@says("Replaced negative indices by positive ones")
def nonnegative_indices(node: Node) -> None:
    name = node.input(1)
    held = node.scope.array(name)
    if not (held < 0).any() if held is not None else never_negative(node.scope, name):
        return
    build, elem_type = node.build, node.elem_type(1)
    size = size_along(node, node.attributes.get("axis", 0))
    if held is not None and isinstance(size, int):
        flat_indices.check_within(node, held, size)
        node.set_input(1, build.constant(held + (held < 0) * size, elem_type, "indices"))
        return
    if isinstance(size, int):
        size = build.constant(size, elem_type)
    elif elem_type != T.INT64:
        size = build.Cast(size, to=elem_type)
    node.set_input(1, wrap_negative(node, name, size, elem_type))


@says("Replaced GatherElements by Gather from the flattened data")
def gather_from_flat_data(node: Node) -> str:
    flat_indices.check_ranks(node)
    build, data, rank = node.build, node.input(0), node.rank()
    axis, dims = axis_within(node, rank), flat_indices.sizes(node, data)
    indices = flat_indices.nonnegative(node, 1, dims[axis])
    if rank == 1:
        return str(build.Gather(data, indices, axis=0))
    steps = flat_indices.strides(build, dims)
    others = [0 if k == axis else step for k, step in enumerate(steps)]
    along = build.Mul(indices, steps[axis]) if steps[axis] != 1 else indices
    places = flat_indices.plus(
        build, along, flat_indices.places(build, flat_indices.sizes(node, node.input(1)), others)
    )
    return str(build.Gather(build.Reshape(data, [-1]), places, axis=0))


@says("Replaced GatherND by Reshape and Gather")
def gather_from_merged_axes(node: Node) -> str:
    indexed, data, places = indexed_axes(node)
    return str(node.build.Gather(flat_indices.merge_axes(node, node.input(0), data, indexed), places, axis=0))


@says("Replaced batch_dims by indices that include the position in the batch")
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


@says("Replaced Gather of constant indices by Slice")
def slices_side_by_side(node: Node) -> str:
    build, x, axis = node.build, node.input(0), node.attributes.get("axis", 0)
    held = node.scope.array(node.input(1))
    if held is None:
        raise CannotConvert(node, f'the indices "{node.input(1)}" are not constant', supported="constant indices")
    runs: list[list[int]] = []
    for index in map(int, held.reshape(-1)):
        if runs and index == runs[-1][-1] + 1 and index:  # -1 ends a run, as 0 begins at the other end
            runs[-1].append(index)
        else:
            runs.append([index])
    if held.ndim > 1 or not 0 < len(runs) <= _MOST_SLICES:
        found = f"indices of rank {held.ndim} in {len(runs)} runs"
        raise CannotConvert(node, found, supported=f"a number, or a list of at most {_MOST_SLICES} runs of neighbours")
    parts = [build.Slice(x, [run[0]], [run[-1] + 1 or END], [axis]) for run in runs]
    if held.ndim == 0:
        return str(build.Squeeze(parts[0], [axis]))
    return str(build.Concat(*parts, axis=axis) if len(parts) > 1 else parts[0])


defined("Gather", slices_side_by_side, opset=13)
changed("Gather", 11, Pair(down=nonnegative_indices))
same(["Gather", "GatherElements"], 13, "only the text and bfloat16 changed")
changed("GatherElements", 11, Pair(down=gather_from_flat_data))
changed("GatherND", 11, Pair(down=gather_from_merged_axes))
changed("GatherND", 12, Pair(down=batch_coordinates))
same("GatherND", 13, "only the text and bfloat16 changed")
