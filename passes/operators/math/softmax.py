"""Softmax, LogSoftmax and Hardmax: until 12 over all axes from `axis` on, from 13 over that axis alone."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import Dim
from opshift.passes.operators.shared.recipes import axis_inside, nonnegative_axis, recast, unless_empty, wider
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Reshaped all axes from axis on into one, over which it ran before opset 13")
def over_one_axis(node: Node) -> Replacement:
    axis = node.attributes.get("axis", 1)
    if axis == -1:
        return None
    rank = node.scope.rank(node.input(0))
    if rank is not None and _from_front(node, axis, rank) == rank - 1:
        return _write_axis(node, rank - 1)
    dims = node.scope.shape(node.input(0))
    if dims is None:
        return _flatten_unless_empty(node, axis, open_sizes=True)
    axis = _from_front(node, axis, len(dims))
    if 0 in dims:
        return node.input(0)  # nothing to normalize, and Reshape would not take every such shape
    alone = _only_axis(dims, axis)
    if alone is not None:
        return _write_axis(node, alone)
    # A 0 in the shape copies a dimension of the matrix, which is 0 as well where only it is made of that one.
    copied = ((1,), (0, 1))[axis] if axis < 2 else (0,)
    if all(isinstance(dim, int) or k in copied for k, dim in enumerate(dims)):
        return _flatten(node, node.build, axis)
    return _flatten_unless_empty(node, axis)


def _flatten(node: Node, build: Builder, axis: int, *, open_sizes: bool = False) -> str:
    """The axes made one by Flatten, and taken apart again; `open_sizes` come as what inference does not see through."""
    x = node.input(0)
    rows, shape = build.again(node.proto, [build.Flatten(x, axis=axis)], axis=-1), build.Shape(x)
    return str(build.Reshape(rows, build.Max(shape, build.constant([1], T.INT64)) if open_sizes else shape))


def _flatten_unless_empty(node: Node, axis: int, *, open_sizes: bool = False) -> str:
    """Flatten if the tensor has elements: Reshape does not take every shape of an empty tensor, nor does inference
    where a function is called with one."""
    return unless_empty(node, lambda build: _flatten(node, build, axis, open_sizes=open_sizes), "normalized")


@says("Transposed so that the axis is the last one")
def over_all_axes_from(node: Node) -> Replacement:
    axis = node.attributes.get("axis", -1)
    if axis == -1:
        return _write_axis(node, axis)
    rank = node.rank()
    axis = _from_front(node, axis, rank)
    if _only_axis(node.scope.shape(node.input(0)) or [], axis) == axis:
        return _write_axis(node, axis)
    build, order = node.build, list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    rows = build.again(node.proto, [build.Transpose(node.input(0), perm=order)], axis=-1)
    return str(build.Transpose(rows, perm=order))


def _write_axis(node: Node, axis: int) -> Replacement:
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
        raise CannotConvert(node, f"axis {axis} is out of range for rank {rank}")
    return axis % rank


@says("Replaced Softmax by exp(x - m) / sum(exp(x - m)) along axis, m = max(x)")
def shares_of_exponentials(node: Node) -> str:
    node.close("the operator is computed from its definition")
    build, elem_type, axis = node.build, node.elem_type(), node.attributes.get("axis", -1)
    x = recast(build, node.input(0), elem_type, wider(elem_type))
    powers = build.Exp(build.Sub(x, build.ReduceMax(x, axes=[axis])))
    return recast(build, build.Div(powers, build.ReduceSum(powers, [axis])), wider(elem_type), elem_type)


@says("Replaced LogSoftmax by x - m - log(sum(exp(x - m))) along axis, m = max(x)")
def logarithms_of_shares(node: Node) -> str:
    node.close("the operator is computed from its definition")
    build, elem_type, axis = node.build, node.elem_type(), node.attributes.get("axis", -1)
    x = recast(build, node.input(0), elem_type, wider(elem_type))
    moved = build.Sub(x, build.ReduceMax(x, axes=[axis]))
    total = build.ReduceSum(build.Exp(moved), [axis])
    return recast(build, build.Sub(moved, build.Log(total)), wider(elem_type), elem_type)


@says("Replaced Hardmax by index == argmax(x) along axis")
def one_at_the_first_maximum(node: Node) -> str:
    build, axis = node.build, node.attributes.get("axis", -1)
    dims = node.scope.shape(node.input(0))
    if dims is not None and 0 in dims:  # there is no maximum, and nothing to mark
        return str(build.Identity(node.input(0)))
    node.close("the maximum beside a NaN is undefined, and ArgMax may choose another one")
    size = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
    after = -axis - 1 if axis < 0 else node.rank() - axis - 1
    if isinstance(size, int):
        return _mark(node, build, axis, build.constant(tensors.int64s(range(size), [size] + [1] * after)))

    def mark_places(inner: Builder) -> str:
        places = inner.Range(0, inner.Gather(inner.Shape(node.input(0)), axis), 1)
        return _mark(node, inner, axis, inner.Reshape(places, [-1] + [1] * after) if after else places)

    return unless_empty(node, mark_places, "marked")


def _mark(node: Node, build: Builder, axis: int, places: str) -> str:
    return str(build.Cast(build.Equal(places, build.ArgMax(node.input(0), axis=axis)), to=node.elem_type()))


FAMILY = ["Softmax", "LogSoftmax", "Hardmax"]

changed(FAMILY, 11, Pair(up=axis_inside(default=1), down=nonnegative_axis(default=1)))
changed(FAMILY, 13, Pair(up=over_one_axis, down=over_all_axes_from))
defined("Softmax", shares_of_exponentials, opset=13)
defined("LogSoftmax", logarithms_of_shares, opset=13)
defined("Hardmax", one_at_the_first_maximum, opset=13)
