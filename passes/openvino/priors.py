"""Boxes of a fixed size and shape around each place of a grid, which detectors move and choose from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, sqrt
from typing import NamedTuple

from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer

T = TensorProto
CLOSE = 1e-6  # ratios that differ by less are one


class Box(NamedTuple):
    """A box at every place: its middle beside the place, half of its sides, and whether it stays in the image."""

    x: float
    y: float
    width: float
    height: float
    bounded: bool = False


@layer("PriorBoxClustered")
def cluster(of: Layer) -> Made:
    widths, heights = of.numbers("width"), of.numbers("height")
    if len(widths) != len(heights):
        raise Unmapped(f"{len(widths)} widths, but {len(heights)} heights")
    boxes = [Box(0, 0, width / 2, height / 2) for width, height in zip(widths, heights, strict=True)]
    both = of.number("step", 0.0)
    steps = [of.number(name, 0.0) or both for name in ("step_h", "step_w")]
    return _around(of, boxes, steps if any(steps) else None, of.number("offset"))


@layer("PriorBox")
def prior_box(of: Layer) -> Made:
    if not of.flag("scale_all_sizes", True):
        raise Unmapped("scale_all_sizes=false", supported="true")
    boxes = [*_fix(of), *_ratios(of)]
    step, offset = of.number("step", 0.0), of.number("offset")
    return _around(of, boxes, [step, step] if step else None, offset if step else 0.5)


def _numbers(of: Layer, name: str) -> list[float]:
    return of.numbers(name) if name in of.entry.attributes else []


def _aspects(of: Layer) -> list[float]:
    """The ratios of width to height beside 1, without those that are there already."""
    found = [1.0]
    flip = of.flag("flip", False)
    for ratio in _numbers(of, "aspect_ratio"):
        if not ratio > 0:
            raise Unmapped(f"aspect_ratio={ratio:g}", supported="more than 0")
        if all(abs(ratio - other) >= CLOSE for other in found):
            found += [ratio, 1 / ratio] if flip else [ratio]
    return [ratio for ratio in found if abs(ratio - 1) >= CLOSE]


def _fix(of: Layer) -> Iterator[Box]:
    """Boxes of one size and area, several of them spread over each place."""
    ratios, others = _numbers(of, "fixed_ratio"), _aspects(of)
    sizes = _numbers(of, "fixed_size")
    if sizes and (_numbers(of, "min_size") or len(ratios) not in (0, 1 + len(others))):
        raise Unmapped("fixed_size with min_size or fixed_ratio: the number of boxes is inconsistent")
    densities = [int(number) for number in _numbers(of, "density")]
    for size, density in zip(sizes, densities, strict=True):
        if size % 2 or size % density:
            raise Unmapped(
                f"fixed_size={size:g}, density={density}", supported="a size that is a multiple of density and of 2"
            )
        at = [((2 * k + 1) / density - 1) * size / 2 for k in range(density)]
        for ratio in ratios or [1.0, *others]:
            side = sqrt(ratio)
            yield from (Box(x, y, size / 2 * side, size / 2 / side, True) for y in at for x in at)


def _ratios(of: Layer) -> Iterator[Box]:
    """A square of each least size, one between it and the largest, and one of each ratio with the area of the first."""
    largest, others = _numbers(of, "max_size"), _aspects(of)
    in_order = of.flag("min_max_aspect_ratios_order", True)
    for at, size in enumerate(_numbers(of, "min_size")):
        between = [sqrt(size * largest[at]) / 2] if at < len(largest) else []
        squares = [Box(0, 0, side, side) for side in between]
        oblong = [Box(0, 0, size / 2 * sqrt(r), size / 2 / sqrt(r)) for r in others]
        yield Box(0, 0, size / 2, size / 2)
        yield from [*squares, *oblong] if in_order else [*oblong, *squares]


def _around(of: Layer, boxes: Sequence[Box], steps: Sequence[float] | None, offset: float) -> str:
    """Corners of the boxes as parts of the image, row by row, above what they are moved by.

    `steps` lead down and to the right; without them the grid is as large as the image.
    """
    b = of.build
    if not boxes:
        raise Unmapped("no boxes are given", supported="at least one")
    of.close("multiplies in another order")
    clip = of.flag("clip", False)
    grid, image = of.int64(0), b.Cast(of.int64(1), to=T.FLOAT)
    middles, sides = [], []
    for axis, shape in enumerate(([-1, 1, 1, 1], [1, -1, 1, 1])):
        count, side = (b.Slice(of_all, [axis], [axis + 1]) for of_all in (grid, image))
        places = b.Cast(b.Range(0, b.Squeeze(count, [0]), 1), to=T.FLOAT)
        length = b.constant(steps[axis], T.FLOAT) if steps else b.Div(side, b.Cast(count, to=T.FLOAT))
        middles.append(b.Reshape(b.Mul(b.Add(places, b.constant(offset, T.FLOAT)), length), shape))
        sides.append(side)
    (y, x), (height, width) = middles, sides
    corners = [
        [box.x + way * box.width if axis == 0 else box.y + way * box.height for way in (-1, 1) for axis in (0, 1)]
        for box in boxes
    ]
    horizontal, vertical = (b.constant([[[own]]], T.FLOAT) for own in ([1.0, 0, 1, 0], [0.0, 1, 0, 1]))
    centers = b.Add(b.Mul(x, horizontal), b.Mul(y, vertical))
    found = b.Div(b.Add(centers, b.constant([[corners]], T.FLOAT)), b.Concat(width, height, width, height, axis=0))
    if clip or any(box.bounded for box in boxes):
        least = [[0.0 if clip or (box.bounded and end < 2) else -inf for end in range(4)] for box in boxes]
        most = [[1.0 if clip or (box.bounded and end > 1) else inf for end in range(4)] for box in boxes]
        found = b.Min(b.Max(found, b.constant(least, T.FLOAT)), b.constant(most, T.FLOAT))
    moved = b.Expand(b.constant(_variances(of), T.FLOAT), b.Shape(found))
    return str(of.cast(b.Concat(*(b.Reshape(part, [1, -1]) for part in (found, moved)), axis=0), T.FLOAT))


def _variances(of: Layer) -> list[float]:
    held = _numbers(of, "variance") or [0.1]
    if len(held) not in (1, 4):
        raise Unmapped(f"{len(held)} variances", supported="1 or 4")
    return held
