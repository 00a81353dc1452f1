"""Sizes and axes of shapes that are known in part, and what is reshaped where a size may be 0."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import Dim
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size, empty, is_never_empty, reshape_or_empty
from opshift.passes.rewrite.node import Node

T = TensorProto


def size_along(node: Node, axis: int) -> Size:
    """The size of the first input along an axis."""
    dims = node.scope.shape(node.input(0))
    if dims is not None and not -len(dims) <= axis < len(dims):
        raise CannotConvert(node, f"axis {axis} is out of range for rank {len(dims)}")
    known = None if dims is None else dims[axis]
    if isinstance(known, int):
        return known
    build = node.build
    shape = build.Shape(node.input(0))
    if axis < 0:
        return str(build.Gather(shape, build.Add(build.Size(shape), axis) if dims is None else axis + len(dims)))
    return str(build.Gather(shape, axis))


def axes_from_front(node: Node, axes: list[int], rank: int) -> list[int]:
    """Axes counted from the front."""
    if not all(-rank <= axis < rank for axis in axes):
        raise CannotConvert(node, f"axes {axes} are out of range for rank {rank}")
    return [axis % rank for axis in axes]


def in_shape(node: Node, shape: str) -> str:
    """The first input in a shape known at run time, in which a 0 is an empty dimension."""
    build, x = node.build, node.input(0)
    dims = node.scope.shape(x)
    if dims is not None and all(isinstance(dim, int) and dim > 0 for dim in dims):
        return str(build.Reshape(x, shape))
    elem_type = fillable_type(node)
    if 0 in (dims or []):
        return empty(build, shape, elem_type)
    if elem_type == T.BFLOAT16:  # which If takes from 16 on
        return str(build.Cast(reshape_or_empty(build, build.Cast(x, to=T.FLOAT), shape, T.FLOAT), to=elem_type))
    return reshape_or_empty(build, x, shape, elem_type)


def fillable_type(node: Node) -> int:
    elem_type = node.elem_type()
    if elem_type in (T.COMPLEX64, T.COMPLEX128):
        raise CannotConvert(node, "the data are complex numbers and may be empty", supported="any other type")
    return elem_type


def share_along(node: Node, name: str, axis: int, parts: Size) -> Size:
    """The size of a value along an axis, divided by a number of parts."""
    build, dims = node.build, node.scope.shape(name)
    size: Size | Dim = dims[axis] if dims is not None else None
    if isinstance(size, int) and isinstance(parts, int):
        return size // parts
    size = size if isinstance(size, int) else build.Gather(build.Shape(name), axis)
    return str(build.Div(size, parts) if parts != 1 else size)


def reshape_behind(node: Node, name: str, kept: int, sizes: Sequence[Size]) -> str:
    """Reshape the axes behind the first `kept` ones; a -1 would be unclear where one of those may be 0."""
    build = node.build
    if is_never_empty(sizes):
        return str(build.Reshape(name, [0] * kept + [size for size in sizes if isinstance(size, int)]))
    shape = build.Concat(build.Shape(name, end=kept), flat_indices.vector(build, [*sizes]), axis=0)
    return str(build.Reshape(name, shape, allowzero=1))


def regroup(node: Node, name: str, kept: int, sizes: Sequence[Size | None]) -> str:
    """A value with its first axes kept and new ones behind them.

    The size that is None takes what the others leave: beside an axis that may be 0, nothing tells what a -1 is.
    """
    build, dims = node.build, node.build.scope.shape(name)
    behind: Sequence[Dim] = [None, None] if dims is None else dims[kept:]
    given, known = [size for size in sizes if size is not None], [dim for dim in behind if isinstance(dim, int)]
    if len(known) == len(behind) and all(isinstance(size, int) for size in given):
        left = prod(known) // prod(size for size in given if isinstance(size, int))
        return reshape_behind(node, name, kept, [left if size is None else size for size in sizes])
    rest = build.Shape(name, start=kept)
    rest = build.ReduceProd(rest, keepdims=1) if len(behind) > 1 else rest
    for size in given:
        rest = build.Div(rest, size)
    shape = flat_indices.vector(build, [*[0] * kept, *(rest if size is None else size for size in sizes)])
    return str(build.Reshape(name, shape))


def in_shape_of_data(node: Node, value: str) -> str:
    """As many elements as the data have, in their shape: numbers where no more than one of them is unknown."""
    dims = node.scope.shape(node.input(0)) or [None, None]
    numbers = [dim if isinstance(dim, int) else -1 for dim in dims]
    if numbers.count(-1) > 1 or 0 in numbers:
        return str(node.build.Reshape(value, node.build.Shape(node.input(0)), allowzero=1))
    return str(node.build.Reshape(value, numbers))


def indexed_axes(node: Node) -> tuple[int, list[Size], str]:
    """How many axes are indexed, the sizes of the data, and where on the merged axis each slice lies."""
    build, rank = node.build, node.rank(1)
    dims = flat_indices.sizes(node, node.input(0))
    indexed = (node.scope.shape(node.input(1)) or [None])[-1]
    if not isinstance(indexed, int):
        raise CannotConvert(node, "the last dimension of the indices is unknown")
    if not 1 <= indexed <= len(dims):
        raise CannotConvert(node, f"the indices address {indexed} axes, but the data has {len(dims)}")
    indices = flat_indices.nonnegative(node, 1, flat_indices.vector(build, dims[:indexed]))
    if indexed == 1:
        return indexed, dims, str(build.Squeeze(indices, axes=[rank - 1]))
    steps = flat_indices.vector(build, flat_indices.strides(build, dims[:indexed]))
    return indexed, dims, str(build.ReduceSum(build.Mul(indices, steps), axes=[rank - 1], keepdims=0))
