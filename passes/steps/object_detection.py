"""RoiAlign."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.protos import TensorProto
from opshift.passes.registry import Pair, Replacement, changed
from opshift.passes.steps import _indices
from opshift.passes.steps._indices import Size
from opshift.passes.steps._recipes import carried
from opshift.passes.view import Node

T = TensorProto

MODE = "coordinate_transformation_mode"
HEIGHT, WIDTH = "output_height", "output_width"


def no_pixel_shift(node: Node) -> None:
    """Regions were not shifted by half a pixel, which has become the default."""
    node.attributes[MODE] = "output_half_pixel"


def shifted_regions(node: Node) -> Replacement:
    """Regions were not shifted by half a pixel: large constant ones are shifted beforehand, others gathered from."""
    mode = node.attributes.pop(MODE, "half_pixel")
    if mode not in ("half_pixel", "output_half_pixel"):
        raise CannotConvert(node, f"{MODE}={mode}; half_pixel, output_half_pixel could be expressed")
    if mode == "output_half_pixel":
        return None
    rois, scale = node.scope.array(node.input(1)), node.attributes.get("spatial_scale", 1.0)
    if rois is None or ((rois[:, 2:] - rois[:, :2]) * scale < 1).any():
        return pooled_samples(node, offset=0.5)
    node.close("regions are shifted before they are scaled")
    node.set_input(1, node.build.constant(rois - 0.5 / scale, node.elem_type(1)))
    return None


def gathered_samples(node: Node) -> str:
    """RoiAlign did not exist: the neighbours of each sample are gathered, weighted and pooled."""
    return pooled_samples(node)


def pooled_samples(node: Node, offset: float = 0.0) -> str:
    """Samples of every bin, interpolated between four neighbours; below offset 0.5 no region is less than a pixel."""
    build, elem_type, mode = node.build, node.elem_type(), node.attributes.get("mode", "avg")
    ratio, high, wide = (node.attributes.get(n, d) for n, d in (("sampling_ratio", 0), (HEIGHT, 1), (WIDTH, 1)))
    if mode not in ("avg", "max"):
        raise CannotConvert(node, f"mode={mode}; avg, max could be expressed")
    if ratio < 1:
        raise CannotConvert(node, "how many samples are taken hangs on the region; sampling_ratio could be expressed")
    node.close("regions are sampled and pooled by sums in another order")
    kind = T.FLOAT if elem_type == T.FLOAT16 else elem_type
    batch, channels, *sizes = _indices.sizes(node, node.input(0))
    rows = build.Transpose(node.input(0), perm=[0, 2, 3, 1])
    count = _indices.product(build, [batch, *sizes])
    rows = build.Reshape(rows, _indices.rows_of(build, count, [channels]))
    rows = build.Cast(rows, to=kind) if kind != elem_type else rows
    image = build.Reshape(build.Mul(node.input(2), _indices.product(build, sizes)), [-1, 1, 1])
    y, x = (_Samples(node, k, sizes[k], (high, wide)[k], ratio, kind, offset) for k in (0, 1))
    parts, of_x, column = [], x.neighbours(), [-1, high * ratio, wide * ratio, 1]
    for index_y, weight_y in y.neighbours():
        for index_x, weight_x in of_x:
            place = build.Add(build.Add(image, build.Mul(index_y, sizes[1])), index_x)
            weight = build.Reshape(build.Mul(weight_y, weight_x), column)
            parts.append(build.Mul(build.Gather(rows, place, axis=0), weight))
    total = build.Max(*parts) if mode == "max" else build.Sum(*parts)
    inside = build.Reshape(build.And(y.inside, x.inside), column)
    build.typed(inside, T.BOOL, [None, *column[1:]])
    build.typed(total, kind, [None, *column[1:3], None])
    total = build.Where(inside, total, build.constant(0, kind))
    total = build.Reshape(total, _indices.vector(build, [-1, high, ratio, wide, ratio, channels]))
    reduce = build.ReduceMax if mode == "max" else build.ReduceMean
    total = build.Transpose(reduce(total, axes=[2, 4], keepdims=0), perm=[0, 3, 1, 2])
    return str(build.Cast(total, to=elem_type) if kind != elem_type else total)


class _Samples:
    """The samples of all bins of each region along an axis."""

    def __init__(self, node: Node, axis: int, size: Size, bins: int, ratio: int, kind: int, offset: float):
        import numpy as np

        self.build = build = node.build
        last = build.constant(size - 1.0, kind) if isinstance(size, int) else None
        if last is None:
            last = build.Sub(build.Cast(size, to=kind), build.constant(1, kind))
        self.last, self.one, zero = last, build.constant(1, kind), build.constant(0, kind)
        scale = build.constant(node.attributes.get("spatial_scale", 1.0), kind)
        rois = node.input(1) if kind == node.elem_type(1) else build.Cast(node.input(1), to=kind)
        start, end = (build.Mul(build.Gather(rois, [k], axis=1), scale) for k in (1 - axis, 3 - axis))
        side = build.Sub(end, start)
        if offset:
            start = build.Sub(start, build.constant(offset, kind))
        else:
            side = build.Max(side, self.one)
        step = np.arange(bins * ratio)
        bin_side = build.Div(side, build.constant(bins, kind))
        within = build.Div(build.Mul(bin_side, build.constant(step % ratio + 0.5, kind)), build.constant(ratio, kind))
        at = build.Add(build.Add(start, build.Mul(bin_side, build.constant(step // ratio, kind))), within)
        at = build.Reshape(at, [-1, 1, len(step)] if axis else [-1, len(step), 1])
        beyond = build.Greater(at, build.Add(last, self.one))
        self.inside = build.Not(build.Or(build.Less(at, build.constant(-1, kind)), beyond))
        self.at = build.Min(build.Max(at, zero), last)

    def neighbours(self) -> list[tuple[str, str]]:
        """The indices of the neighbours before and after, and what each of them weighs."""
        build = self.build
        low = build.Floor(self.at)
        fraction = build.Sub(self.at, low)
        high = build.Min(build.Add(low, self.one), self.last)
        return [
            (build.Cast(low, to=T.INT64), build.Sub(self.one, fraction)),
            (build.Cast(high, to=T.INT64), fraction),
        ]


BFLOAT16 = carried({T.BFLOAT16: T.FLOAT}, why="bfloat16 is pooled in float32", variable="T1")

changed("RoiAlign", 10, Pair(down=gathered_samples))
changed("RoiAlign", 16, Pair(up=no_pixel_shift, down=shifted_regions))
changed("RoiAlign", 22, Pair(down=BFLOAT16))
