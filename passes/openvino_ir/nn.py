"""Products, convolutions and pools."""

from __future__ import annotations

import math
from collections.abc import Sequence

from opshift.passes.openvino_ir.layer import Layer, Made, Unmapped, layer
from opshift.passes.protos import TensorProto

T = TensorProto

Sizes = Sequence[int]

AUTO = {"same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}


@layer("MatMul")
def mat_mul(of: Layer) -> Made:
    """A vector is never transposed."""
    sides = []
    for index, name in enumerate(("transpose_a", "transpose_b")):
        value = of.input(index)
        if of.flag(name, False) and (rank := of.rank(index)) > 1:
            value = of.permuted(value, [*range(rank - 2), rank - 1, rank - 2])
        sides.append(value)
    return str(of.build.MatMul(*sides))


@layer("Einsum")
def einsum(of: Layer) -> Made:
    return str(of.build.Einsum(*of.inputs, equation=of.exact_text("equation")))


# --- convolutions -------------------------------------------------------------------------------------------


@layer("Convolution")
def convolution(of: Layer) -> Made:
    return str(of.build.Conv(of.input(0), of.input(1), **_windows(of, of.dims(1))))


@layer("GroupConvolution")
def group_convolution(of: Layer) -> Made:
    """The groups are an axis of the weights of their own."""
    groups, outputs, *rest = of.static(1)
    weights = of.reshaped(1, [groups * outputs, *rest])
    return str(of.build.Conv(of.input(0), weights, group=groups, **_windows(of, [0, 0, *rest[1:]])))


def _windows(of: Layer, weights: list[int] | None) -> dict[str, object]:
    auto = of.choice("auto_pad", ("explicit", "notset", *AUTO), "explicit")
    rank = of.rank() - 2
    found: dict[str, object] = {"strides": of.ints("strides"), "dilations": of.ints("dilations", [1] * rank)}
    if auto == "valid":
        return {**found, "pads": [0] * 2 * rank}
    if auto in AUTO:
        kernel = weights[2:] if weights is not None else []
        pads = _same_pads(of, auto, kernel, of.ints("strides"), of.ints("dilations", [1] * rank))
        return {**found, "pads": pads} if pads is not None else {**found, "auto_pad": AUTO[auto]}
    return {**found, "pads": [*of.ints("pads_begin"), *of.ints("pads_end")]}


def _same_pads(of: Layer, auto: str, kernel: Sizes, strides: Sizes, dilations: Sizes) -> list[int] | None:
    """The pads that SAME stands for; None where sizes are not known, and the runtime has to find out."""
    dims = of.dims()
    if dims is None or min([*dims[2:], *kernel], default=-1) < 0 or len(kernel) != len(dims) - 2:
        return None
    begin, end = [], []
    for size, k, stride, dilation in zip(dims[2:], kernel, strides, dilations, strict=True):
        over = max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
        less, more = over // 2, over - over // 2
        begin.append(less if auto == "same_upper" else more)
        end.append(more if auto == "same_upper" else less)
    return [*begin, *end]


@layer("ConvolutionBackpropData")
def transposed_convolution(of: Layer) -> Made:
    return _transposed(of, of.input(1), 1, of.dims(1))


@layer("GroupConvolutionBackpropData")
def group_transposed_convolution(of: Layer) -> Made:
    groups, inputs, *rest = of.static(1)
    return _transposed(of, of.reshaped(1, [groups * inputs, *rest]), groups, [0, *rest])


def _transposed(of: Layer, weights: str, groups: int, dims: list[int] | None) -> str:
    rank = of.rank() - 2
    strides, dilations = of.ints("strides"), of.ints("dilations", [1] * rank)
    extra = of.ints("output_padding", [0] * rank) or [0] * rank
    auto = of.choice("auto_pad", ("explicit", "notset", *AUTO), "explicit")
    begin, end = of.ints("pads_begin", [0] * rank), of.ints("pads_end", [0] * rank)
    if of.has(2):
        if any(extra):
            raise Unmapped("an output shape and output_padding; one of them could be expressed")
        begin, end = _cut_to_shape(of, auto, begin, (dims or [])[2:], strides, dilations)
    elif auto in AUTO:  # without a shape to reach there is nothing to cut
        begin, end = [0] * rank, [0] * rank
    if min([*begin, *end], default=0) < 0:
        raise Unmapped(f"pads {begin} and {end}; 0 or more could be expressed")
    return str(
        of.build.ConvTranspose(
            of.input(0),
            weights,
            strides=strides,
            dilations=dilations,
            pads=[*begin, *end],
            output_padding=extra if any(extra) else None,
            group=groups,
        )
    )


def _cut_to_shape(
    of: Layer, auto: str, begin: list[int], kernel: Sizes, strides: Sizes, dilations: Sizes
) -> tuple[list[int], list[int]]:
    """The pads that leave the output shape; the odd one of SAME_UPPER comes first, other than for a convolution."""
    wanted, data = of.known(2), of.static()[2:]
    if len(kernel) != len(data) or min(kernel) < 1 or len(wanted) != len(data):
        raise Unmapped("the shape of the weights is not known")
    over = [
        stride * (size - 1) + (k - 1) * dilation + 1 - want
        for size, k, stride, dilation, want in zip(data, kernel, strides, dilations, wanted, strict=True)
    ]
    if auto in AUTO:
        parts = {"same_upper": [n - n // 2 for n in over], "same_lower": [n // 2 for n in over]}
        begin = parts.get(auto, [0] * len(over))
    return begin, [number - before for number, before in zip(over, begin, strict=True)]


@layer("DeformableConvolution")
def deformable_convolution(of: Layer) -> Made:
    groups, offsets = of.integer("group", 1), of.integer("deformable_group", 1)
    windows = _windows(of, of.dims(2))
    if "auto_pad" in windows or not of.flag("bilinear_interpolation_pad", False):
        raise Unmapped("auto_pad, or no bilinear_interpolation_pad; explicit pads and true could be expressed")
    mask = of.input(3) if of.has(3) else None
    return str(
        of.build.DeformConv(
            of.input(0), of.input(2), of.input(1), None, mask, group=groups, offset_group=offsets, **windows
        )
    )


# --- pools --------------------------------------------------------------------------------------------------


@layer("MaxPool")
def max_pool(of: Layer) -> Made:
    """The places are counted through all axes in ONNX; only values, or places from axis 0 on."""
    attributes = _pool(of, include=False)
    if len(of.entry.outputs) == 1:
        return str(of.build.MaxPool(of.input(0), **attributes))
    rank = of.rank()
    if of.normal(of.integer("axis", 0), rank) != 0:
        raise Unmapped(f"axis={of.integer('axis')}; 0 could be expressed")
    values, places = of.build.emit("MaxPool", [of.input(0)], attributes, outputs=2)
    return [values, of.cast(places, of.element_type("index_element_type", "i64"))]


@layer("AvgPool")
def average_pool(of: Layer) -> Made:
    include = not of.flag("exclude-pad" if "exclude-pad" in of.entry.attributes else "exclude_pad")
    attributes = _pool(of, include=include)
    return str(of.build.AveragePool(of.input(0), count_include_pad=int(include), **attributes))


def _pool(of: Layer, *, include: bool) -> dict[str, object]:
    """Attributes of a pool. A size that is rounded up takes windows that ONNX does not always take."""
    kernel, strides = of.ints("kernel"), of.ints("strides")
    rank = len(kernel)
    dilations = of.ints("dilations", [1] * rank)
    begin, end = of.ints("pads_begin", [0] * rank), of.ints("pads_end", [0] * rank)
    auto = of.choice("auto_pad", ("explicit", "notset", *AUTO), "explicit")
    rounding = of.choice("rounding_type", ("floor", "ceil", "ceil_torch"), "floor")
    found: dict[str, object] = {"kernel_shape": kernel, "strides": strides}
    if any(dilation != 1 for dilation in dilations):
        found["dilations"] = dilations
    if auto in AUTO:
        if rounding != "floor":
            raise Unmapped(f"auto_pad={auto} with rounding_type={rounding}; floor could be expressed")
        pads = [0] * 2 * rank if auto == "valid" else _same_pads(of, auto, kernel, strides, dilations)
        if pads is None and include:
            raise Unmapped(f"auto_pad={auto} with padding that counts, of data of unknown size")
        return {**found, "pads": pads} if pads is not None else {**found, "auto_pad": AUTO[auto]}
    found["pads"] = [*begin, *end]
    if rounding != "floor" and not _divides(of, kernel, strides, dilations, begin, end):
        _check_last_windows(of, kernel, strides, dilations, begin, end, include=include, drops=rounding == "ceil_torch")
        found["ceil_mode"] = 1
    return found


def _divides(of: Layer, kernel: Sizes, strides: Sizes, dilations: Sizes, begin: Sizes, end: Sizes) -> bool:
    """Whether there is nothing to round."""
    dims = of.dims()
    sizes = dims[2:] if dims is not None else [-1] * len(kernel)
    return all(
        size >= 0 and (size + before + after - (k - 1) * d - 1) % stride == 0
        for size, k, stride, d, before, after in zip(sizes, kernel, strides, dilations, begin, end, strict=True)
    )


def _check_last_windows(
    of: Layer,
    kernel: Sizes,
    strides: Sizes,
    dilations: Sizes,
    begin: Sizes,
    end: Sizes,
    *,
    include: bool,
    drops: bool,
) -> None:
    """ONNX drops a window that begins behind the data, and counts what lies behind the padding as no padding."""
    sizes = of.static()[2:]
    for size, k, stride, d, before, after in zip(sizes, kernel, strides, dilations, begin, end, strict=True):
        count = math.ceil((size + before + after - (k - 1) * d - 1) / stride)
        if count * stride >= size + before and not drops:
            raise Unmapped("rounding_type=ceil takes a window behind the data; ceil_torch could be expressed")
        if include and count * stride + (k - 1) * d + 1 > size + before + after:
            raise Unmapped("a last window behind the padding, which counts; whether that counts, too, is left open")


@layer("AdaptiveAvgPool")
def adaptive_pool(of: Layer) -> Made:
    """One element for all, or as many as divide the data."""
    wanted, rank = of.known(1), of.rank()
    if all(size == 1 for size in wanted):
        return str(of.build.GlobalAveragePool(of.input(0)))
    sizes = of.static()[2:]
    if len(sizes) != rank - 2 or any(size % want for size, want in zip(sizes, wanted, strict=True)):
        raise Unmapped(f"{sizes} elements in {wanted} parts; equal parts could be expressed")
    kernel = [size // want for size, want in zip(sizes, wanted, strict=True)]
    return str(of.build.AveragePool(of.input(0), kernel_shape=kernel, strides=kernel))


@layer("ROIAlign")
def roi_align(of: Layer) -> Made:
    """Version 3 does not move the corners by half a pixel."""
    modes = {"asymmetric": "output_half_pixel", "half_pixel_for_nn": "half_pixel"}
    aligned = modes[of.choice("aligned_mode", list(modes), "asymmetric")]
    ratio = of.integer("sampling_ratio", 0)
    if of.choice("mode", ("avg", "max")) == "max":
        raise Unmapped("mode=max, which takes the largest part of a sample in ONNX; avg could be expressed")
    return str(
        of.build.RoiAlign(
            of.input(0),
            of.input(1),
            of.int64(2),
            output_height=of.integer("pooled_h"),
            output_width=of.integer("pooled_w"),
            sampling_ratio=ratio,
            spatial_scale=of.number("spatial_scale"),
            mode="avg",
            coordinate_transformation_mode=aligned,
        )
    )


@layer("NonMaxSuppression")
def non_max_suppression(of: Layer) -> Made:
    """The selected places alone, in the order of ONNX: by batch, class and score."""
    if of.flag("sort_result_descending", True):
        raise Unmapped("sort_result_descending=true; false could be expressed")
    if of.has(5) and of.scalar(5) != 0:
        raise Unmapped("soft_nms_sigma; 0 could be expressed")
    if of.version < 9:
        raise Unmapped("an output that is filled with -1; version 9 could be expressed")
    center = int(of.choice("box_encoding", ("corner", "center"), "corner") == "center")
    to = of.element_type("output_type", "i64")
    most = of.build.Reshape(of.int64(2), [1]) if of.has(2) else None
    limits = [of.build.Reshape(of.input(index), [1]) if of.has(index) else None for index in (3, 4)]
    chosen = of.build.NonMaxSuppression(of.input(0), of.input(1), most, *limits, center_point_box=center)
    scores = of.build.GatherND(of.input(1), chosen)
    index = of.build.Cast(chosen, to=of.elem_type(1))
    first = of.build.Slice(index, [0], [2], [1])
    table = of.build.Concat(first, of.build.Unsqueeze(scores, [1]), axis=1)
    count = of.build.Shape(chosen, start=0, end=1)
    outputs = [of.cast(chosen, to), table, of.cast(count, to)]
    return outputs[: len(of.entry.outputs)]
