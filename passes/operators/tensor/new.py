"""Picking and writing elements by their indices, before the operators for it."""

from __future__ import annotations

from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size, never_negative
from opshift.passes.operators.shared.recipes import counted_from_front, recast
from opshift.passes.operators.tensor.choose import MULTIPLIED
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto


def _axis(node: Node, rank: int, default: int = 0) -> int:
    axis = node.attributes.get("axis", default)
    if not -rank <= axis < rank:
        raise CannotConvert(node, f"axis {axis} lies outside rank {rank}")
    return int(axis) % rank


# --- 11: GatherElements, ScatterElements --------------------------------------------------------------------


@says("GatherElements did not exist: elements are gathered from the flattened data by their places in it.")
def gathered_from_flat_data(node: Node) -> str:
    build, data, rank = node.build, node.input(0), node.rank()
    axis, dims = _axis(node, rank), flat_indices.sizes(node, data)
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


@says("ScatterElements was called Scatter, and took no negative indices.")
def scatter_elements_to_scatter(node: Node) -> None:
    axis = node.attributes.get("axis", 0)
    held = node.scope.array(node.input(1))
    if held is None or (held < 0).any():
        size = flat_indices.sizes(node, node.input(0))[axis]
        node.set_input(1, flat_indices.nonnegative(node, 1, size))
    node.op_type = "Scatter"


changed("GatherElements", 11, Pair(down=gathered_from_flat_data))
changed("ScatterElements", 11, Pair(down=scatter_elements_to_scatter))


# --- 11: GatherND, ScatterND --------------------------------------------------------------------------------


@says("GatherND did not exist: the axes that are indexed become one, along which slices are gathered.")
def gathered_from_merged_axes(node: Node) -> str:
    indexed, data, places = _indexed(node)
    return str(node.build.Gather(flat_indices.merged(node, node.input(0), data, indexed), places, axis=0))


@says("ScatterND did not exist: the axes that are indexed become one, along which elements are scattered.")
def scattered_into_merged_axes(node: Node) -> str:
    build, data, updates = node.build, node.input(0), node.input(2)
    if 0 in (node.scope.shape(data) or []):
        return data
    indexed, dims, places = _indexed(node)
    if indexed == len(dims):
        rows = build.Reshape(places, [-1])
        flat = build.Scatter(build.Reshape(data, [-1]), rows, build.Reshape(updates, [-1]), axis=0)
        return _in_shape_of_data(node, flat, dims)
    inner = flat_indices.product(build, dims[indexed:])
    count = flat_indices.product(build, flat_indices.sizes(node, node.input(1))[:-1])
    filled = isinstance(inner, int)
    flat = build.Scatter(
        build.Reshape(data, [-1, inner]) if filled else build.Flatten(data, axis=indexed),
        build.Expand(build.Reshape(places, [-1, 1]), flat_indices.vector(build, [count, inner])),
        build.Reshape(updates, [-1, inner]) if filled else build.Flatten(updates, axis=node.rank(1) - 1),
        axis=0,
    )
    return _in_shape_of_data(node, flat, dims)


def _in_shape_of_data(node: Node, flat: str, dims: list[Size]) -> str:
    if len(dims) == 1:
        return flat
    if flat_indices.filled(dims[1:]):  # a first size of 0 is that of the flat data, too
        return str(node.build.Reshape(flat, flat_indices.vector(node.build, dims)))
    return flat_indices.in_sizes(node, flat, dims)


def _indexed(node: Node) -> tuple[int, list[Size], str]:
    """How many axes are indexed, the sizes of the data, and where on the merged axis each slice lies."""
    build, rank = node.build, node.rank(1)
    dims = flat_indices.sizes(node, node.input(0))
    indexed = (node.scope.shape(node.input(1)) or [None])[-1]
    if not isinstance(indexed, int):
        raise CannotConvert(node, "the last size of the indices is unknown; a known size could be expressed")
    if not 1 <= indexed <= len(dims):
        raise CannotConvert(node, f"{indexed} of {len(dims)} axes are indexed")
    indices = flat_indices.nonnegative(node, 1, flat_indices.vector(build, dims[:indexed]))
    if indexed == 1:
        return indexed, dims, str(build.Squeeze(indices, axes=[rank - 1]))
    steps = flat_indices.vector(build, flat_indices.strides(build, dims[:indexed]))
    return indexed, dims, str(build.ReduceSum(build.Mul(indices, steps), axes=[rank - 1], keepdims=0))


changed("GatherND", 11, Pair(down=gathered_from_merged_axes))
changed("ScatterND", 11, Pair(down=scattered_into_merged_axes))


# --- 10: ReverseSequence ------------------------------------------------------------------------------------


@says("ReverseSequence did not exist: the elements of each sequence are gathered from its end.")
def gathered_backwards(node: Node) -> str:
    build, data = node.build, node.input(0)
    time, batch = node.attributes.get("time_axis", 0), node.attributes.get("batch_axis", 1)
    if {time, batch} != {0, 1}:
        raise CannotConvert(node, f"time_axis={time}, batch_axis={batch}; 0 and 1 could be expressed")
    if 0 in (node.scope.shape(data) or []):
        return data
    dims = flat_indices.sizes(node, data)
    steps = flat_indices.strides(build, dims[:2])
    across = [-1, 1] if batch == 0 else [1, -1]
    at = build.Reshape(flat_indices.count(build, dims[time]), across[::-1])
    lengths = build.Reshape(node.input(1), across)
    source = build.Where(build.Less(at, lengths), build.Sub(build.Sub(lengths, 1), at), at)
    if steps[time] != 1:
        source = build.Mul(source, steps[time])
    of_batch = build.Reshape(flat_indices.count(build, dims[batch]), across)
    if steps[batch] != 1:
        of_batch = build.Mul(of_batch, steps[batch])
    return str(build.Gather(flat_indices.merged(node, data, dims, 2), build.Add(source, of_batch), axis=0))


changed("ReverseSequence", 10, Pair(down=gathered_backwards))


# --- 9: Compress, OneHot, NonZero, Scatter ------------------------------------------------------------------


@says("Compress did not exist: the slices that the condition selects are gathered.")
def gathered_where_true(node: Node) -> str:
    build, data, condition = node.build, node.input(0), node.scope.array(node.input(1))
    if condition is None:
        chosen = flat_indices.where_true(build, node.input(1))
    else:
        chosen = build.constant(tensors.int64s(condition.nonzero()[0].tolist()))
    if "axis" not in node.attributes:
        return str(build.Gather(build.Reshape(data, [-1]), chosen, axis=0))
    return str(build.Gather(data, chosen, axis=node.attributes["axis"]))


@says("OneHot did not exist: off and on are gathered where an index differs from its place and where it does not.")
def gathered_off_and_on(node: Node) -> str:
    build, (indices, depth, values) = node.build, node.inputs
    axis = node.attributes.get("axis", -1)
    if node.elem_type() != T.INT64:
        indices = build.Cast(indices, to=T.INT64)
    held = node.scope.array(depth)
    size: Size = int(held.reshape(-1)[0]) if held is not None else build.Reshape(build.Cast(depth, to=T.INT64), [])
    if axis == -1:
        places: Size = flat_indices.count(build, size)
        column = build.Reshape(indices, build.Concat(build.Shape(indices), [1], axis=0))
    else:
        rank = node.rank() + 1
        axis = _axis(node, rank)
        column = build.Unsqueeze(indices, axes=[axis])
        steps: list[Size] = [int(k == axis) for k in range(rank)]
        places = flat_indices.places(build, [size if step else 1 for step in steps], steps)
    return str(build.Gather(values, build.Cast(build.Equal(column, places), to=T.INT32), axis=0))


@says("values[1] where the index, or the index plus depth, is the place along axis, else values[0]")
def compared_with_places(node: Node) -> str:
    build, scope, axis = node.build, node.scope, node.attributes.get("axis", -1)
    depth, values = scope.array(node.input(1)), scope.array(node.input(2))
    after = -axis - 1 if axis < 0 else node.rank() - axis
    column = build.Unsqueeze(recast(build, node.input(0), node.elem_type(), T.INT64), [axis])
    ones = [1] * after
    if depth is not None:
        size = int(depth.reshape(-1)[0])
        places = build.constant(tensors.int64s(range(size), [size, *ones]))
        from_end = build.constant(tensors.int64s(range(-size, 0), [size, *ones]))
    else:
        number = build.Reshape(recast(build, node.input(1), node.elem_type(1), T.INT64), [])
        places = build.Range(0, number, 1)
        places = build.Reshape(places, [-1, *ones]) if ones else places
        from_end = build.Sub(places, number)
    here = build.Or(build.Equal(column, places), build.Equal(column, from_end))
    if values is None:
        return str(build.Gather(node.input(2), build.Cast(here, to=T.INT32), axis=0))
    off, on = (build.constant(value, node.elem_type(2)) for value in values)
    return str(build.Where(here, on, off))


@says("The slices along axis, or the elements, at the places of condition that are not zero")
def gathered_where_nonzero(node: Node) -> str:
    if node.scope.array(node.input(1)) is not None:
        return gathered_where_true(node)
    build, axis = node.build, node.attributes.get("axis")
    places = build.Squeeze(build.NonZero(node.input(1)), [0])
    data = node.input(0) if axis is not None else build.Reshape(node.input(0), [-1])
    return str(build.Gather(data, places, axis=axis or 0))


# The types that Cast turns into bool.
BOOLEAN_BY_CAST = (T.BOOL, T.FLOAT16, T.FLOAT, T.DOUBLE, *MULTIPLIED)

# Operators that make no other elements than those of their first input.
REPEATS = ("Expand", "Tile", "Reshape", "Unsqueeze", "Identity")


@says("NonZero did not exist: it is written out for a constant, counted where all are the same, or found by a loop.")
def found_one_after_another(node: Node) -> str:
    build, scope, name = node.build, node.scope, node.input(0)
    held, shape = scope.array(name), scope.shape(name)
    if shape == []:
        raise CannotConvert(node, "the data is a scalar, of which runtimes make different shapes")
    if held is not None:
        import numpy as np

        return build.constant(np.array(np.nonzero(held)), T.INT64)
    while held is None and (made := scope.producer(name)) is not None and made.op_type in REPEATS:
        name = made.input[0]
        held = scope.array(name)
    if held is not None and held.all() and shape is not None and len(shape) == 1:
        count = build.Reshape(build.Shape(node.input(0)), [])
        return str(build.Reshape(flat_indices.count(build, count), [1, -1]))
    return _coordinates(node)


def _coordinates(node: Node) -> str:
    build, name = node.build, node.input(0)
    if node.elem_type() not in BOOLEAN_BY_CAST:
        raise CannotConvert(node, "which strings or complex numbers are not zero can be told of constants alone")
    dims = flat_indices.sizes(node, name)
    flat = build.Reshape(name, [-1]) if len(dims) > 1 else name
    rest = flat_indices.where_true(build, flat if node.elem_type() == T.BOOL else build.Cast(flat, to=T.BOOL))
    rows = list[str]()
    for step in flat_indices.strides(build, dims)[:-1]:
        rows.append(flat_indices.rows(build, rest, step))
        rest = build.Sub(rest, build.Mul(rows[-1], step))
    rows = [build.Unsqueeze(row, axes=[0]) for row in (*rows, rest)]
    return rows[0] if len(rows) == 1 else str(build.Concat(*rows, axis=0))


@says("Scatter did not exist: each element is gathered from the data or from the updates.")
def gathered_from_data_and_updates(node: Node) -> Replacement:
    import numpy as np

    build, (data, indices, updates) = node.build, node.inputs
    dims, held, axis = node.scope.shape(data), node.scope.array(indices), _axis(node, node.rank())
    if held is not None and dims is not None and all(isinstance(dim, int) for dim in dims):
        sizes = [dim for dim in dims if isinstance(dim, int)]
        source = np.arange(prod(sizes)).reshape(sizes)
        grid = list(np.indices(held.shape))
        grid[axis] = np.where(held < 0, held + sizes[axis], held)
        flat = source.reshape(-1).copy()
        flat[source[tuple(grid)].reshape(-1)] = flat.size + np.arange(held.size)
        places = build.constant(flat.reshape(sizes), T.INT64)
    else:
        places = _places_of_the_latest(node, axis)
    both = build.Concat(build.Reshape(data, [-1]), build.Reshape(updates, [-1]), axis=0)
    return str(build.Gather(both, places, axis=0))


def _places_of_the_latest(node: Node, axis: int) -> str:
    """Where each element lies, in the flattened data or in the updates after it: a loop over the updates of a line."""
    build, indices, kind = node.build, node.input(1), node.elem_type(1)
    dims, reached = flat_indices.sizes(node, node.input(0)), flat_indices.sizes(node, indices)
    size = dims[axis] if isinstance(dims[axis], int) else build.Cast(dims[axis], to=kind)
    if not never_negative(node.scope, indices):
        size = build.constant(size, kind) if isinstance(size, int) else size
        indices = counted_from_front(node, indices, size, kind)
    indices = build.Cast(indices, to=T.INT64) if kind != T.INT64 else indices
    rows, steps = list(reached), flat_indices.strides(build, reached)
    for k in range(len(dims)):
        if k != axis and rows[k] != dims[k]:  # lines that have no updates
            beyond = [*rows[:k], flat_indices.minus(build, dims[k], rows[k]), *rows[k + 1 :]]
            indices = build.Concat(indices, build.Expand(-1, flat_indices.vector(build, beyond)), axis=k)
            rows[k] = dims[k]
    rank, total = len(dims), flat_indices.product(build, dims)
    along = flat_indices.places(build, dims, [int(k == axis) for k in range(rank)])
    update = flat_indices.places(build, dims, [0 if k == axis else step for k, step in enumerate(steps)], total)
    if flat_indices.filled(dims):
        own = build.Reshape(flat_indices.count(build, total), flat_indices.vector(build, dims))
    else:  # a 0 in the shape of a Reshape would copy a size
        own = build.Expand(
            flat_indices.places(build, dims, flat_indices.strides(build, dims)), flat_indices.vector(build, dims)
        )

    def overwrite(inner: Builder, at: str, places: str) -> str:
        target = inner.Gather(indices, inner.Reshape(at, [1]), axis=axis)
        there = inner.Cast(inner.Equal(target, along), to=T.INT64)
        latest = inner.Add(update, at if steps[axis] == 1 else inner.Mul(at, steps[axis]))
        return str(inner.Add(places, inner.Mul(there, inner.Sub(latest, places))))

    return build.repeat(reached[axis], own, overwrite, T.INT64)


changed("Compress", 9, Pair(down=gathered_where_true))
changed("OneHot", 9, Pair(down=gathered_off_and_on))
changed("NonZero", 9, Pair(down=found_one_after_another))
changed("Scatter", 9, Pair(down=gathered_from_data_and_updates))
defined("Compress", gathered_where_nonzero, opset=13)
defined("OneHot", compared_with_places, opset=16)
