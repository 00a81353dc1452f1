"""CenterCropPad before it existed: a window at the centre of the data."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced CenterCropPad by Pad and Slice")
def padded_and_cut(node: Node) -> str:
    build, x, dims = node.build, node.input(0), node.scope.shape(node.input(0))
    if dims is None:
        raise node.unknown("rank", x)
    axes = [axis % len(dims) for axis in node.attributes.get("axes", range(len(dims)))]
    wanted, given = node.scope.ints(node.input(1)), [dims[axis] for axis in axes]
    if wanted is not None and len(wanted) != len(axes):
        raise CannotConvert(
            node, f"there are {len(wanted)} sizes for {len(axes)} axes", supported="one size for each axis"
        )
    if wanted is None or not all(isinstance(size, int) for size in given):
        return _measure(node, axes, len(dims))
    pads, starts, ends = [0] * (2 * len(dims)), list[int](), list[int]()
    for axis, size, goal in zip(axes, given, wanted, strict=True):
        assert isinstance(size, int)
        missing, extra = max(goal - size, 0), max(size - goal, 0)
        pads[axis], pads[axis + len(dims)] = missing // 2, missing - missing // 2
        starts.append(extra // 2)
        ends.append(extra // 2 + goal)
    result = build.Pad(x, pads) if any(pads) else x
    if any(goal < size for goal, size in zip(wanted, given, strict=True)):
        result = build.Slice(result, starts, ends, axes)
    return str(build.Identity(x) if result == x else result)


def _measure(node: Node, axes: list[int], rank: int) -> str:
    """The same from sizes that are known at run time."""
    build, wanted = node.build, node.input(1)
    if node.elem_type(1) != T.INT64:
        wanted = build.Cast(wanted, to=T.INT64)
    sizes = build.Gather(build.Shape(node.input(0)), axes)
    missing = build.Max(build.Sub(wanted, sizes), 0)
    before = build.Div(missing, 2)
    places = [*axes, *(axis + rank for axis in axes)]
    pads = build.Concat(before, build.Sub(missing, before), axis=0)
    if places != list(range(2 * rank)):
        zeros = build.constant(tensors.int64s([0] * (2 * rank)))
        pads = build.ScatterElements(zeros, places, pads, axis=0)
    start = build.Div(build.Max(build.Sub(sizes, wanted), 0), 2)
    return str(build.Slice(build.Pad(node.input(0), pads), start, build.Add(start, wanted), axes))


changed("CenterCropPad", 18, Pair(down=padded_and_cut))
