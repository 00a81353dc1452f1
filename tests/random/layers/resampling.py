"""Images at other places, and spectra."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.layers.draw import Draw, Unfit, image, recipe, shape_of


@recipe
def interpolated(d: Draw) -> Any:
    rank = d.one((3, 4, 4, 4, 5))
    dims = [d.count(2), d.number(1, 2), *d.numbers(rank - 2, 1, 5)]
    axes = list(range(2, rank))
    mode = d.one(("nearest", "linear_onnx", "linear", "cubic"))
    if (mode == "linear_onnx" and rank == 3) or (mode == "cubic" and rank != 4):  # onnxruntime has no such kernels
        raise Unfit
    by = d.one(("sizes", "scales"))
    held = {
        "mode": mode, "shape_calculation_mode": by, "antialias": d.chance(0.05), "cube_coeff": d.one((-0.75, -0.5)),
        "coordinate_transformation_mode": d.one(("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_half_pixel_for_nn")),
        "nearest_mode": d.one(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")),
        "pads_begin": [0] * rank if d.chance(0.8) else d.numbers(rank, 0, 1), "pads_end": [0] * rank,
    }  # fmt: skip
    sizes = d.numbers(len(axes), 1, 7)
    scales = [d.one((0.5, 1, 1.5, 2, 0.7)) for _ in axes]
    if any(int(s * n) < 1 for s, n in zip(scales, dims[2:], strict=True)):
        raise Unfit
    x = d.parameter(d.array(dims))
    if d.chance():
        chosen = d.given(sizes, "int64") if by == "sizes" else d.given(scales, "float32")
        return d.make(11, "Interpolate", [x, chosen, d.whole(axes, 0.3)], **held)
    inputs = [x, d.given(sizes, "int64"), d.given(scales, "float32"), d.whole(axes, 0.3)]
    return d.make(4, "Interpolate", inputs, **held)


@recipe
def grid_sampled(d: Draw) -> Any:
    x = image(d, 2)
    n = shape_of(x)[0]
    grid = d.rng.uniform(-1.4, 1.4, [n, d.count(3), d.number(1, 3), 2]).astype(np.float32)
    held = {
        "align_corners": d.chance(),
        "mode": d.one(("bilinear", "nearest", "bicubic")),
        "padding_mode": d.one(("zeros", "border", "reflection")),
    }
    return d.make(9, "GridSample", [x, d.given(grid, run_time=0.6)], **held)


@recipe
def spectrum(d: Draw) -> Any:
    kind = d.one(("DFT", "IDFT", "RDFT", "IRDFT"))
    known = "RDFT" in kind  # of which OpenVINO takes axes and sizes as constants alone
    rank = d.number(1, 3)
    dims = [d.count(5) for _ in range(rank)]
    axes = d.axes(rank, 1)
    x = d.parameter(d.array(dims if kind == "RDFT" else [*dims, 2]))
    least = 1 if known else -1  # of which OpenVINO knows no size that is left as it is
    sizes = [d.whole([d.one((least, d.number(1, 6))) for _ in axes], 0 if known else 0.3)] if d.chance(0.4) else []
    return d.make(9 if known else 7, kind, [x, d.whole(axes, 0 if known else 0.4), *sizes])
