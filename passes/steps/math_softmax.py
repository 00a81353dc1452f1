"""Softmax, LogSoftmax and Hardmax: until 12 over all axes from `axis` on, from 13 over that axis alone."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.registry import Pair, Replacement, changed
from opshift.passes.scope import Dim
from opshift.passes.steps._recipes import nonnegative_axis
from opshift.passes.view import Node


def over_one_axis(node: Node) -> Replacement:
    """All axes from `axis` (1 by default) on were taken as one, and now only that axis is (the last by default)."""
    axis = node.attributes.get("axis", 1)
    if axis == -1:
        return None
    dims = node.scope.shape(node.input(0))
    if dims is None:
        return _flattened(node, axis)
    axis = _from_front(node, axis, len(dims))
    if 0 in dims:
        return node.input(0)  # nothing to normalize, and Reshape would not take every such shape
    alone = _only_axis(dims, axis)
    if alone is None:
        return _flattened(node, axis)
    return _named(node, alone)


def _flattened(node: Node, axis: int) -> str:
    """The axes made one by Flatten, and taken apart again."""
    build, x = node.build, node.input(0)
    rows = build.again(node.proto, [build.Flatten(x, axis=axis)], axis=-1)
    return str(build.Reshape(rows, build.Shape(x)))


def over_all_axes_from(node: Node) -> Replacement:
    """Only the axis itself was taken (the last by default), and now all from it on are: it is made the last."""
    axis = node.attributes.get("axis", -1)
    if axis == -1:
        return _named(node, axis)
    rank = node.rank()
    axis = _from_front(node, axis, rank)
    if _only_axis(node.scope.shape(node.input(0)) or [], axis) == axis:
        return _named(node, axis)
    build, order = node.build, list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    rows = build.again(node.proto, [build.Transpose(node.input(0), perm=order)], axis=-1)
    return str(build.Transpose(rows, perm=order))


def _named(node: Node, axis: int) -> Replacement:
    """Written out, for the defaults differ."""
    if node.attributes.get("axis") != axis:
        node.attributes["axis"] = axis
    return None


def _only_axis(dims: list[Dim], axis: int) -> int | None:
    """The axis from `axis` on that is all there is, the others being 1; None if several may be longer."""
    longer = [k for k in range(axis, len(dims)) if dims[k] != 1]
    return (longer or [axis])[0] if len(longer) < 2 else None


def _from_front(node: Node, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise CannotConvert(node, f"axis {axis} lies outside rank {rank}")
    return axis % rank


FAMILY = ["Softmax", "LogSoftmax", "Hardmax"]

changed(FAMILY, 11, Pair(down=nonnegative_axis(default=1)))
changed(FAMILY, 13, Pair(up=over_one_axis, down=over_all_axes_from))
