"""Layers that look at regions of images, or choose among them."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino import sizes
from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer

T = TensorProto


@layer("ROIAlign")
def roi_align(of: Layer) -> Made:
    """The largest sample of a part is the largest mean of one sample of its smaller parts, or 0."""
    modes = {"asymmetric": "output_half_pixel", "half_pixel_for_nn": "half_pixel", "half_pixel": "half_pixel"}
    mode = of.choice("aligned_mode", list(modes), "asymmetric")
    b, rois = of.build, of.input(1)
    if mode == "half_pixel":  # which moves the corners before they are scaled, too
        rois = b.Add(rois, of.like(0.5, 1))
    ratio, largest = of.integer("sampling_ratio", 0), of.choice("mode", ("avg", "max")) == "max"
    if largest and ratio < 1:
        raise Unmapped("mode=max with sampling_ratio=0", supported="sampling_ratio=1 or more")
    finer = ratio if largest else 1
    found = b.RoiAlign(
        of.input(0),
        rois,
        of.int64(2),
        output_height=of.integer("pooled_h") * finer,
        output_width=of.integer("pooled_w") * finer,
        sampling_ratio=1 if largest else ratio,
        spatial_scale=of.number("spatial_scale"),
        mode="avg",
        coordinate_transformation_mode=modes[mode],
    )
    if not largest:
        return str(found)
    found = b.MaxPool(found, kernel_shape=[finer] * 2, strides=[finer] * 2) if finer > 1 else found
    return str(b.Max(found, of.like(0)))


@layer("ROIPooling")
def roi_pooling(of: Layer) -> Made:
    method = of.choice("method", ("max", "bilinear"), "max")
    named = [of.ints("output_roi", []), of.ints("output_size", [])]
    named.append([of.integer("pooled_h", 0), of.integer("pooled_w", 0)])
    size = next(held for held in named if held and all(held))
    scale = of.number("spatial_scale")
    if method == "bilinear":
        return _sample(of, size)
    b, held = of.build, of.array(1)
    if held is not None and (held[:, 0] >= 0).all():
        return str(b.MaxRoiPool(of.input(0), of.input(1), pooled_shape=size, spatial_scale=scale))
    images = b.Max(b.Slice(of.input(1), [0], [1], [1]), of.like(0))
    regions = b.Concat(images, b.Slice(of.input(1), [1], [5], [1]), axis=1)
    found = b.MaxRoiPool(of.input(0), regions, pooled_shape=size, spatial_scale=scale)
    return str(b.Where(_are_there(of), found, of.like(0)))


def _are_there(of: Layer) -> str:
    """Regions before the first one of image -1, which ends them."""
    b = of.build
    ends = b.Cast(b.Equal(b.Slice(of.input(1), [0], [1], [1]), of.like(-1)), to=T.INT32)
    ended = b.Reshape(b.CumSum(ends, 0), [-1, 1, 1, 1])
    return str(b.Equal(ended, b.constant(0, T.INT32)))


def _sample(of: Layer, size: list[int]) -> str:
    """Points from corner to corner of a region, which are parts of the image; none beyond its border."""
    b = of.build
    image = b.Transpose(of.input(0), perm=[0, 2, 3, 1])
    places, weights, inside = [], [], []
    for axis, (first, last, count) in enumerate(((2, 4, size[0]), (1, 3, size[1]))):
        edge = of.cast(sizes.one(of, sizes.minus(of, sizes.dims(of)[2 + axis], 1)), of.elem_type())
        start, end = (b.Slice(of.input(1), [k], [k + 1], [1]) for k in (first, last))
        at = _points(of, start, end, edge, count)
        low = b.Floor(at)
        within = b.And(b.GreaterOrEqual(at, of.like(0)), b.LessOrEqual(at, edge))
        dims = [0, count, 1, 1] if axis == 0 else [0, 1, count, 1]
        weights.append(b.Reshape(b.Sub(at, low), dims))
        inside.append(b.Reshape(within, dims))
        safe = b.Where(within, at, of.like(0))
        places.append([b.Reshape(b.Cast(b.emit(way, [safe]), to=T.INT64), dims) for way in ("Floor", "Ceil")])
    batch = b.Reshape(b.Cast(b.Slice(of.input(1), [0], [1], [1]), to=T.INT64), [0, 1, 1, 1])
    shape = b.Concat(b.Shape(batch, start=0, end=1), [*size, 1], axis=0)
    batch = b.Expand(b.Max(batch, [0]), shape)
    rows = []
    for y in places[0]:
        left, right = (
            b.GatherND(image, b.Concat(batch, b.Expand(y, shape), b.Expand(x, shape), axis=3)) for x in places[1]
        )
        rows.append(b.Add(left, b.Mul(b.Sub(right, left), weights[1])))
    top, bottom = rows
    found = b.Add(top, b.Mul(b.Sub(bottom, top), weights[0]))
    counts = b.And(b.And(*inside), _are_there(of))
    return str(b.Transpose(b.Where(counts, found, of.like(0)), perm=[0, 3, 1, 2]))


def _points(of: Layer, start: str, end: str, edge: str, count: int) -> str:
    """The middle, or `count` points from the start to the end of each region, which they reach exactly."""
    b, elem_type = of.build, of.elem_type()
    if count == 1:
        return str(b.Mul(b.Mul(b.Add(start, end), of.like(0.5)), edge))
    step = b.Div(b.Mul(b.Sub(end, start), edge), of.like(count - 1))
    before = b.Add(b.Mul(b.constant([list(range(count - 1))], elem_type), step), b.Mul(start, edge))
    return str(b.Concat(before, b.Mul(end, edge), axis=1))


@layer("NonMaxSuppression")
def non_max_suppression(of: Layer) -> Made:
    """The selected places alone, of every version: by batch, class and score, as in ONNX, or all of them by score."""
    b = of.build
    if of.has(5) and of.scalar(5) != 0:
        raise Unmapped("soft_nms_sigma is not 0", supported="0")
    center = int(of.choice("box_encoding", ("corner", "center"), "corner") == "center")
    to = of.element_type("output_type", "i64")
    most = b.Reshape(of.int64(2), [1]) if of.has(2) else None
    least = (
        b.Reshape(of.input(4), [1]) if of.has(4) else b.constant([0.0], of.elem_type(1))
    )  # without one, none in ONNX
    chosen = b.NonMaxSuppression(of.input(0), of.input(1), most, _overlap(of), least, center_point_box=center)
    falling, alone = of.flag("sort_result_descending", True), len(of.entry.outputs) == 1
    if alone and not falling:
        return of.cast(chosen, to)
    scores, count = b.GatherND(of.input(1), chosen), b.Shape(chosen, start=0, end=1)
    if falling:
        scores, order = b.emit("TopK", [scores, count], {"axis": 0}, outputs=2)
        chosen = b.Gather(chosen, order, axis=0)
    if alone:
        return of.cast(chosen, to)
    first = b.Slice(b.Cast(chosen, to=of.elem_type(1)), [0], [2], [1])
    table = b.Concat(first, b.Unsqueeze(scores, [1]), axis=1)
    return [of.cast(chosen, to), table, of.cast(count, to)]


def _overlap(of: Layer) -> str | None:
    """The limit, of which ONNX allows no more than 1: no boxes overlap by more."""
    b, held = of.build, of.scalar(3) if of.has(3) else None
    if held is not None and held < 0:
        raise Unmapped(f"iou_threshold={held}", supported="0 or more")
    if not of.has(3):
        return None
    given = b.Reshape(of.input(3), [1])
    return str(given if held is not None and held <= 1 else b.Min(given, of.like(1.0, 3)))
