"""RoiAlign in other operators: the samples of every region, gathered, interpolated and pooled."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.rewrite.node import Node

T = TensorProto

HEIGHT, WIDTH = "output_height", "output_width"


def pooled_samples(node: Node, offset: float = 0.0) -> str:
    """Samples of every bin, interpolated between four neighbours; below offset 0.5 no region is less than a pixel."""
    build, elem_type, mode = node.build, node.elem_type(), node.attributes.get("mode", "avg")
    high, wide = (node.attributes.get(name, 1) for name in (HEIGHT, WIDTH))
    if mode not in ("avg", "max"):
        raise CannotConvert(node, f"mode={mode}", supported="avg, max")
    if not high or not wide:
        raise CannotConvert(node, f"output_height={high}, output_width={wide}", supported="sizes of 1 or more")
    node.close("sums in another order")
    data_type = T.FLOAT if elem_type == T.FLOAT16 else elem_type
    batch, channels, *sizes = flat_indices.sizes(node, node.input(0))
    rows = build.Transpose(node.input(0), perm=[0, 2, 3, 1])
    rows = flat_indices.merge_axes(node, rows, [batch, *sizes, channels], 3)
    rows = build.Cast(rows, to=data_type) if data_type != elem_type else rows
    image = build.Reshape(build.Mul(node.input(2), flat_indices.product(build, sizes)), [-1, 1, 1])
    y, x = (_Samples(node, k, sizes[k], (high, wide)[k], data_type, offset) for k in (0, 1))
    parts, of_x, column = [], x.neighbours(), flat_indices.vector(build, [-1, y.count, x.count, 1])
    for index_y, weight_y in y.neighbours():
        for index_x, weight_x in of_x:
            place = build.Add(build.Add(image, build.Mul(index_y, sizes[1])), index_x)
            weight = build.Reshape(build.Mul(weight_y, weight_x), column)
            parts.append(build.Mul(build.Gather(rows, place, axis=0), weight))
    dims = [None, *(count if isinstance(count, int) else None for count in (y.count, x.count))]
    total = build.set_type(build.Max(*parts) if mode == "max" else build.Sum(*parts), data_type, [*dims, None])
    inside = build.set_type(build.Reshape(build.And(y.inside, x.inside), column), T.BOOL, [*dims, 1])
    total = build.Where(inside, total, build.constant(0, data_type))
    if y.taken and x.taken:
        taken = build.set_type(build.Reshape(build.And(y.taken, x.taken), column), T.BOOL, [*dims, 1])
        total = build.Where(taken, total, build.constant(_lowest(data_type) if mode == "max" else 0, data_type))
    bins: list[Size] = [high, y.ratio, wide, x.ratio]
    if flat_indices.is_never_empty([channels]):
        total = build.Reshape(total, flat_indices.vector(build, [-1, *bins, channels]))
        total = build.Transpose(_reduce(node, mode, total, y, x, [2, 4]), perm=[0, 3, 1, 2])
    else:  # a 0 stands where it is copied
        total = build.Reshape(build.Transpose(total, perm=[0, 3, 1, 2]), flat_indices.vector(build, [0, 0, *bins]))
        total = _reduce(node, mode, total, y, x, [3, 5])
    return str(build.Cast(total, to=elem_type) if data_type != elem_type else total)


def _lowest(elem_type: int) -> float:
    return -3.4028234663852886e38 if elem_type == T.FLOAT else -1.7976931348623157e308


def _reduce(node: Node, mode: str, total: str, y: _Samples, x: _Samples, axes: list[int]) -> str:
    """One value for each bin, whose samples lie along two axes; a region without samples yields 0."""
    build, elem_type = node.build, y.elem_type
    result = (build.ReduceMax if mode == "max" else build.ReduceMean)(total, axes=axes, keepdims=0)
    if not (y.grid and x.grid):
        return str(result)
    number, one = build.Reshape(build.Mul(y.grid, x.grid), [-1, 1, 1, 1]), build.constant(1, elem_type)
    if mode == "max":
        none = build.set_type(build.Less(number, one), T.BOOL, [None, 1, 1, 1])
        result = build.set_type(
            result, elem_type, [None, y.bins, x.bins, None] if axes == [2, 4] else [None, None, y.bins, x.bins]
        )
        return str(build.Where(none, build.constant(0, elem_type), result))
    every = build.Cast(flat_indices.times(build, y.ratio, x.ratio), to=elem_type)
    return str(build.Mul(result, build.Div(every, build.Max(number, one))))


class _Samples:
    """The samples of all bins of each region along an axis.

    `ratio` are the samples of a bin, `count` those of all bins. Where the region tells how many there are, `grid` is
    their number for each, `ratio` the largest of these, and `taken` says which samples are among them.
    """

    def __init__(self, node: Node, axis: int, size: Size, bins: int, elem_type: int, offset: float):
        self.build = build = node.build
        self.axis, self.bins, self.elem_type = axis, bins, elem_type
        last = build.constant(size - 1.0, elem_type) if isinstance(size, int) else None
        if last is None:
            last = build.Sub(build.Cast(size, to=elem_type), build.constant(1, elem_type))
        self.last, self.one, self.zero = last, build.constant(1, elem_type), build.constant(0, elem_type)
        self.taken = self.grid = ""
        scale = build.constant(node.attributes.get("spatial_scale", 1.0), elem_type)
        rois = node.input(1) if elem_type == node.elem_type(1) else build.Cast(node.input(1), to=elem_type)
        ends = build.Mul(rois, scale)
        if offset:  # before the sides, of which it leaves nothing where they are a rounding
            ends = build.Sub(ends, build.constant(offset, elem_type))
        start, end = (build.Gather(ends, [k], axis=1) for k in (1 - axis, 3 - axis))
        side = build.Sub(end, start)
        if not offset:
            side = build.Max(side, self.one)
        ratio = node.attributes.get("sampling_ratio", 0)
        at = self._spread(start, side, ratio) if ratio > 0 else self._spread_by_size(start, side)
        beyond = build.Greater(at, build.Add(last, self.one))
        self.inside = build.Not(build.Or(build.Less(at, build.constant(-1, elem_type)), beyond))
        self.at = build.Min(build.Max(at, self.zero), last)

    def _spread(self, start: str, side: str, ratio: int) -> str:
        """As many samples in each bin of each region."""
        import numpy as np

        build, elem_type = self.build, self.elem_type
        self.ratio: Size = ratio
        self.count: Size = self.bins * ratio
        step = np.arange(self.bins * ratio)
        each = build.Div(side, build.constant(self.bins, elem_type))
        within = build.Div(
            build.Mul(each, build.constant(step % ratio + 0.5, elem_type)), build.constant(ratio, elem_type)
        )
        at = build.Add(build.Add(start, build.Mul(each, build.constant(step // ratio, elem_type))), within)
        return str(build.Reshape(at, self._line()))

    def _spread_by_size(self, start: str, side: str) -> str:
        """One sample in a bin for each pixel that it is long, rounded up."""
        import numpy as np

        build, elem_type = self.build, self.elem_type
        each = build.Div(side, build.constant(self.bins, elem_type))
        self.grid = build.Max(build.Ceil(each), self.zero)
        most = build.ReduceMax(
            build.Concat(build.Reshape(self.grid, [-1]), build.constant([1], elem_type), axis=0), axes=[0]
        )
        self.ratio = build.Reshape(build.Cast(most, to=T.INT64), [])
        self.count = flat_indices.times(build, self.ratio, self.bins)
        sample = build.Cast(flat_indices.count(build, self.ratio), to=elem_type)
        middle = build.Mul(build.Add(sample, build.constant(0.5, elem_type)), each)
        between = flat_indices.vector(build, [-1, 1, self.ratio])
        within = build.Reshape(build.Div(middle, build.Max(self.grid, self.one)), between)
        bins = build.Mul(each, build.constant(np.arange(self.bins), elem_type))
        at = build.Add(build.Reshape(build.Add(start, bins), [-1, self.bins, 1]), within)
        taken = build.Reshape(build.Less(sample, self.grid), between)
        every = build.And(taken, build.constant(np.ones((self.bins, 1), bool), T.BOOL))
        self.taken = build.Reshape(every, self._line())
        return str(build.Reshape(at, self._line()))

    def _line(self) -> str:
        """The shape of one value for each region and sample, along the axis."""
        return flat_indices.vector(self.build, [-1, 1, self.count] if self.axis else [-1, self.count, 1])

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
