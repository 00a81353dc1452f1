"""Operators that look at a shape or change it without moving elements: Reshape, Shape, Squeeze, Unsqueeze."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.flat_indices import empty, reshaped
from opshift.passes.operators.shared.recipes import FLOAT8, axes_to_input, carried, counted_from_front
from opshift.passes.operators.tensor.tensor import INTEGERS_AS_DOUBLE
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto
INT64_MAX = 2**63 - 1
Size = int | str
"""A size that is known, or the value that holds it at run time as an int64 scalar."""


# --- Reshape ------------------------------------------------------------------------------------------------


@says("A 0 in shape could not mean an empty dimension: an empty result is made from the shape alone.")
def zero_copies(node: Node) -> Replacement:
    if not node.attributes.pop("allowzero", 0):
        return None
    shape = node.scope.ints(node.input(1))
    if shape is None:
        return in_shape(node, node.input(1))
    if 0 not in shape:
        return None
    if -1 in shape:
        raise CannotConvert(node, f"allowzero=1 with shape {shape}; either 0 or -1 could be expressed")
    return empty(node.build, node.input(1), _fillable_type(node))


def in_shape(node: Node, shape: str) -> str:
    """The first input in a shape known at run time, in which a 0 is an empty dimension."""
    build, x = node.build, node.input(0)
    dims = node.scope.shape(x)
    if dims is not None and all(isinstance(dim, int) and dim > 0 for dim in dims):
        return str(build.Reshape(x, shape))
    elem_type = _fillable_type(node)
    if 0 in (dims or []):
        return empty(build, shape, elem_type)
    if elem_type == T.BFLOAT16:  # which If takes from 16 on
        return str(build.Cast(reshaped(build, build.Cast(x, to=T.FLOAT), shape, T.FLOAT), to=elem_type))
    return reshaped(build, x, shape, elem_type)


def _fillable_type(node: Node) -> int:
    elem_type = node.elem_type()
    if elem_type in (T.COMPLEX64, T.COMPLEX128):
        raise CannotConvert(node, "the data may be empty and are complex; any other type could be expressed")
    return elem_type


@says("shape was an attribute and becomes an input.")
def shape_to_input(node: Node) -> None:
    node.attributes.pop("consumed_inputs", None)
    if "shape" not in node.attributes:
        raise CannotConvert(node, "there is no shape; an attribute shape could be expressed")
    node.set_input(1, node.build.constant(tensors.int64s(node.attributes.pop("shape"))))


@says("shape becomes an attribute, and integers are reshaped as doubles.")
def shape_to_attribute(node: Node) -> Replacement:
    shape = node.scope.ints(node.input(1))
    if shape is None:
        shape = _shape_of_result(node)
    node.set_input(1, "")
    node.attributes["shape"] = shape
    return carried(INTEGERS_AS_DOUBLE)(node)


def _shape_of_result(node: Node) -> list[int]:
    """What is known of the result says the same as the shape input, if it leaves at most one size open."""
    dims = node.scope.shape(node.outputs[0])
    if dims is None or 0 in dims or sum(not isinstance(dim, int) for dim in dims) > 1:
        raise CannotConvert(node, "the shape is known only at run time; a constant could be expressed")
    return [dim if isinstance(dim, int) else -1 for dim in dims]


changed("Reshape", 5, Pair(up=shape_to_input, down=shape_to_attribute))
changed("Reshape", 14, Pair(down=zero_copies))


# --- Shape --------------------------------------------------------------------------------------------------


@says("start and end did not exist: they slice the whole shape.")
def whole_shape(node: Node) -> Replacement:
    start, end = node.attributes.pop("start", 0), node.attributes.pop("end", INT64_MAX)
    if not start and end == INT64_MAX:
        return None
    build = node.build
    return str(build.Slice(build.Shape(node.input(0)), [start], [end], [0]))


def size_along(node: Node, axis: int) -> Size:
    """The size of the first input along an axis."""
    dims = node.scope.shape(node.input(0))
    if dims is not None and not -len(dims) <= axis < len(dims):
        raise CannotConvert(node, f"axis {axis} lies outside rank {len(dims)}")
    known = None if dims is None else dims[axis]
    if isinstance(known, int):
        return known
    build = node.build
    shape = build.Shape(node.input(0))
    if axis < 0:
        return str(build.Gather(shape, build.Add(build.Size(shape), axis) if dims is None else axis + len(dims)))
    return str(build.Gather(shape, axis))


changed("Shape", 15, Pair(down=whole_shape))


# --- Squeeze, Unsqueeze -------------------------------------------------------------------------------------


@says("Negative axes were not allowed and are counted from the front, if need be at run time; they went upwards.")
def nonnegative_dropped_axes(node: Node) -> Replacement:
    axes = node.attributes.get("axes", [])
    if all(axis >= 0 for axis in axes):
        _upwards(node, axes)
        return None
    dims = node.scope.shape(node.input(0))
    if dims is None:
        return in_shape(node, _shape_without(node, node.build.constant(tensors.int64s(axes))))
    _upwards(node, counted(node, axes, len(dims)))
    return None


@says("Negative axes were not allowed and are counted from the front of the result; they went upwards.")
def nonnegative_new_axes(node: Node) -> Replacement:
    axes = node.attributes["axes"]
    if all(axis >= 0 for axis in axes):
        _upwards(node, axes)
        return None
    dims = node.scope.shape(node.input(0))
    if dims is None:
        return in_shape(node, _shape_with(node, node.build.constant(tensors.int64s(axes))))
    _upwards(node, counted(node, axes, len(dims) + len(axes)))
    return None


def _upwards(node: Node, axes: list[int]) -> None:
    """Hold the axes in the order that ONNX's inference took for granted, and each of them once."""
    if (ordered := sorted(set(axes))) != node.attributes.get("axes", []):
        node.attributes["axes"] = ordered


def counted(node: Node, axes: list[int], rank: int) -> list[int]:
    """Axes counted from the front."""
    if not all(-rank <= axis < rank for axis in axes):
        raise CannotConvert(node, f"axes {axes} lie outside rank {rank}")
    return [axis % rank for axis in axes]


@says("axes becomes an attribute; axes known only at run time become a computed shape.")
def squeezed_axes_to_attribute(node: Node) -> Replacement:
    if not node.input(1):
        return None
    axes = node.scope.ints(node.input(1))
    if axes is None:
        return in_shape(node, _shape_without(node, node.input(1)))
    if not axes:
        raise CannotConvert(node, "axes is empty, which runtimes read as no axis or as all; either could be expressed")
    _hold(node, axes)
    return None


@says("axes was an attribute and becomes an input.")
def new_axes_to_input(node: Node) -> None:
    axes_to_input(node)
    if not node.input(1):
        node.set_input(1, node.build.constant(tensors.int64s([])))


@says("axes becomes an attribute; axes known only at run time become a computed shape.")
def new_axes_to_attribute(node: Node) -> Replacement:
    axes = node.scope.ints(node.input(1))
    if axes is None:
        return in_shape(node, _shape_with(node, node.input(1)))
    _hold(node, axes)
    return None


def _hold(node: Node, axes: list[int]) -> None:
    node.set_input(1, "")
    node.attributes["axes"] = sorted(axes) if min(axes, default=0) >= 0 or max(axes, default=0) < 0 else axes


def _shape_without(node: Node, axes: str) -> str:
    """The sizes of the axes that are not listed."""
    build = node.build
    shape = build.Shape(node.input(0))
    listed, _ = _listed(node, build.Reshape(axes, [-1]), build.Shape(shape))
    return str(build.Compress(shape, build.Equal(listed, 0), axis=0))


def _shape_with(node: Node, axes: str) -> str:
    """1 for an axis that is listed; for the k-th of the others, the k-th size of the input."""
    build = node.build
    shape, axes = build.Shape(node.input(0)), build.Reshape(axes, [-1])
    listed, places = _listed(node, axes, build.Add(build.Shape(shape), build.Shape(axes)))
    kept = build.Sub(1, listed)
    later = build.Less(build.Reshape(places, [-1, 1]), places)
    before = build.Mul(build.Cast(build.Not(later), to=T.INT64), build.Reshape(kept, [1, -1]))
    k = build.Mul(kept, _sum(build, before, axis=1))
    return str(build.Gather(build.Concat([1], shape, axis=0), k))


def _listed(node: Node, axes: str, rank: str) -> tuple[str, str]:
    """For each axis, 1 if it is in the list, else 0; and the axes."""
    build = node.build
    axes = build.Reshape(counted_from_front(node, axes, rank, T.INT64), [-1, 1])
    places = build.NonZero(build.ConstantOfShape(rank, value=tensors.int64s([1])))
    hits = build.Cast(build.Equal(axes, places), to=T.INT64)
    return _sum(build, hits, axis=0), places


def _sum(build: Builder, x: str, axis: int) -> str:
    return str(build.ReduceSum(x, axes=[axis], keepdims=0))


@says("axes was also taken as a scalar; it is a vector.")
def axes_to_vector(node: Node) -> None:
    if node.input(1) and not node.scope.shape(node.input(1)):  # of an unknown rank, it may be one
        axes = node.scope.ints(node.input(1))
        node.set_input(
            1,
            node.build.Reshape(node.input(1), [-1]) if axes is None else node.build.constant(tensors.int64s(axes)),
        )


changed("Squeeze", 11, Pair(down=nonnegative_dropped_axes))
changed("Unsqueeze", 11, Pair(down=nonnegative_new_axes))
changed("Squeeze", 13, Pair(up=axes_to_input, down=squeezed_axes_to_attribute))
changed("Unsqueeze", 13, Pair(up=new_axes_to_input, down=new_axes_to_attribute))
changed(["Squeeze", "Unsqueeze"], 21, Pair(down=carried(FLOAT8)))
changed(["Squeeze", "Unsqueeze"], 23, Pair(up=axes_to_vector))
