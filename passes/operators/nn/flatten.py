"""Flatten: negative axes, and types that Reshape takes."""

from __future__ import annotations

from math import prod

from opshift.passes.changes import GRANTED
from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import Dim
from opshift.passes.operators.shared.recipes import FLOAT8
from opshift.passes.operators.shared.shapes import in_shape
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
INT64_MAX = 2**63 - 1


@says("Replaced the negative axis of Flatten by a positive one")
def axis_from_front(node: Node) -> Replacement:
    axis = node.attributes.get("axis", 1)
    if axis >= 0:
        return None
    shape = node.scope.shape(node.input(0))
    if shape is None:
        return reshape_to_matrix(node)
    if axis < -len(shape):
        raise CannotConvert(node, f"axis {axis} is out of range for rank {len(shape)}")
    node.attributes["axis"] = axis + len(shape)
    return None


@says("Replaced Flatten of float8 by Reshape")
def float8_flatten(node: Node) -> Replacement:
    return reshape_to_matrix(node) if node.elem_type() in FLOAT8 else None


@says("Replaced Flatten of integers, strings and bools by Reshape")
def any_type_flatten(node: Node) -> Replacement:
    return None if node.elem_type() in (T.FLOAT, T.DOUBLE, T.FLOAT16) else reshape_to_matrix(node)


def reshape_to_matrix(node: Node) -> str:
    """Reshape to [product of the dimensions before axis, product of the rest]."""
    build, x, axis = node.build, node.input(0), node.attributes.get("axis", 1)
    shape = node.scope.shape(x)
    if shape is not None and (columns := _count(shape[axis:])):
        return str(build.Reshape(x, [-1, columns]))
    if shape is not None and (rows := _count(shape[:axis])):
        return str(build.Reshape(x, [rows, -1]))
    if shape is not None and 0 in shape[:axis] and 0 in shape[axis:]:
        return build.constant(np.zeros((0, 0)), node.elem_type())
    dims = build.Shape(x)
    sizes = [build.ReduceProd(build.Concat([1], part, axis=0)) for part in _split(build, dims, axis)]
    target = build.Concat(*sizes, axis=0)
    if build.opset >= 14:
        return str(build.Reshape(x, target, allowzero=1))
    if build.opset >= 9:
        return in_shape(node, target)
    empty = build.Cast(build.Equal(target, [0]), to=T.INT64)  # 0 means a copied dimension, -1 the right one
    both = build.ReduceProd(empty, keepdims=1)  # of which there is one: the second is 1 at first
    matrix = build.Reshape(x, build.Add(build.Sub(target, empty), build.Mul(both, [0, 2])))
    return str(build.Expand(matrix, target))


@says("Replaced Flatten by Reshape")
def two_sizes(node: Node) -> str:
    """Reshape without the branches that data without elements need: a backend that lacks Flatten has no If."""
    build, x, axis, shape = node.build, node.input(0), node.attributes.get("axis", 1), node.scope.shape(node.input(0))
    if shape is None or 0 in shape or _count(shape[axis:]) or _count(shape[:axis]):
        return reshape_to_matrix(node)
    node.close(GRANTED)
    rows = [0] if axis in (1, 1 - len(shape)) else build.ReduceProd(_split(build, build.Shape(x), axis)[0])
    return str(build.Reshape(x, [*rows, -1] if isinstance(rows, list) else build.Concat(rows, [-1], axis=0)))


def _count(dims: list[Dim]) -> int:
    """The product of the dimensions; 0 where one of them is 0 or unknown."""
    return prod(dim if isinstance(dim, int) else 0 for dim in dims)


def _split(build: Builder, dims: str, axis: int) -> list[str]:
    bounds = [(0, axis), (axis, INT64_MAX)]
    if build.opset < 10:
        return [build.Slice(dims, starts=[start], ends=[end]) for start, end in bounds]
    return [build.Slice(dims, [start], [end]) for start, end in bounds]


defined("Flatten", two_sizes, opset=14)
changed("Flatten", 9, Pair(down=any_type_flatten))
changed("Flatten", 11, Pair(down=axis_from_front))
changed("Flatten", 21, Pair(down=float8_flatten))
