"""Boxes of several classes, of which those that overlap better ones go or count less: MatrixNms and MulticlassNms."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino import sizes
from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer

T = TensorProto


class _Chosen:
    """Scores are batch, class, box; what is not chosen has -inf. The best of a class stand first from the beginning."""

    def __init__(self, of: Layer):
        self.of, self.build = of, of.build
        self.order = of.choice("sort_result_type", ("classid", "score", "none"), "none")
        self.across = of.flag("sort_result_across_batch", False)
        self.index = of.element_type("output_type", "i64")
        self.keep = of.integer("keep_top_k", -1)
        if len(of.inputs) > 2:
            raise Unmapped("boxes of several images in one list", supported="a batch")
        if self.across and self.order == "none":
            raise Unmapped("sort_result_across_batch without sorting", supported="sort_result_type classid or score")
        b, best = self.build, of.integer("nms_top_k", -1)
        self.none = b.constant(float("-inf"), T.FLOAT)
        self.boxes = of.cast(of.input(0), T.FLOAT)
        self.batch, self.classes, self.count = sizes.dims(of, 1)
        background = of.integer("background_class", -1)
        scores = of.cast(of.input(1), T.FLOAT)
        limit = self.number(of.number("score_threshold", 0.0))
        allowed = b.GreaterOrEqual(scores, limit) if of.type == "MulticlassNms" else b.Greater(scores, limit)
        if background >= 0:
            labels = b.Reshape(b.Range(0, b.Squeeze(sizes.one(of, self.classes), [0]), 1), [1, -1, 1])
            allowed = b.And(allowed, b.Not(b.Equal(labels, background)))
        scores = b.Where(allowed, scores, self.none)
        self.most = self.count if best < 0 else sizes.smaller(of, self.count, best)
        self.scores, self.places = b.emit("TopK", [scores, sizes.one(of, self.most)], {"axis": 2}, outputs=2)
        of.close("equal scores may come in another order")

    def number(self, value: float) -> str:
        return str(self.build.constant(value, T.FLOAT))

    def corners(self) -> str:
        """The boxes of each class in the order of its scores: batch, class, box, 4."""
        of, b = self.of, self.build
        images = b.Reshape(b.Range(0, b.Squeeze(sizes.one(of, self.batch), [0]), 1), [-1, 1, 1])
        images = b.Expand(images, b.Shape(self.places))
        at = b.Concat(b.Unsqueeze(images, [3]), b.Unsqueeze(self.places, [3]), axis=3)
        return str(b.GatherND(self.boxes, at))

    def make(self, scores: str) -> Made:
        """Rows of class, score and box, the place of each box among all, and how many each image has."""
        of, b = self.of, self.build
        total = sizes.times(of, self.classes, self.most)
        flat = sizes.reshape(of, scores, [self.batch, total])
        kept = total if self.keep < 0 else sizes.smaller(of, total, self.keep)
        values, order = b.emit("TopK", [flat, sizes.one(of, kept)], {"axis": 1}, outputs=2)
        there = b.Greater(values, self.none)
        if self.order == "classid" and of.type == "MulticlassNms":  # the other sorts so across a batch alone
            order = b.Where(there, order, sizes.one(of, total))
            order, back = b.emit("TopK", [order, sizes.one(of, kept)], {"axis": 1, "largest": 0}, outputs=2)
            values = b.GatherElements(values, back, axis=1)
            there = b.Less(order, sizes.one(of, total))
        found = b.Transpose(b.NonZero(there), perm=[1, 0])
        values, order = b.GatherND(values, found), b.GatherND(order, found)
        image, label = b.Slice(found, [0], [1], [1]), b.Div(order, sizes.one(of, self.most))
        if self.across:
            values, order, image, label = self._across(values, order, image, label)
        place = b.Mod(order, sizes.one(of, self.most))
        at = b.Concat(image, b.Unsqueeze(label, [1]), b.Unsqueeze(place, [1]), axis=1)
        place = b.Unsqueeze(b.GatherND(self.places, at), [1])
        box = b.GatherND(self.boxes, b.Concat(image, place, axis=1))
        columns = [b.Unsqueeze(column, [1]) for column in (b.Cast(label, to=T.FLOAT), values)]
        rows = b.Concat(*columns, box, axis=1)
        indices = b.Add(b.Mul(image, sizes.one(of, self.count)), place)
        counts = b.ReduceSum(b.Cast(there, to=T.INT64), [1], keepdims=0)
        return [of.cast(rows, of.elem_type()), of.cast(indices, self.index), of.cast(counts, self.index)]

    def _across(self, values: str, order: str, image: str, label: str) -> tuple[str, str, str, str]:
        """All images together, by score, or by class and then as they stand."""
        b = self.build
        all_ = b.Shape(values)
        if self.order == "score":
            _, moved = b.emit("TopK", [values, all_], {"axis": 0}, outputs=2)
        else:
            _, moved = b.emit("TopK", [label, all_], {"axis": 0, "largest": 0}, outputs=2)
        values, order, image, label = (b.Gather(value, moved, axis=0) for value in (values, order, image, label))
        return values, order, image, label


@layer("MulticlassNms")
def multiclass(of: Layer) -> Made:
    """Of each class, no box that overlaps a better one."""
    if of.number("nms_eta", 1.0) != 1:
        raise Unmapped(f"nms_eta={of.number('nms_eta')}", supported="1")
    if not of.flag("normalized", True):
        raise Unmapped("normalized=false", supported="true")
    chosen, b = _Chosen(of), of.build
    corners, both = chosen.corners(), [sizes.times(of, chosen.batch, chosen.classes), chosen.most]
    limit = of.number("iou_threshold", 0.0)
    found = b.NonMaxSuppression(
        sizes.reshape(of, corners, [*both, 4]),
        sizes.reshape(of, chosen.scores, [both[0], 1, both[1]]),
        sizes.one(of, chosen.most if limit > 0 else 1),  # of boxes that overlap by 0, too, the best alone is left
        chosen.number(_just_below(limit)),
        chosen.number(-3.4028234663852886e38),
    )
    at = b.Gather(found, [0, 2], axis=1)
    flat = sizes.reshape(of, chosen.scores, both)
    none = b.Expand(chosen.none, sizes.vector(of, both))
    kept = b.ScatterND(none, at, b.GatherND(flat, at))
    return chosen.make(sizes.reshape(of, kept, [chosen.batch, chosen.classes, chosen.most]))


def _just_below(limit: float) -> float:
    """A box that overlaps by just as much goes, too."""
    import numpy as np

    return float(np.nextafter(np.float32(min(limit, 1.0)), np.float32(0)))


@layer("MatrixNms")
def matrix(of: Layer) -> Made:
    """Of each class, a box counts less the more it overlaps better ones that no others overlap."""
    chosen, b = _Chosen(of), of.build
    decay = of.choice("decay_function", ("gaussian", "linear"), "linear")
    sigma = chosen.number(of.number("gaussian_sigma", 2.0))
    offset = chosen.number(0.0 if of.flag("normalized", True) else 1.0)
    zero, one = chosen.number(0.0), chosen.number(1.0)
    corners = chosen.corners()
    low, high = (b.Slice(corners, [k], [k + 2], [3]) for k in (0, 2))
    areas = b.ReduceProd(b.Add(b.Sub(high, low), offset), [3], keepdims=0)
    most = b.Min(b.Unsqueeze(high, [2]), b.Unsqueeze(high, [3]))
    least = b.Max(b.Unsqueeze(low, [2]), b.Unsqueeze(low, [3]))
    sides = b.Where(b.GreaterOrEqual(most, least), b.Add(b.Sub(most, least), offset), zero)
    common = b.ReduceProd(sides, [4], keepdims=0)
    together = b.Sub(b.Add(b.Unsqueeze(areas, [2]), b.Unsqueeze(areas, [3])), common)
    overlap = b.Where(b.Greater(common, zero), b.Div(common, together), zero)  # of a box, and one better
    overlap = b.Trilu(overlap, -1, upper=0)
    worst = b.Unsqueeze(b.ReduceMax(overlap, [3], keepdims=0), [2])  # of each better box with those before it
    if decay == "gaussian":
        less = b.Exp(b.Mul(b.Sub(b.Mul(worst, worst), b.Mul(overlap, overlap)), sigma))
    else:
        less = b.Div(b.Sub(one, overlap), b.Sub(one, worst))
    better = b.Trilu(b.Expand(one, b.Shape(overlap)), -1, upper=0)
    less = b.Where(b.Greater(better, zero), less, one)
    scores = b.Mul(chosen.scores, b.ReduceMin(less, [3], keepdims=0))
    limit = chosen.number(of.number("post_threshold", 0.0))
    return chosen.make(str(b.Where(b.Greater(scores, limit), scores, chosen.none)))
