"""CropAndResize: boxes of images, sampled on grids whose corners are theirs."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced CropAndResize by gathering the neighbours of each sample and interpolating")
def sampled_boxes(node: Node) -> str:
    node.close("computes grid points in another order")
    build, mode = node.build, node.attributes.get("mode", "bilinear")
    size = node.scope.ints(node.input(3))
    if size is None or mode not in ("bilinear", "nearest"):
        raise CannotConvert(
            node,
            f"CropAndResize has mode={mode!r} and a crop_size of {size or 'computed'}",
            supported="a constant one, bilinear or nearest",
        )
    rows, columns = (_Axis(node, which, count) for which, count in enumerate(size))
    images = build.Transpose(_with_pixels(node, build.Gather(node.input(0), node.input(2))), perm=[0, 2, 3, 1])

    def pick(y: str, x: str) -> str:
        """The pixels at these rows and columns of the image of each box."""
        boxes = build.Range(0, build.Gather(build.Shape(images), 0), 1)
        shape = build.Concat(build.Shape(boxes), [*size], axis=0)
        places = [build.Expand(build.Unsqueeze(i, axes), shape) for i, axes in ((boxes, [1, 2]), (y, [2]), (x, [1]))]
        return str(build.GatherND(images, build.Concat(*(build.Unsqueeze(place, [3]) for place in places), axis=3)))

    if mode == "nearest":
        values = pick(rows.nearest, columns.nearest)
    else:
        across = build.Unsqueeze(columns.part, [1, 3])
        top, bottom = (
            _between(node, pick(y, columns.below), pick(y, columns.above), across) for y in (rows.below, rows.above)
        )
        values = _between(node, top, bottom, build.Unsqueeze(rows.part, [2, 3]))
    inside = build.And(build.Unsqueeze(rows.inside, [2, 3]), build.Unsqueeze(columns.inside, [1, 3]))
    outside = build.constant(node.attributes.get("extrapolation_value", 0.0), T.FLOAT)
    return str(build.Transpose(build.Where(inside, values, outside), perm=[0, 3, 1, 2]))


def _with_pixels(node: Node, images: str) -> str:
    """Images that have a pixel to point to, where all points are outside of none."""
    build = node.build
    if all(isinstance(dim, int) and dim for dim in (node.scope.shape(node.input(0)) or [None])[2:]):
        return images
    missing = build.Sub(1, build.Min(build.Shape(images, start=2), 1))
    return str(build.Pad(images, build.Concat([0] * 6, missing, axis=0)))


def _between(node: Node, a: str, b: str, part: str) -> str:
    return str(node.build.Add(a, node.build.Mul(node.build.Sub(b, a), part)))


class _Axis:
    """The points of each box along rows (0) or columns (1) of its image."""

    def __init__(self, node: Node, which: int, count: int):
        build = node.build
        start, end = (build.Slice(node.input(1), [which + k], [which + k + 1], [1]) for k in (0, 2))
        length = build.Cast(build.Shape(node.input(0), start=2 + which, end=3 + which), to=T.FLOAT)
        last = build.Sub(length, build.constant(1.0, T.FLOAT))
        if count > 1:
            steps = build.Div(build.Mul(build.Sub(end, start), last), build.constant(float(count - 1), T.FLOAT))
            inner = build.Mul(steps, build.constant([[float(i) for i in range(count - 1)]], T.FLOAT))
            points = build.Concat(build.Add(build.Mul(start, last), inner), build.Mul(end, last), axis=1)
        else:
            points = build.Mul(build.Mul(build.Add(start, end), build.constant(0.5, T.FLOAT)), last)
        zero = build.constant(0.0, T.FLOAT)
        self.inside = build.And(build.GreaterOrEqual(points, zero), build.LessOrEqual(points, last))
        kept = build.Where(self.inside, points, zero)
        floor = build.Floor(kept)
        self.part = build.Sub(kept, floor)
        self.below, self.above = (build.Cast(value, to=T.INT64) for value in (floor, build.Ceil(kept)))
        half = build.constant(0.5, T.FLOAT)
        self.nearest = build.Cast(build.Floor(build.Add(kept, half)), to=T.INT64)


defined("CropAndResize", sampled_boxes, opset=16, domain=MICROSOFT)
