"""DetectionOutput: boxes are decoded and chosen by class."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino import sizes
from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer
from opshift.passes.openvino.sizes import Size

T = TensorProto
LOWEST = -3.4028234663852886e38  # of float32; what is not chosen scores below it
CODES = ("caffe.priorboxparameter.corner", "caffe.priorboxparameter.center_size")


@layer("DetectionOutput")
def detection_output(of: Layer) -> Made:
    """Locations, confidences, prior boxes; of a first stage, confidences and locations: rows of what is detected."""
    return _Detection(of).rows()


class _Detection:
    """Batch, classes and priors are axes of everything on the way."""

    def __init__(self, of: Layer):
        self.of, self.build = of, of.build
        self.elem_type = of.elem_type()
        self.by_class = not of.flag("share_location", True)
        self.whole = of.flag("normalized", False)
        self.background = of.integer("background_label_id", 0)
        self.decreased = of.flag("decrease_label_id", False)
        self.corner = of.choice("code_type", CODES, CODES[0]) == CODES[0]
        self.encoded = of.flag("variance_encoded_in_target", False)
        self.clipped = of.flag("clip_before_nms", False)
        self.size = [of.integer("input_width", 1), of.integer("input_height", 1)]
        self.top, self.keep = of.integer("top_k", -1), of.ints("keep_top_k")[0]
        if self.top == 0 or self.top < -1 or self.keep == 0 or self.keep < -1:
            raise Unmapped(f"top_k={self.top}, keep_top_k={self.keep}", supported="-1 or 1 and more")
        if self.decreased and self.background:
            raise Unmapped(f"decrease_label_id with background_label_id={self.background}", supported="0")
        shape = sizes.dims(of, 1)
        self.batch = shape[0]
        self.priors = sizes.over(of, sizes.dims(of, 2)[2], 4 if self.whole else 5)
        self.classes = sizes.over(of, shape[1], self.priors)
        of.close("may round otherwise")

    def rows(self) -> str:
        of, b = self.of, self.build
        boxes = self._boxes()
        scores, labels = self._scores()
        chosen = self._without_overlaps(boxes, self._candidates(scores, labels))
        chosen = self._best_of_all(chosen)
        most = sizes.vector(of, [self._most()])
        values, places = b.emit("TopK", [chosen, most], {"axis": 2}, outputs=2)
        found = b.Transpose(b.NonZero(b.Greater(values, b.constant(LOWEST, T.FLOAT))), perm=[1, 0])
        image, label = (b.Slice(found, [k], [k + 1], [1]) for k in (0, 1))
        place = b.Unsqueeze(b.GatherND(places, found), [1])
        at = b.Concat(image, label if self.by_class else b.Mul(label, [0]), place, axis=1)
        corners = b.GatherND(boxes, at)
        if of.flag("clip_after_nms", False):
            corners = self._clip(corners)
        label = b.Sub(label, [1]) if self.decreased else label
        numbers = b.Cast(b.Concat(image, label, axis=1), to=T.FLOAT)
        table = b.Concat(numbers, b.Unsqueeze(b.GatherND(values, found), [1]), corners, axis=1)
        return of.cast(self._fill(table), self.elem_type)

    def _most(self) -> Size:
        """How many of one class there can be."""
        limits = [limit for limit in (self.top, self.keep) if limit > 0]
        return sizes.smaller(self.of, self.priors, min(limits)) if limits else self.priors

    def _fill(self, table: str) -> str:
        """A row that begins with -1 ends the detections where there is room for more; zeros follow."""
        of, b = self.of, self.build
        each = self.keep if self.keep > 0 else sizes.times(of, self.classes, self.top if self.top > 0 else self.priors)
        count = sizes.times(of, self.batch, each)
        end = b.constant([[-1.0, *[0.0] * 6]], T.FLOAT)
        zeros = b.Expand(b.constant(0.0, T.FLOAT), sizes.vector(of, [count, 7]))
        rows = b.Slice(b.Concat(table, end, zeros, axis=0), [0], sizes.one(of, count), [0])
        return sizes.reshape(of, rows, [1, 1, count, 7])

    # --- boxes ----------------------------------------------------------------------------------------------

    def _float(self, index: int) -> str:
        return self.of.cast(self.of.input(index), T.FLOAT)

    def _clip(self, boxes: str) -> str:
        return str(self.build.Clip(boxes, *(self.build.constant(bound, T.FLOAT) for bound in (0.0, 1.0))))

    def _boxes(self) -> str:
        """Batch (1 of all where priors are), classes (1 of all where they share a box), priors, 4."""
        of, b = self.of, self.build
        dims = [self.batch, self.priors, self.classes if self.by_class else 1, 4]
        prior = self._priors()
        variance = None
        if not self.encoded:  # of 4 numbers each, however many a prior has
            flat = b.Slice(self._float(2), [1], [2], [1])
            flat = b.Slice(flat, [0], sizes.one(of, sizes.times(of, self.priors, 4)), [2])
            variance = b.Reshape(flat, sizes.vector(of, [-1, 1, self.priors, 4]))
        for index in (4, 0) if of.has(3) else (0,):
            moved = b.Transpose(sizes.reshape(of, self._float(index), dims), perm=[0, 2, 1, 3])
            prior = self._decode(prior, moved, variance)
        return prior

    def _priors(self) -> str:
        of, b = self.of, self.build
        flat = b.Slice(self._float(2), [0], [1], [1])
        if self.whole:
            return str(b.Reshape(flat, sizes.vector(of, [-1, 1, self.priors, 4])))
        five = b.Reshape(flat, sizes.vector(of, [-1, 1, self.priors, 5]))
        return str(b.Slice(five, [1], [5], [3]))

    def _decode(self, prior: str, moved: str, variance: str | None) -> str:
        b = self.build
        if not self.whole:
            prior = b.Div(prior, b.constant(self.size * 2, T.FLOAT))
        moved = b.Mul(variance, moved) if variance is not None else moved
        if self.corner:
            made = b.Add(prior, moved)
        else:
            low, high = (b.Slice(prior, [k], [k + 2], [3]) for k in (0, 2))
            by, log = (b.Slice(moved, [k], [k + 2], [3]) for k in (0, 2))
            two = b.constant(2.0, T.FLOAT)
            size = b.Sub(high, low)
            middle = b.Add(b.Mul(by, size), b.Div(b.Add(low, high), two))
            half = b.Div(b.Mul(b.Exp(log), size), two)
            made = b.Concat(b.Sub(middle, half), b.Add(middle, half), axis=3)
        return self._clip(made) if self.clipped else str(made)

    # --- scores ---------------------------------------------------------------------------------------------

    def _scores(self) -> tuple[str, str]:
        """Batch, classes, priors; and the number of each class."""
        of, b = self.of, self.build
        labels = b.Reshape(b.Range(0, b.Squeeze(sizes.one(of, self.classes), [0]), 1), [1, -1, 1])
        scores = sizes.reshape(of, self._float(1), [self.batch, self.priors, self.classes])
        scores = b.Transpose(scores, perm=[0, 2, 1])
        if of.has(3):
            first = sizes.reshape(of, self._float(3), [self.batch, self.priors, 2])
            object_ = b.Transpose(b.Slice(first, [1], [2], [2]), perm=[0, 2, 1])
            none = b.Cast(b.Equal(labels, b.constant([self.background], T.INT64)), to=T.FLOAT)
            limit = b.constant(of.number("objectness_score", 0.0), T.FLOAT)
            scores = b.Where(b.Less(object_, limit), none, scores)
        return scores, labels

    def _candidates(self, scores: str, labels: str) -> str:
        """The best of those above the threshold: `top_k` of a class, or of all, where each prior has one class."""
        of, b = self.of, self.build
        limit = b.constant(of.number("confidence_threshold", 0.0), T.FLOAT)
        none = b.constant(float("-inf"), T.FLOAT)
        background = b.Equal(labels, b.constant([self.background], T.INT64))
        if self.decreased:
            least = b.And(b.GreaterOrEqual(scores, limit), b.Greater(scores, b.constant(-1.0, T.FLOAT)))
            found = b.Where(b.And(least, b.Not(background)), scores, none)
            own = b.Equal(b.ArgMax(found, axis=1, keepdims=1), labels)
            found = b.Where(own, found, none)
        else:
            found = b.Where(b.And(b.Greater(scores, limit), b.Not(background)), scores, none)
        if not self.whole:
            found = b.Where(self._are_there(), found, none)
        if self.top < 0:
            return str(found)
        dims = [self.batch, self.classes, self.priors]
        if self.decreased:
            flat = sizes.reshape(of, found, [self.batch, sizes.times(of, self.classes, self.priors)])
            return sizes.reshape(of, self._largest(flat, self.top, 1), dims)
        return self._largest(found, self.top, 2)

    def _are_there(self) -> str:
        """Priors before the first one of image -1."""
        of, b = self.of, self.build
        flat = b.Slice(self._float(2), [0], [1], [1])
        image = b.Slice(b.Reshape(flat, sizes.vector(of, [-1, 1, self.priors, 5])), [0], [1], [3])
        ended = b.Cast(b.Equal(b.Squeeze(image, [3]), b.constant(-1.0, T.FLOAT)), to=T.INT32)
        return str(b.Equal(b.CumSum(ended, 2), b.constant(0, T.INT32)))

    def _largest(self, scores: str, count: int, axis: int) -> str:
        """The others are as if they were not there."""
        b = self.build
        size = b.Shape(scores, start=axis, end=axis + 1)
        most = b.Min(size, [count])
        values, places = b.emit("TopK", [scores, most], {"axis": axis}, outputs=2)
        none = b.Expand(b.constant(float("-inf"), T.FLOAT), b.Shape(scores))
        return str(b.ScatterElements(none, places, values, axis=axis))

    def _without_overlaps(self, boxes: str, scores: str) -> str:
        of, b = self.of, self.build
        limit = of.number("nms_threshold")
        if limit < 0:
            raise Unmapped(f"nms_threshold={limit}", supported="0 or more")
        low, high = (b.Slice(boxes, [k], [k + 2], [3]) for k in (0, 2))
        ordered = b.Concat(low, b.Max(low, high), axis=3)  # a box that is turned around overlaps nothing
        flat = [sizes.times(of, self.batch, self.classes), 1] if self.by_class else [self.batch, self.classes]
        each = sizes.reshape(of, ordered, [flat[0], self.priors, 4])
        chosen = b.NonMaxSuppression(
            each,
            sizes.reshape(of, scores, [*flat, self.priors]),
            sizes.one(of, self.priors),
            b.constant([min(limit, 1.0)], T.FLOAT),
            b.constant([LOWEST], T.FLOAT),
        )
        none = b.Expand(b.constant(float("-inf"), T.FLOAT), sizes.vector(of, [*flat, self.priors]))
        kept = b.ScatterND(none, chosen, b.GatherND(sizes.reshape(of, scores, [*flat, self.priors]), chosen))
        return sizes.reshape(of, kept, [self.batch, self.classes, self.priors])

    def _best_of_all(self, scores: str) -> str:
        """`keep_top_k` of an image; of equal scores the first prior counts."""
        of, b = self.of, self.build
        if self.keep < 0:
            return scores
        flat = [self.batch, sizes.times(of, self.priors, self.classes)]
        by_prior = sizes.reshape(of, b.Transpose(scores, perm=[0, 2, 1]), flat)
        best = sizes.reshape(of, self._largest(by_prior, self.keep, 1), [self.batch, self.priors, self.classes])
        return str(b.Transpose(best, perm=[0, 2, 1]))
