"""Proposal: boxes around the places of a grid, the best of which are proposed."""

from __future__ import annotations

from typing import Any

from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import tensor_type
from opshift.passes.openvino import sizes
from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer
from opshift.passes.rewrite.builder import Builder

T = TensorProto


@layer("Proposal")
def proposal(of: Layer) -> Made:
    """Class scores, moves of boxes, the size of the image: rows of image and box, and their scores."""
    return _Proposal(of).make()


class _Proposal:
    """Coordinates are the last axis, the proposals of an image the one before."""

    def __init__(self, of: Layer):
        self.of, self.build = of, of.build
        framework = of.choice("framework", ("", "tensorflow"), "")
        self.turned = framework == "tensorflow"  # x and y have changed places
        self.offset = 0.0 if self.turned else 1.0  # a box from 3 to 3 is one wide
        self.most = of.integer("post_nms_topn")
        self.limit = of.number("nms_thresh")
        self.batch = sizes.dims(of)[0]
        if self.most < 1 or of.integer("pre_nms_topn") < 1:
            raise Unmapped(
                f"pre_nms_topn={of.integer('pre_nms_topn')}, post_nms_topn={self.most}", supported="1 or more"
            )
        of.close("Exp may round otherwise; equal scores may come in another order")

    def make(self) -> Made:
        of, b = self.of, self.build
        boxes, scores = self._proposals()
        count = b.Min(b.Shape(scores, start=1, end=2), [of.integer("pre_nms_topn")])
        scores, order = b.emit("TopK", [scores, count], {"axis": 1}, outputs=2)
        boxes = b.GatherElements(boxes, b.Expand(b.Unsqueeze(order, [2]), b.constant([1, 1, 4], T.INT64)), axis=1)
        alive = b.Expand(self._number(1.0), b.Shape(scores))
        picked, there = best_of_overlapping(b, boxes, alive, self.most, self.limit, self.offset)
        kept = b.GatherElements(boxes, b.Expand(b.Unsqueeze(picked, [2]), b.constant([1, 1, 4], T.INT64)), axis=1)
        size = self._image()
        if of.flag("clip_after_nms", False):
            kept = b.Max(b.Min(kept, size), self._number(0.0))
        if of.flag("normalize", False):
            kept = b.Div(kept, size)
        images = b.Reshape(b.Range(0, b.Squeeze(sizes.one(of, self.batch), [0]), 1), [-1, 1, 1])
        images = b.Expand(b.Cast(images, to=T.FLOAT), b.constant([1, self.most, 1], T.INT64))
        rows = b.Where(b.Unsqueeze(there, [2]), b.Concat(images, kept, axis=2), self._end(there))
        outputs = [of.cast(sizes.reshape(of, rows, [sizes.times(of, self.batch, self.most), 5]), of.elem_type())]
        if len(of.entry.outputs) > 1:
            chances = b.Where(there, b.GatherElements(scores, picked, axis=1), self._number(0.0))
            outputs.append(of.cast(b.Reshape(chances, [-1]), of.elem_type()))
        return outputs

    def _end(self, there: str) -> str:
        """The first row that is empty begins with -1."""
        b = self.build
        empty = b.Cast(b.Not(there), to=T.INT32)
        first = b.Equal(b.CumSum(empty, 1), b.constant(1, T.INT32))
        mark = b.constant([-1.0, 0.0, 0.0, 0.0, 0.0], T.FLOAT)
        return str(b.Where(b.Unsqueeze(first, [2]), mark, self._number(0.0)))

    def _number(self, value: float) -> str:
        return str(self.build.constant(value, T.FLOAT))

    def _float(self, index: int) -> str:
        return self.of.cast(self.of.input(index), T.FLOAT)

    def _image(self) -> str:
        """Width, height, width, height."""
        order = [0, 1, 0, 1] if self.turned else [1, 0, 1, 0]
        return str(self.build.Gather(self._float(2), order, axis=0))

    # --- boxes ----------------------------------------------------------------------------------------------

    def _proposals(self) -> tuple[str, str]:
        of, b = self.of, self.build
        anchors = self._anchors()
        count = len(anchors)
        _, _, height, width = sizes.dims(of)
        scores = b.Slice(self._float(0), [count], [2 * count], [1])
        scores = b.Transpose(scores, perm=[0, 2, 3, 1])
        moves = sizes.reshape(of, self._float(1), [self.batch, count, 4, height, width])
        moves = b.Transpose(moves, perm=[0, 3, 4, 1, 2])
        boxes = b.Add(self._grid(height, width), b.constant(anchors, T.FLOAT))
        size, offset = self._image(), self._number(self.offset)
        if self.turned:
            boxes = b.Max(b.Min(boxes, size), self._number(0.0))
        low, high = (b.Slice(boxes, [k], [k + 2], [-1]) for k in (0, 2))
        by = b.Div(b.Slice(moves, [0], [2], [-1]), self._number(of.number("box_coordinate_scale", 1.0)))
        log = b.Div(b.Slice(moves, [2], [4], [-1]), self._number(of.number("box_size_scale", 1.0)))
        span, half = b.Add(b.Sub(high, low), offset), self._number(0.5)
        middle = b.Add(b.Mul(by, span), b.Add(low, b.Mul(half, span)))
        reach = b.Mul(half, b.Mul(b.Exp(log), span))
        boxes = b.Concat(b.Sub(middle, reach), b.Add(middle, reach), axis=-1)
        if of.flag("clip_before_nms", True):
            boxes = b.Max(b.Min(boxes, b.Sub(size, offset)), self._number(0.0))
        low, high = (b.Slice(boxes, [k], [k + 2], [-1]) for k in (0, 2))
        scales = b.Concat(b.Slice(self._float(2), [-1], [2**31 - 1]), b.Slice(self._float(2), [2], [3]), axis=0)
        least = b.Mul(scales, self._number(float(of.integer("min_size"))))
        wide = b.LessOrEqual(least, b.Add(b.Sub(high, low), offset))
        fits = b.ReduceMin(b.Cast(wide, to=T.FLOAT), [-1], keepdims=0)
        scores = b.Mul(fits, scores)
        all_ = sizes.times(of, height, width, count)
        return (
            sizes.reshape(of, boxes, [self.batch, all_, 4]),
            sizes.reshape(of, scores, [self.batch, all_]),
        )

    def _grid(self, height: sizes.Size, width: sizes.Size) -> str:
        """x, y, x, y of each place."""
        of, b = self.of, self.build
        stride = self._number(float(of.integer("feat_stride")))
        down, right = (
            b.Mul(b.Cast(b.Range(0, b.Squeeze(sizes.one(of, size), [0]), 1), to=T.FLOAT), stride)
            for size in (height, width)
        )
        shape = sizes.vector(of, [height, width, 1, 1])
        down = b.Expand(b.Reshape(down, [-1, 1, 1, 1]), shape)
        right = b.Expand(b.Reshape(right, [1, -1, 1, 1]), shape)
        x, y = (down, right) if self.turned else (right, down)
        return str(b.Concat(x, y, x, y, axis=3))

    def _anchors(self) -> list[list[float]]:
        """A box for each ratio and scale, in the numbers of float32."""
        import numpy as np

        of, f = self.of, np.float32
        base = of.integer("base_size")
        area, half, one = f(base * base), f(base) * f(0.5), f(self.offset)
        center = f(0.5) * (f(base) - one)
        made = []
        for ratio in map(f, of.numbers("ratio")):
            wide = np.sqrt(area / ratio)
            wide = wide if self.turned else _round(wide)
            high = wide * ratio if self.turned else _round(wide * ratio)
            for scale in map(f, of.numbers("scale")):
                x, y = (f(0.5) * (size * scale - one) for size in (wide, high))
                box = [center - x, center - y, center + x, center + y]
                made.append([float(value - half if self.turned else value) for value in box])
        return made


def best_of_overlapping(
    build: Builder, boxes: str, alive: str, most: int, limit: float, offset: float
) -> tuple[str, str]:
    """The first boxes of each image that overlap none before them, of those alive, and whether there were so many."""
    b, nothing = build, build.constant(0.0, T.FLOAT)
    wider, threshold = b.constant(offset, T.FLOAT), b.constant(limit, T.FLOAT)
    low, high = (b.Slice(boxes, [k], [k + 2], [2]) for k in (0, 2))
    areas = b.ReduceProd(b.Add(b.Sub(high, low), wider), [2], keepdims=0)

    def choose(inner: Builder, at: str, so_far: list[str]) -> list[str]:
        (left,) = so_far
        place = inner.ArgMax(left, axis=1, keepdims=1)
        there = inner.Squeeze(inner.Greater(inner.GatherElements(left, place, axis=1), nothing), [1])
        box = inner.Expand(inner.Unsqueeze(place, [2]), inner.constant([1, 1, 4], T.INT64))
        box = inner.GatherElements(boxes, box, axis=1)
        first, last = (inner.Slice(box, [k], [k + 2], [2]) for k in (0, 2))
        meet = inner.And(inner.LessOrEqual(first, high), inner.LessOrEqual(low, last))
        meet = inner.ReduceMin(inner.Cast(meet, to=T.FLOAT), [2], keepdims=0)
        common = inner.Add(inner.Sub(inner.Min(last, high), inner.Max(first, low)), wider)
        common = inner.ReduceProd(inner.Max(common, nothing), [2], keepdims=0)
        total = inner.Add(inner.GatherElements(areas, place, axis=1), areas)
        part = inner.Where(inner.Greater(meet, nothing), inner.Div(common, inner.Sub(total, common)), nothing)
        left = inner.Where(inner.Less(threshold, part), nothing, left)
        left = inner.ScatterElements(left, place, inner.Mul(inner.Cast(place, to=T.FLOAT), nothing), axis=1)
        return [left, inner.Squeeze(place, [1]), there]

    value_type = tensor_type(T.FLOAT, b.scope.shape(alive))
    _, places, there = b.loop(most, [(alive, value_type)], choose)
    return str(b.Transpose(places, perm=[1, 0])), str(b.Transpose(there, perm=[1, 0]))


def _round(value: Any) -> Any:
    """Halves away from zero."""
    import numpy as np

    return np.float32(np.floor(np.float64(value) + 0.5))
