"""Layers that sample images at other places."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer

COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
NEAREST = {
    "round_prefer_floor": "round_prefer_floor",
    "round_prefer_ceil": "round_prefer_ceil",
    "floor": "floor",
    "ceil": "ceil",
}
MODES = {"nearest": "nearest", "linear_onnx": "linear", "linear": "linear", "cubic": "cubic"}


@layer("Interpolate")
def interpolate(of: Layer) -> Made:
    """Version 4 has sizes and scales; version 11 has one of them."""
    if of.version < 4:
        raise Unmapped("opshift does not know this version")
    mode = of.choice("mode", list(MODES))
    by_sizes = of.choice("shape_calculation_mode", ("sizes", "scales")) == "sizes"
    where = of.choice("coordinate_transformation_mode", COORDINATES, "half_pixel")
    if of.flag("antialias", False) or any(of.ints("pads_begin", [])) or any(of.ints("pads_end", [])):
        raise Unmapped("antialias or pads are set", supported="neither")
    rank, place = of.rank(), 3 if of.version < 11 else 2
    held = of.constant(place) if of.has(place) else list(range(rank))
    axes = None if held is None else [of.normal(axis, rank) for axis in held]
    if mode == "linear":
        of.close("interpolates axis by axis")
    sizes = scales = None
    if by_sizes:
        sizes = of.vector(1)
        if axes is not None and of.dims(1) != [len(axes)]:
            sizes = str(of.build.Reshape(sizes, [len(axes)]))
    else:
        scales = of.cast(of.input(2 if of.version < 11 else 1), TensorProto.FLOAT)
    if axes is None and sizes is not None:  # which ONNX takes as numbers alone: the others stay as they are
        sizes = str(of.build.ScatterElements(of.build.Shape(of.input(0)), of.vector(place), sizes))
    elif axes is None:
        ones = of.build.constant([1.0] * rank, TensorProto.FLOAT)
        scales = str(of.build.ScatterElements(ones, of.vector(place), scales))
    return str(
        of.build.Resize(
            of.input(0),
            None,
            scales,
            sizes,
            axes=axes,
            mode=MODES[mode],
            coordinate_transformation_mode=where,
            nearest_mode=NEAREST[of.choice("nearest_mode", list(NEAREST), "round_prefer_floor")]
            if mode == "nearest"
            else None,
            cubic_coeff_a=of.number("cube_coeff", -0.75) if mode == "cubic" else None,
        )
    )


@layer("GridSample")
def grid_sample(of: Layer) -> Made:
    modes = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}
    return str(
        of.build.GridSample(
            of.input(0),
            of.input(1),
            mode=modes[of.choice("mode", list(modes), "bilinear")],
            padding_mode=of.choice("padding_mode", ("zeros", "border", "reflection"), "zeros"),
            align_corners=int(of.flag("align_corners", False)),
        )
    )
