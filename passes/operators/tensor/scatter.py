"""Scatter, ScatterElements, ScatterND, TensorScatter: before they existed, and updates combined with what is there."""

from __future__ import annotations

from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import ELEMENT_TYPES
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size, never_negative
from opshift.passes.operators.shared.recipes import FLOAT8, axis_inside, axis_within, recast, wrap_negative
from opshift.passes.operators.shared.shapes import indexed_axes
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, Step, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
COMBINES = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
OF_TRUTHS = {"add": "Or", "mul": "And", "max": "Or", "min": "And"}
NARROW = {"int4": T.INT8, "uint4": T.UINT8, "float4e2m1": T.FLOAT, "float8e8m0": T.FLOAT}
CARRIERS = FLOAT8 | {ELEMENT_TYPES[f"tensor({n})"]: to for n, to in NARROW.items() if f"tensor({n})" in ELEMENT_TYPES}
"""What elements are scattered as that ScatterElements does not take."""
FLOATS = (T.FLOAT16, T.BFLOAT16, T.FLOAT, T.DOUBLE)


@says("Replaced Scatter by gathering from data and updates")
def gathered_from_data_and_updates(node: Node) -> Replacement:
    import numpy as np

    flat_indices.check_ranks(node)
    build, (data, indices, updates) = node.build, node.inputs
    dims, held, axis = node.scope.shape(data), node.scope.array(indices), axis_within(node, node.rank())
    if held is not None and dims is not None and all(isinstance(dim, int) for dim in dims):
        sizes = [dim for dim in dims if isinstance(dim, int)]
        flat_indices.check_within(node, held, sizes[axis])
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
    build, indices, elem_type = node.build, node.input(1), node.elem_type(1)
    dims, reached = flat_indices.sizes(node, node.input(0)), flat_indices.sizes(node, indices)
    size = dims[axis] if isinstance(dims[axis], int) else build.Cast(dims[axis], to=elem_type)
    if not never_negative(node.scope, indices):
        size = build.constant(size, elem_type) if isinstance(size, int) else size
        indices = wrap_negative(node, indices, size, elem_type)
    indices = build.Cast(indices, to=T.INT64) if elem_type != T.INT64 else indices
    rows, steps = list(reached), flat_indices.strides(build, reached)
    for k in range(len(dims)):
        if k != axis and rows[k] != dims[k]:  # lines that have no updates
            beyond = [*rows[:k], flat_indices.minus(build, dims[k], rows[k]), *rows[k + 1 :]]
            indices = build.Concat(indices, build.Expand(-1, flat_indices.vector(build, beyond)), axis=k)
            rows[k] = dims[k]
    rank, total = len(dims), flat_indices.product(build, dims)
    along = flat_indices.places(build, dims, [int(k == axis) for k in range(rank)])
    update = flat_indices.places(build, dims, [0 if k == axis else step for k, step in enumerate(steps)], total)
    if flat_indices.is_never_empty(dims):
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


@says("Renamed Scatter to ScatterElements")
def scatter_to_scatter_elements(node: Node) -> None:
    axis_inside(default=0)(node)
    node.op_type = "ScatterElements"


@says("Renamed ScatterElements to Scatter; replaced negative indices")
def scatter_elements_to_scatter(node: Node) -> None:
    axis = node.attributes.get("axis", 0)
    held = node.scope.array(node.input(1))
    if held is None or (held < 0).any():
        size = flat_indices.sizes(node, node.input(0))[axis]
        node.set_input(1, flat_indices.nonnegative(node, 1, size))
    node.op_type = "Scatter"


@says("Replaced ScatterND by Reshape and ScatterElements")
def scatter_into_merged_axes(node: Node) -> str:
    build, data, updates = node.build, node.input(0), node.input(2)
    if 0 in (node.scope.shape(data) or []):
        return data
    indexed, dims, places = indexed_axes(node)
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
    if flat_indices.is_never_empty(dims[1:]):  # a first size of 0 is that of the flat data, too
        return str(node.build.Reshape(flat, flat_indices.vector(node.build, dims)))
    return flat_indices.in_sizes(node, flat, dims)


@says("Replaced ScatterElements by ScatterND")
def scatter_by_coordinates(node: Node) -> str:
    flat_indices.check_ranks(node)
    build, elem_type = node.build, node.elem_type(1)
    indices, rank = recast(build, node.input(1), elem_type, T.INT64), node.rank()
    axis = node.attributes.get("axis", 0) % rank
    dims = flat_indices.sizes(node, node.input(1))
    known = [dim for dim in dims if isinstance(dim, int)]
    column = build.Unsqueeze(indices, [rank])
    columns = [column] * rank
    if len(known) == rank and prod(known) <= flat_indices.WRITTEN_OUT:
        places = np.moveaxis(np.indices(known), 0, -1)
        before, after = places[..., :axis], places[..., axis + 1 :]
        columns = [build.constant(part, T.INT64) if part.shape[-1] else "" for part in (before, after)]
        columns = [name for name in (columns[0], column, columns[1]) if name]
    else:
        shape = build.Shape(column)
        for k in (k for k in range(rank) if k != axis):
            along = build.Reshape(flat_indices.count(build, dims[k]), [-1] + [1] * (rank - k))
            columns[k] = build.Expand(along, shape)
    coordinates = build.Concat(*columns, axis=-1) if len(columns) > 1 else column
    reduction = node.attributes.get("reduction")
    return str(build.ScatterND(node.input(0), coordinates, node.input(2), reduction=reduction))


def combine_outside(*known: str) -> Step:
    """Make a step down to a version that knows only the reductions `known`."""

    @says("Combined updates with the data before writing them, as the attribute reduction did not exist")
    def combine_before_scattering(node: Node) -> Replacement:
        reduction = node.attributes.get("reduction", "none")
        if reduction not in ("none", *COMBINES):
            raise CannotConvert(node, f"reduction={reduction}", supported=f"none, {', '.join(COMBINES)}")
        if reduction in known:
            return None
        node.attributes.pop("reduction", None)
        if reduction == "none":
            return None
        if node.op_type == "ScatterElements":
            flat_indices.check_ranks(node)
        floats, once = node.elem_type() in FLOATS, _no_target_twice(node)
        if not once and node.op_type == "ScatterND" and (node.scope.shape(node.input(1)) or [1])[-1] == 0:
            raise CannotConvert(
                node,
                "the indices name no axis, so several updates write the whole data",
                supported="indices of an axis or more",
            )
        if floats and reduction in ("max", "min"):
            node.close(f"runtimes disagree on the {reduction} of NaN")
        elif floats and not once:
            node.close("combines updates of one element in order")
        kind = (OF_TRUTHS if node.elem_type() == T.BOOL else COMBINES)[reduction]
        return _combine(node.build, node, node.inputs, kind) if once else _one_after_another(node, kind)

    return combine_before_scattering


def _combine(build: Builder, node: Node, operands: list[str], kind: str) -> str:
    """scatter(data, indices, combine(gather(data, indices), updates))"""
    data, indices, updates = operands
    gather = {"ScatterElements": "GatherElements", "ScatterND": "GatherND"}[node.op_type]
    along = {"axis": node.attributes.get("axis")}
    present = build.emit(gather, [data, indices], along)
    return str(build.emit(node.op_type, [data, indices, build.emit(kind, [present, updates])], along))


def _no_target_twice(node: Node) -> bool:
    """Whether the indices are constant and no element or slice is updated twice."""
    import numpy as np

    indices, dims = node.scope.array(node.input(1)), node.scope.shape(node.input(0))
    if indices is None or (dims is None and (indices < 0).any()):
        return False
    if node.op_type == "ScatterND":
        rows = indices.reshape(prod(indices.shape[:-1]), indices.shape[-1])
        sizes = (dims or [])[: indices.shape[-1]]
        if (rows < 0).any():
            if not all(isinstance(size, int) for size in sizes):
                return False
            rows = np.where(rows < 0, rows + np.array(sizes), rows)
        return len(np.unique(rows, axis=0)) == len(rows)
    axis = node.attributes.get("axis", 0)
    if (indices < 0).any():
        size = dims[axis] if dims else None
        if not isinstance(size, int):
            return False
        indices = np.where(indices < 0, indices + size, indices)
    lines = np.sort(np.moveaxis(indices, axis, -1), axis=-1)
    return bool((lines[..., 1:] != lines[..., :-1]).all())


def _one_after_another(node: Node, kind: str) -> str:
    """A loop over the updates; no step of it updates an element twice."""
    build, (data, indices, updates) = node.build, node.inputs
    axis = node.attributes.get("axis", 0)
    if node.op_type == "ScatterND":
        indices, updates = _in_rows(node)
    kind_of_data = node.elem_type()
    carried = T.FLOAT if kind_of_data == T.BFLOAT16 and build.opset < 16 else kind_of_data  # what a Loop may carry

    def update(inner: Builder, at: str, into: str) -> str:
        one = [inner.Gather(value, inner.Reshape(at, [1]), axis=axis) for value in (indices, updates)]
        so_far = recast(inner, into, carried, kind_of_data)
        return recast(inner, _combine(inner, node, [so_far, *one], kind), kind_of_data, carried)

    count, start = build.Gather(build.Shape(indices), axis), recast(build, data, kind_of_data, carried)
    return recast(build, build.repeat(count, start, update, carried), carried, kind_of_data)


def _in_rows(node: Node) -> list[str]:
    """The indices of ScatterND, one a row, and the updates; beside a size of 0 nothing tells what a -1 is."""
    build, rank = node.build, node.rank(1)
    if rank <= 2:
        return node.inputs[1:] if rank == 2 else [build.Unsqueeze(name, [0]) for name in node.inputs[1:]]
    shapes = [node.scope.shape(name) for name in node.inputs[1:]]
    filled = all(dims is not None and all(isinstance(dim, int) and dim for dim in dims) for dims in shapes)
    leading = flat_indices.sizes(node, node.input(1))[:-1]
    count = [-1] if filled else flat_indices.vector(build, [flat_indices.product(build, leading)])
    rows = []
    for index, end in ((1, rank), (2, 2**31 - 1)):
        name, elem_type = node.input(index), node.elem_type(index)
        shape = build.Concat(count, build.Slice(build.Shape(name), [rank - 1], [end], [0]), axis=0)
        if filled or build.opset >= 14:
            rows.append(build.Reshape(name, shape, allowzero=None if filled else 1))
        else:
            rows.append(flat_indices.reshape_or_empty(build, name, shape, elem_type))
    return rows


@says("Replaced TensorScatter by ScatterElements")
def scattered_rows(node: Node) -> str:
    build, (cache, update), rank = node.build, node.inputs[:2], node.rank()
    axis, mode = node.attributes.get("axis", -2), node.attributes.get("mode", "linear")
    if mode not in ("linear", "circular") or not -rank <= axis < rank:
        raise CannotConvert(node, f"mode={mode}, axis={axis}", supported="linear or circular")
    axis %= rank
    dims = flat_indices.sizes(node, update)
    steps: list[Size] = [int(k == axis) for k in range(rank)]
    place = flat_indices.places(build, [size if step else 1 for size, step in zip(dims, steps, strict=True)], steps)
    if node.input(2):
        place = build.Add(build.Reshape(node.input(2), [-1] + [1] * (rank - 1)), place)
    if mode == "circular" and node.input(2):
        place = build.Mod(place, flat_indices.sizes(node, cache)[axis])
    indices = build.Expand(place, flat_indices.vector(build, dims))
    elem_type = node.elem_type()
    carrier = CARRIERS.get(elem_type, elem_type)
    cache, update = (recast(build, name, elem_type, carrier) for name in (cache, update))
    result = build.ScatterElements(cache, indices, update, axis=axis)
    if elem_type in FLOAT8:
        return str(build.Cast(result, to=elem_type, saturate=0))
    return recast(build, result, carrier, elem_type)


changed("Scatter", 9, Pair(down=gathered_from_data_and_updates))
changed("Scatter", 11, Pair(up=scatter_to_scatter_elements))
changed("ScatterElements", 11, Pair(down=scatter_elements_to_scatter))
changed("ScatterND", 11, Pair(down=scatter_into_merged_axes))
changed(["ScatterElements", "ScatterND"], 16, Pair(down=combine_outside()))
changed(["ScatterElements", "ScatterND"], 18, Pair(down=combine_outside("none", "add", "mul")))
defined("ScatterElements", scatter_by_coordinates, opset=18)
changed("TensorScatter", 24, Pair(down=scattered_rows))
