"""Squeeze and Unsqueeze: negative axes, and axes that moved from an attribute to an input."""

from __future__ import annotations

from collections.abc import Callable

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import FLOAT8, axes_inside, axes_to_input, carrier_casts, wrap_negative
from opshift.passes.operators.shared.shapes import axes_from_front, in_shape
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced negative axes by positive ones, in ascending order")
def nonnegative_dropped_axes(node: Node) -> Replacement:
    return _nonnegative(node, node.attributes.get("axes", []), 0, _shape_without)


@says("Replaced negative axes by positive ones, in ascending order")
def nonnegative_new_axes(node: Node) -> Replacement:
    axes = node.attributes["axes"]
    return _nonnegative(node, axes, len(axes), _shape_with)


def _nonnegative(node: Node, axes: list[int], more: int, shape_by: Callable[[Node, str], str]) -> Replacement:
    """Axes of as many as the data has and `more`; of data of unknown rank, the shape that they make."""
    if all(axis >= 0 for axis in axes):
        _upwards(node, axes)
        return None
    dims = node.scope.shape(node.input(0))
    if dims is None:
        return in_shape(node, shape_by(node, node.build.constant(tensors.int64s(axes))))
    _upwards(node, axes_from_front(node, axes, len(dims) + more))
    return None


def _upwards(node: Node, axes: list[int]) -> None:
    """Hold the axes in the order that ONNX's inference took for granted, and each of them once."""
    if (ordered := sorted(set(axes))) != node.attributes.get("axes", []):
        node.attributes["axes"] = ordered


@says("Moved axes of Squeeze from input to attribute; replaced dynamic axes by a Reshape")
def squeezed_axes_to_attribute(node: Node) -> Replacement:
    if not node.input(1):
        return None
    axes = node.scope.ints(node.input(1))
    if axes is None:
        return in_shape(node, _shape_without(node, node.input(1)))
    if not axes:
        raise CannotConvert(
            node,
            "axes is empty, which runtimes read as no axis or as all axes",
            supported="axes that are named, or missing",
        )
    _hold(node, axes)
    return None


@says("Moved axes of Unsqueeze from attribute to input")
def new_axes_to_input(node: Node) -> None:
    axes_to_input(node)
    if not node.input(1):
        node.set_input(1, node.build.constant(tensors.int64s([])))


@says("Moved axes of Unsqueeze from input to attribute; replaced dynamic axes by a Reshape")
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
    listed, _ = _list(node, build.Reshape(axes, [-1]), build.Shape(shape))
    return str(build.Compress(shape, build.Equal(listed, 0), axis=0))


def _shape_with(node: Node, axes: str) -> str:
    """1 for an axis that is listed; for the k-th of the others, the k-th size of the input."""
    build = node.build
    shape, axes = build.Shape(node.input(0)), build.Reshape(axes, [-1])
    listed, places = _list(node, axes, build.Add(build.Shape(shape), build.Shape(axes)))
    kept = build.Sub(1, listed)
    later = build.Less(build.Reshape(places, [-1, 1]), places)
    before = build.Mul(build.Cast(build.Not(later), to=T.INT64), build.Reshape(kept, [1, -1]))
    k = build.Mul(kept, _sum(build, before, axis=1))
    return str(build.Gather(build.Concat([1], shape, axis=0), k))


def _list(node: Node, axes: str, rank: str) -> tuple[str, str]:
    """For each axis, 1 if it is in the list, else 0; and the axes."""
    build = node.build
    axes = build.Reshape(wrap_negative(node, axes, rank, T.INT64), [-1, 1])
    places = build.NonZero(build.ConstantOfShape(rank, value=tensors.int64s([1])))
    hits = build.Cast(build.Equal(axes, places), to=T.INT64)
    return _sum(build, hits, axis=0), places


def _sum(build: Builder, x: str, axis: int) -> str:
    return str(build.ReduceSum(x, axes=[axis], keepdims=0))


@says("Reshaped scalar axes to a vector")
def axes_to_vector(node: Node) -> None:
    if node.input(1) and not node.scope.rank(node.input(1)):  # of an unknown rank, it may be one
        axes = node.scope.ints(node.input(1))
        node.set_input(
            1,
            node.build.Reshape(node.input(1), [-1]) if axes is None else node.build.constant(tensors.int64s(axes)),
        )


changed("Squeeze", 11, Pair(down=nonnegative_dropped_axes))
changed("Unsqueeze", 11, Pair(up=axes_inside(new=True), down=nonnegative_new_axes))
changed("Squeeze", 13, Pair(up=axes_to_input, down=squeezed_axes_to_attribute))
changed("Unsqueeze", 13, Pair(up=new_axes_to_input, down=new_axes_to_attribute))
changed(["Squeeze", "Unsqueeze"], 21, Pair(down=carrier_casts(FLOAT8)))
changed(["Squeeze", "Unsqueeze"], 23, Pair(up=axes_to_vector))
