"""Products, convolutions, pools and regions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.layers.draw import Draw, Unfit, image, recipe, shape_of


@recipe
def matmul(d: Draw) -> Any:
    n, k, m = d.size(), d.size(), d.size()
    a, b = d.chance(), d.chance()
    batch = [d.number(1, 3) for _ in range(d.number(0, 2))]
    left, right = batch + ([k, n] if a else [n, k]), ([m, k] if b else [k, m])
    if d.chance(0.3):
        right = batch + right
    if d.chance(0.2):
        left = [k]
    elif d.chance(0.2):
        right = [k]
    return d.make(1, "MatMul", [d.like(left, run_time=0.9), d.like(right)], transpose_a=a, transpose_b=b)


@recipe
def einsum(d: Draw) -> Any:
    sizes = {letter: d.number(1, 4) for letter in "abcd"}
    equation = d.one(("ab,bc->ac", "abc,abd->acd", "ab,ab->a", "abc->ca", "a,b->ab", "ab->"))
    inputs = [d.like([sizes[c] for c in part], run_time=0.8) for part in equation.partition("->")[0].split(",")]
    return d.make(7, "Einsum", inputs, equation=equation)


AUTO = ("explicit", "explicit", "same_upper", "same_lower", "valid")


def _windows(d: Draw, rank: int, dilated: bool = True) -> dict[str, Any]:
    return {
        "strides": d.numbers(rank, 1, 3),
        "dilations": d.numbers(rank, 1, 3) if dilated and d.chance(0.4) else [1] * rank,
        "pads_begin": d.numbers(rank, 0, 2),
        "pads_end": d.numbers(rank, 0, 2),
        "auto_pad": d.one(AUTO),
    }


@recipe
def convolution(d: Draw) -> Any:
    rank = d.one((1, 2, 2, 2, 3))
    x = image(d, rank)
    c = shape_of(x)[1]
    if d.chance(0.6):
        weights = d.like([d.number(1, 3), c, *d.numbers(rank, 1, 3)], run_time=0.1)
        return d.make(1, "Convolution", [x, weights], **_windows(d, rank))
    groups = d.one([g for g in range(1, c + 1) if c % g == 0])
    weights = d.like([groups, d.number(1, 2), c // groups, *d.numbers(rank, 1, 3)], run_time=0.1)
    return d.make(1, "GroupConvolution", [x, weights], **_windows(d, rank))


@recipe
def deconvolution(d: Draw) -> Any:
    rank = d.one((1, 2, 2, 2))
    x = image(d, rank)
    c = shape_of(x)[1]
    held = _windows(d, rank)
    held["output_padding"] = [d.number(0, s - 1) if d.chance(0.3) else 0 for s in held["strides"]]
    shape = []
    if d.chance(0.3):
        held["output_padding"] = [0] * rank
        shape = [
            d.given([s * n + d.number(-1, 1) for s, n in zip(held["strides"], shape_of(x)[2:], strict=True)], "int64")
        ]
    if d.chance(0.6):
        weights = d.like([c, d.number(1, 3), *d.numbers(rank, 1, 3)], run_time=0.1)
        return d.make(1, "ConvolutionBackpropData", [x, weights, *shape], **held)
    groups = d.one([g for g in range(1, c + 1) if c % g == 0])
    weights = d.like([groups, c // groups, d.number(1, 2), *d.numbers(rank, 1, 3)], run_time=0.1)
    return d.make(1, "GroupConvolutionBackpropData", [x, weights, *shape], **held)


@recipe
def deformed(d: Draw) -> Any:
    x = image(d, 2)
    n, c, *sides = shape_of(x)
    groups, held = d.one([g for g in range(1, c + 1) if c % g == 0]), _windows(d, 2)
    deformable, kernel = d.one([g for g in (1, 2, 3) if c % g == 0]), d.numbers(2, 1, 3)
    held["auto_pad"] = "explicit"
    sizes = [
        (size + before + behind - gap * (k - 1) - 1) // step + 1
        for size, k, step, gap, before, behind in zip(sides, kernel, *list(held.values())[:4], strict=True)
    ]
    if min(sizes) < 1:
        raise Unfit
    places = deformable * kernel[0] * kernel[1]
    moves = d.parameter(d.rng.uniform(-1.3, 1.3, [n, 2 * places, *sizes]).astype(np.float32))
    weights = d.like([groups * d.number(1, 2), c // groups, *kernel], run_time=0.1)
    masks = [d.like([n, places, *sizes], run_time=0.6)] if d.chance() else []
    held |= {"group": groups, "deformable_group": deformable, "bilinear_interpolation_pad": d.chance(0.8)}
    return d.make(8, "DeformableConvolution", [x, moves, weights, *masks], **held)


@recipe
def max_pool(d: Draw) -> Any:
    rank = d.one((1, 2, 2, 2, 3))
    held = _windows(d, rank)
    x = image(d, rank)
    kernel = d.numbers(rank, 1, 3)
    if d.chance(0.3):
        held.pop("dilations")
        return d.make(1, "MaxPool", [x], kernel=kernel, rounding_type=d.one(("floor", "ceil")), **held)
    roundings, version = (("floor", "ceil"), 8) if d.chance(0.3) else (("floor", "ceil", "ceil_torch"), 14)
    made = d.make(
        version, "MaxPool", [x], kernel=kernel, rounding_type=d.one(roundings), axis=d.number(-rank - 2, rank + 1),
        index_element_type=d.one(("i32", "i64")), **held,
    )  # fmt: skip
    return made if d.chance(0.3) else made[:1]


@recipe
def avg_pool(d: Draw) -> Any:
    rank = d.one((1, 2, 2, 2, 3))
    version, roundings = d.one(
        ((1, ("floor", "ceil")), (14, ("floor", "ceil", "ceil_torch")), (16, ("floor", "ceil", "ceil_torch")))
    )
    held = _windows(d, rank)
    if version < 16:
        held.pop("dilations")
    name, excludes, x = "exclude-pad" if version == 1 else "exclude_pad", d.chance(), image(d, rank)
    if excludes and any(step > size for step, size in zip(held.get("dilations", ()), shape_of(x)[2:], strict=False)):
        raise Unfit  # a window may hold nothing but pads, whose average nobody tells
    held |= {name: excludes, "rounding_type": d.one(roundings)}
    return d.make(version, "AvgPool", [x], kernel=d.numbers(rank, 1, 3), **held)


@recipe
def adaptive_pool(d: Draw) -> Any:
    rank = d.one((1, 2, 2, 3))
    x = image(d, rank)
    if d.chance(0.7):
        return d.make(8, "AdaptiveAvgPool", [x, d.whole(d.numbers(rank, 1, 4))])
    made = d.make(8, "AdaptiveMaxPool", [x, d.whole(d.numbers(rank, 1, 4))], index_element_type="i32")
    return made if d.chance(0.3) else made[:1]


@recipe
def roi_align(d: Draw) -> Any:
    x = image(d, 2)
    count = d.count(3) if shape_of(x)[0] else 0
    low = np.abs(d.array([count, 2]))
    boxes = np.concatenate([low, low + np.abs(d.array([count, 2])) + 1], 1).astype(np.float32)
    held = {"pooled_h": d.number(1, 3), "pooled_w": d.number(1, 3), "sampling_ratio": d.number(0, 2)}
    held |= {"spatial_scale": d.one((0.5, 1.0)), "mode": d.one(("avg", "max"))}
    batch = d.given(d.numbers(count, 0, shape_of(x)[0] - 1), "int32")
    if d.chance(0.3):
        return d.make(3, "ROIAlign", [x, d.given(boxes), batch], **held)
    return d.make(
        9,
        "ROIAlign",
        [x, d.given(boxes), batch],
        aligned_mode=d.one(("asymmetric", "half_pixel_for_nn", "half_pixel")),
        **held,
    )


@recipe
def roi_pooling(d: Draw) -> Any:
    x = image(d, 2)
    count = d.count(3) if shape_of(x)[0] else 0
    low = np.abs(d.array([count, 2]))
    method = d.one(("max", "bilinear"))
    scale = d.one((1.0, 0.5))
    if method == "bilinear":
        low = low / 6
        boxes = np.concatenate([low, low + np.abs(d.array([count, 2])) / 6], 1)
    else:
        boxes = np.concatenate([low, low + np.abs(d.array([count, 2]))], 1)
    batch = np.array([[d.number(0, shape_of(x)[0] - 1)] for _ in range(count)], np.float32).reshape(count, 1)
    boxes = np.concatenate([batch, boxes], 1).astype(np.float32)
    size = [d.number(1, 3), d.number(1, 3)]
    return d.make(
        2,
        "ROIPooling",
        [x, d.given(boxes, run_time=0.5)],
        output_size=size,
        pooled_h=size[0],
        pooled_w=size[1],
        method=method,
        spatial_scale=scale,
    )


@recipe
def suppressed(d: Draw) -> Any:
    batch, count, classes = d.number(1, 2), d.count(6), d.number(1, 2)
    low = d.rng.uniform(0, 1, (batch, count, 2))
    boxes = np.concatenate([low, low + d.rng.uniform(0.2, 1, (batch, count, 2))], 2).astype(np.float32)
    scores = d.rng.permutation(batch * classes * count).reshape(batch, classes, count).astype(np.float32) / 16
    inputs = [
        d.parameter(boxes),
        d.parameter(scores),
        d.given(d.number(1, 4), "int64"),
        d.given(np.float32(d.one((0.3, 0.6, 0.45)))),
    ]
    inputs.append(d.given(np.float32(d.one((0.0, 0.2)))))
    if d.chance(0.3):
        inputs.append(d.constant(np.float32(d.one((0.0, 0.5)))))
    held = {
        "box_encoding": d.one(("corner", "center")),
        "sort_result_descending": d.chance(),
        "output_type": d.one(("i32", "i64")),
    }
    version = d.one((1, 3, 4, 5, 9, 9))
    if version == 1:
        del held["output_type"]
    return d.make(version, "NonMaxSuppression", inputs[: None if version > 4 else 5], **held)
