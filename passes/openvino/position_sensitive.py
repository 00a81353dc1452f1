"""PSROIPooling: each part of a region has channels of its own, of which it is the mean."""

from __future__ import annotations

from math import prod

from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino import sizes
from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer

T = TensorProto


@layer("PSROIPooling")
def position_sensitive_pooling(of: Layer) -> Made:
    """Data, and regions of an image and two corners; the first region of image -1 ends them."""
    b, mode = of.build, of.choice("mode", ("average", "bilinear"), "average")
    if of.elem_type() not in (T.FLOAT, T.DOUBLE):
        raise Unmapped("float16 data", supported="float and double")
    bins = [of.integer(name, 0) for name in ("spatial_bins_y", "spatial_bins_x")]
    of.close("may round otherwise")
    found = _of_sums(of) if mode == "average" else _of_points(of, bins)
    ends = b.Cast(b.Equal(b.Slice(of.input(1), [0], [1], [1]), of.like(-1, 1)), to=T.INT32)
    ended = b.Reshape(b.CumSum(ends, 0), [-1, 1, 1, 1])
    return str(b.Where(b.Equal(ended, b.constant(0, T.INT32)), found, of.like(0)))


def _corner(of: Layer, column: int) -> str:
    return str(of.build.Slice(of.input(1), [column], [column + 1], [1]))


def _gather(of: Layer, data: str, places: list[str], shape: str) -> str:
    """Elements at images, channels, rows and columns, which broadcast to a shape."""
    b = of.build
    return str(b.GatherND(data, b.Concat(*(b.Unsqueeze(b.Expand(p, shape), [-1]) for p in places), axis=-1)))


def _places(of: Layer, channels: list[int]) -> tuple[str, str, str]:
    """Images, channels, and the shape that all places have: of regions, and of channels as they are given."""
    b, rank = of.build, len(channels)
    image = b.Max(b.Cast(_corner(of, 0), to=T.INT64), [0])
    count = b.Shape(image, start=0, end=1)
    image = b.Reshape(image, [-1, *[1] * rank])
    return (
        str(image),
        str(b.Reshape(b.Range(0, prod(channels), 1), [1, *channels])),
        str(b.Concat(count, channels, axis=0)),
    )


def _of_sums(of: Layer) -> str:
    """Whole pixels; what a part of them sums to is told by the sums from the first pixel on."""
    b, dims, group = of.build, sizes.dims(of), of.integer("group_size")
    image, channel, shape = _places(of, [of.integer("output_dim"), group, group])
    sums = b.Cast(of.input(0), to=T.DOUBLE)
    for axis in (2, 3):
        sums = b.CumSum(sums, axis)
    sums = b.Pad(sums, [0, 0, 1, 1, 0, 0, 0, 0])
    spans = []
    for axis, (first, last) in enumerate(((2, 4), (1, 3))):
        low, high = (
            b.Mul(_away_from_zero(of, corner), of.like(of.number("spatial_scale")))
            for corner in (_corner(of, first), b.Add(_corner(of, last), of.like(1)))
        )
        part = b.Div(b.Max(b.Sub(high, low), of.like(0.1)), of.like(group))
        size = of.cast(sizes.one(of, dims[2 + axis]), of.elem_type())
        ends = []
        for way, start in (("Floor", 0), ("Ceil", 1)):
            steps = b.constant([[float(k + start) for k in range(group)]], of.elem_type())
            at = b.emit(way, [b.Add(b.Mul(steps, part), low)])
            at = b.Cast(b.Max(b.Min(at, size), of.like(0)), to=T.INT64)
            ends.append(str(b.Reshape(at, [0, 1, -1, 1] if axis == 0 else [0, 1, 1, -1])))
        spans.append(ends)
    (top, bottom), (left, right) = spans
    corners = [_gather(of, sums, [image, channel, y, x], shape) for y in (bottom, top) for x in (right, left)]
    total = b.Sub(b.Sub(corners[0], corners[1]), b.Sub(corners[2], corners[3]))
    height, width = (b.Max(b.Sub(last, first), [0]) for first, last in spans)
    area = b.Mul(height, width)
    mean = b.Div(total, b.Cast(b.Max(area, [1]), to=T.DOUBLE))
    return str(b.Where(b.Greater(area, [0]), b.Cast(mean, to=of.elem_type()), of.like(0)))


def _away_from_zero(of: Layer, value: str) -> str:
    """Rounded, halves away from zero."""
    b, half = of.build, of.like(0.5)
    return str(b.Where(b.Less(value, of.like(0)), b.Ceil(b.Sub(value, half)), b.Floor(b.Add(value, half))))


def _of_points(of: Layer, bins: list[int]) -> str:
    """A point of each bin of a region, between four pixels; none beyond the border."""
    b, dims, group = of.build, sizes.dims(of), of.integer("group_size")
    image, channel, shape = _places(of, [*bins, of.integer("output_dim"), 1, 1])
    shape = str(b.Concat(b.Slice(shape, [0], [4]), [group, group], axis=0))
    pixels, weights, inside = [], [], []
    for axis, (first, last) in enumerate(((2, 4), (1, 3))):
        low, high = (b.Mul(_corner(of, k), of.like(of.number("spatial_scale"))) for k in (first, last))
        edge = of.cast(sizes.one(of, sizes.minus(of, dims[2 + axis], 1)), of.elem_type())
        width = b.Div(b.Sub(high, low), of.like(bins[axis]))
        ends = []
        for start in (0, 1):
            steps = b.constant([[float(k + start) for k in range(bins[axis])]], of.elem_type())
            ends.append(b.Unsqueeze(b.Add(low, b.Mul(steps, width)), [2]))
        if group == 1:
            at = b.Mul(b.Mul(of.like(0.5), b.Add(*ends)), edge)
        else:
            step = b.Div(b.Mul(b.Sub(ends[1], ends[0]), edge), of.like(group - 1))
            parts = b.constant([[[float(k) for k in range(group)]]], of.elem_type())
            at = b.Add(b.Mul(parts, step), b.Mul(ends[0], edge))
        at = b.Unsqueeze(at, [2, 3, 5] if axis == 0 else [1, 3, 4])
        inside.append(b.And(b.GreaterOrEqual(at, of.like(0)), b.LessOrEqual(at, edge)))
        safe = b.Max(b.Min(at, edge), of.like(0))
        weights.append(b.Sub(safe, b.Floor(safe)))
        pixels.append([str(b.Cast(b.emit(way, [safe]), to=T.INT64)) for way in ("Floor", "Ceil")])
    rows = []
    for y in pixels[0]:
        left, right = (_gather(of, of.input(0), [image, channel, y, x], shape) for x in pixels[1])
        rows.append(b.Add(left, b.Mul(b.Sub(right, left), weights[1])))
    found = b.Add(rows[0], b.Mul(b.Sub(rows[1], rows[0]), weights[0]))
    return str(b.ReduceMean(b.Where(b.And(*inside), found, of.like(0)), [1, 2], keepdims=0))
