"""GridSample: modes that were renamed for volumes, and what it computes, before it existed."""

from __future__ import annotations

import itertools
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto
NEWER = {"bilinear": "linear", "bicubic": "cubic"}
OLDER = {newer: older for older, newer in NEWER.items()}
PADDINGS = ("zeros", "border", "reflection")
A = -0.75  # the coefficient of cubic interpolation


@says("Renamed mode bilinear to linear, bicubic to cubic")
def modes_of_any_rank(node: Node) -> None:
    mode = node.attributes.get("mode")
    if mode in NEWER:
        node.attributes["mode"] = NEWER[mode]


@says("Renamed mode linear to bilinear, cubic to bicubic; replaced GridSample of volumes by Gather")
def modes_of_images(node: Node) -> Replacement:
    shape, mode = node.scope.shape(node.input(0)), node.attributes.get("mode")
    if mode not in (None, "nearest", *NEWER, *OLDER):
        raise CannotConvert(node, f"mode={mode}", supported=f"{', '.join((*OLDER, 'nearest'))}")
    if shape is not None and len(shape) != 4:
        return gathered_and_weighted(node)
    if mode in OLDER:
        node.attributes["mode"] = OLDER[mode]
    return None


@says("Interpolated bfloat16 in float32")
def bfloat16_in_float(node: Node) -> Replacement:
    inputs, wide = node.inputs, [k for k in range(2) if node.elem_type(k) == T.BFLOAT16]
    if not wide:
        return None
    node.close("bfloat16 is interpolated in float32")
    for k in wide:
        inputs[k] = node.build.Cast(inputs[k], to=T.FLOAT)
    made = node.build.again(node.proto, inputs)
    return str(node.build.Cast(made, to=T.BFLOAT16) if 0 in wide else made)


@says("Replaced GridSample by gathering and weighting the neighbours of each point")
def gathered_and_weighted(node: Node) -> str:
    build, x, elem_type, rank = node.build, node.input(0), node.elem_type(), node.rank()
    mode, padding = node.attributes.get("mode", "linear"), node.attributes.get("padding_mode", "zeros")
    mode = NEWER.get(mode, mode)
    if mode not in ("nearest", *OLDER) or padding not in PADDINGS or rank < 3:
        raise CannotConvert(node, f"GridSample has mode={mode} and padding_mode={padding} for data of rank {rank}")
    if mode != "nearest" and elem_type not in (T.FLOAT16, T.FLOAT, T.DOUBLE):
        raise CannotConvert(
            node,
            f"the data are integers and mode is {mode}, and ONNX does not say how the result is rounded",
            supported="floats",
        )
    node.close("interpolates in another order")
    wide = T.FLOAT if elem_type == T.FLOAT16 and mode != "nearest" else elem_type
    dims = flat_indices.sizes(node, x)
    batch, channels, sizes = dims[0], dims[1], dims[2:]
    rows = build.Transpose(x, perm=[0, *range(2, rank), 1])
    rows = flat_indices.merge_axes(node, rows, [batch, *sizes, channels], rank - 1)
    rows = build.Cast(rows, to=wide) if wide != elem_type else rows
    axes = [_taps(node, axis, size, mode, padding) for axis, size in enumerate(sizes)]
    steps = flat_indices.strides(build, [batch, *sizes])
    first = flat_indices.places(build, [batch, *([1] * len(sizes))], [steps[0], *([0] * len(sizes))])
    along = [
        [(build.Mul(index, step) if step != 1 else index, *rest) for index, *rest in taps]
        for taps, step in zip(axes, steps[1:], strict=True)
    ]
    zero = build.constant(0, wide)
    total = ""
    for taps in itertools.product(*along):
        place: Any = first
        for index, *_ in taps:
            place = index if isinstance(place, int) and place == 0 else build.Add(place, index)
        value = build.Gather(rows, place, axis=0)
        if padding == "zeros":
            inside = _join(build, "And", [tap[1] for tap in taps])
            value = build.Where(build.Unsqueeze(inside, [-1]), value, zero)
        if mode != "nearest":
            weight = _join(build, "Mul", [tap[2] for tap in taps])
            weight = build.Cast(weight, to=wide) if node.elem_type(1) != elem_type else weight
            value = build.Mul(value, build.Unsqueeze(weight, [-1]))
        total = build.Add(total, value) if total else value
    total = build.Transpose(total, perm=[0, rank - 1, *range(1, rank - 1)])
    return str(build.Cast(total, to=elem_type) if wide != elem_type else total)


def _join(build: Builder, op: str, parts: list[str]) -> str:
    result = parts[0]
    for part in parts[1:]:
        result = build.emit(op, [result, part])
    return result


def _taps(node: Node, axis: int, size: Size, mode: str, padding: str) -> list[tuple[str, str, str]]:
    """The neighbours of each point along an axis: index, whether it lies inside, and weight."""
    build, point = node.build, _Point(node, axis, size)
    x = point.coordinate()
    if mode == "nearest":
        x = build.Round(x)
    if mode != "cubic" and padding == "border":  # a cubic's neighbours are brought inside one by one
        x = point.clamp(x)
    elif mode != "cubic" and padding == "reflection":
        x = point.reflect(x)
    if mode == "nearest":
        return [(point.index(x), point.inside(x) if padding == "zeros" else "", "")]
    low = build.Floor(x)
    fraction, found = build.Sub(x, low), list[tuple[str, str, str]]()
    weights = _linear(point, fraction) if mode == "linear" else _cubic(point, fraction)
    for offset, weight in weights:
        place = build.Add(low, point.number(offset)) if offset else low
        index = point.index(point.reflect(place)) if padding == "reflection" and mode == "cubic" else point.index(place)
        found.append((index, point.inside(place) if padding == "zeros" else "", weight))
    return found


def _linear(point: _Point, fraction: str) -> list[tuple[int, str]]:
    return [(0, point.build.Sub(point.number(1), fraction)), (1, fraction)]


def _cubic(point: _Point, fraction: str) -> list[tuple[int, str]]:
    """((A + 2) d - (A + 3)) d d + 1 for the two next, ((A d - 5 A) d + 8 A) d - 4 A for those beyond"""
    build, number = point.build, point.number
    found = []
    for offset in (-1, 0, 1, 2):
        d = fraction if offset == 0 else build.Sub(fraction, number(offset))
        d = build.Neg(d) if offset > 0 else d
        if offset in (0, 1):
            weight = build.Sub(build.Mul(number(A + 2), d), number(A + 3))
            weight = build.Add(build.Mul(build.Mul(weight, d), d), number(1))
        else:
            weight = build.Add(build.Mul(build.Sub(build.Mul(number(A), d), number(5 * A)), d), number(8 * A))
            weight = build.Sub(build.Mul(weight, d), number(4 * A))
        found.append((offset, weight))
    return found


class _Point:
    """One coordinate of every point of the grid, in pixels."""

    def __init__(self, node: Node, axis: int, size: Size):
        self.node, self.build, self.axis = node, node.build, axis
        self.elem_type = T.FLOAT if node.elem_type(1) == T.FLOAT16 else node.elem_type(1)
        self.corners = bool(node.attributes.get("align_corners", 0))
        self.size = self.number(size) if isinstance(size, int) else self.build.Cast(size, to=self.elem_type)
        self.last = self._last(size)
        self.zero = self.number(0)

    def number(self, value: float) -> str:
        return self.build.constant(value, self.elem_type)

    def _last(self, size: Size) -> str:
        return self.number(size - 1) if isinstance(size, int) else str(self.build.Sub(self.size, self.number(1)))

    def coordinate(self) -> str:
        """(g + 1) / 2 * (size - 1) where corners are centres of pixels, else ((g + 1) * size - 1) / 2"""
        build, rank = self.build, self.node.rank()
        grid = self.node.input(1)
        part = build.Gather(grid, rank - 3 - self.axis, axis=rank - 1)  # the last axis comes first in the grid
        if self.node.elem_type(1) != self.elem_type:
            part = build.Cast(part, to=self.elem_type)
        part = build.Add(part, self.number(1))
        if self.corners:
            return str(build.Mul(build.Div(part, self.number(2)), self.last))
        return str(build.Div(build.Sub(build.Mul(part, self.size), self.number(1)), self.number(2)))

    def clamp(self, x: str) -> str:
        return str(self.build.Clip(x, self.zero, self.last))

    def index(self, x: str) -> str:
        """The nearest pixel; what is no number becomes one far below 0 where it is cast."""
        return str(self.build.Max(self.build.Cast(self.clamp(x), to=T.INT64), 0))

    def inside(self, x: str) -> str:
        build = self.build
        return str(build.And(build.Greater(x, self.number(-0.5)), build.Less(x, self.size)))

    def reflect(self, x: str) -> str:
        """t = |x - low|;  low + t mod range, or high - t mod range if it was turned an odd number of times"""
        build = self.build
        low = self.number(0 if self.corners else -0.5)
        reach = build.Max(self.last, self.number(1)) if self.corners else self.size
        high = self.last if self.corners else build.Sub(self.size, self.number(0.5))
        away = build.Abs(build.Sub(x, low))
        turns = build.Floor(build.Div(away, reach))
        rest = build.Sub(away, build.Mul(turns, reach))
        half = build.Div(turns, self.number(2))
        odd = build.Greater(half, build.Floor(half))
        return str(build.Where(odd, build.Sub(high, rest), build.Add(low, rest)))


changed("GridSample", 16, Pair(down=gathered_and_weighted))
changed("GridSample", 20, Pair(up=modes_of_any_rank, down=modes_of_images))
changed("GridSample", 22, Pair(down=bfloat16_in_float))
