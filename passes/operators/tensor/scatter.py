"""The scatter family: Scatter became ScatterElements, and updates may be combined with what is there."""

from __future__ import annotations

from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, Step, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto

COMBINES = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
FLOATS = (T.FLOAT16, T.BFLOAT16, T.FLOAT, T.DOUBLE)


@says("Scatter was replaced by ScatterElements, which does the same.")
def scatter_to_scatter_elements(node: Node) -> None:
    node.op_type = "ScatterElements"


@says("data with updates written, or combined, where the coordinates of each index lead, its own along axis")
def scattered_by_coordinates(node: Node) -> str:
    build, kind = node.build, node.elem_type(1)
    indices, rank = recast(build, node.input(1), kind, T.INT64), node.rank()
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


def combined_outside(*known: str) -> Step:
    """For a version whose reduction takes `known` at most."""

    @says("reduction did not exist, or not this one: updates are combined with what is there, then written.")
    def combine_before_scattering(node: Node) -> Replacement:
        reduction = node.attributes.get("reduction", "none")
        if reduction not in ("none", *COMBINES):
            raise CannotConvert(node, f"reduction={reduction}; none, {', '.join(COMBINES)} could be expressed")
        if reduction in known:
            return None
        node.attributes.pop("reduction", None)
        if reduction == "none":
            return None
        floats, once = node.elem_type() in FLOATS, _no_target_twice(node)
        if floats and reduction in ("max", "min"):
            node.close(f"runtimes differ on the {reduction} of NaN")
        elif floats and not once:
            node.close("updates of one element are combined in their order")
        if once:
            return _combined(node.build, node, node.inputs, COMBINES[reduction])
        return _one_after_another(node, COMBINES[reduction])

    return combine_before_scattering


def _combined(build: Builder, node: Node, operands: list[str], kind: str) -> str:
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
        rows = indices.reshape(-1, indices.shape[-1])
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
        rank = node.rank(1)
        rows = build.Concat([-1], build.Slice(build.Shape(indices), [rank - 1], [rank], [0]), axis=0)
        tail = build.Slice(build.Shape(updates), [rank - 1], [2**31 - 1], [0])
        indices = build.Reshape(indices, rows)
        updates = build.Reshape(updates, build.Concat([-1], tail, axis=0))

    def update(inner: Builder, at: str, into: str) -> str:
        one = [inner.Gather(value, inner.Reshape(at, [1]), axis=axis) for value in (indices, updates)]
        return _combined(inner, node, [into, *one], kind)

    return build.repeat(build.Gather(build.Shape(indices), axis), data, update, node.elem_type())


changed("Scatter", 11, Pair(up=scatter_to_scatter_elements))
changed(["ScatterElements", "ScatterND"], 16, Pair(down=combined_outside()))
changed(["ScatterElements", "ScatterND"], 18, Pair(down=combined_outside("none", "add", "mul")))
defined("ScatterElements", scattered_by_coordinates, opset=18)
