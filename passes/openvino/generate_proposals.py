"""GenerateProposals: the best boxes of each image, of as many as there are."""

from __future__ import annotations

from math import log

from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino import sizes
from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer
from opshift.passes.openvino.proposal import best_of_overlapping

T = TensorProto
LOWEST = -3.4028234663852886e38  # of float32
FURTHEST = log(1000 / 16)  # how much larger than its anchor a box becomes


@layer("GenerateProposals")
def generate(of: Layer) -> Made:
    """Sizes of images, anchors at each place, and how far boxes and scores of each are from them."""
    if of.number("nms_eta", 1.0) != 1:
        raise Unmapped(f"nms_eta={of.number('nms_eta')}", supported="1")
    b, elem_type = of.build, of.elem_type(3)
    batch, count, height, width = sizes.dims(of, 3)
    total = sizes.times(of, height, width, count)
    boxes, fits = _boxes(of, [batch, count, height, width], total)
    scores = b.Transpose(of.cast(of.input(3), T.FLOAT), perm=[0, 2, 3, 1])
    scores = sizes.reshape(of, scores, [batch, total])
    most = sizes.smaller(of, total, of.integer("pre_nms_count"))
    scores, order = b.emit("TopK", [scores, sizes.one(of, most)], {"axis": 1}, outputs=2)
    boxes = b.GatherElements(boxes, b.Expand(b.Unsqueeze(order, [2]), b.constant([1, 1, 4], T.INT64)), axis=1)
    limit, offset = of.number("nms_threshold"), _offset(of)
    if not 0 <= limit <= 1:
        raise Unmapped(f"nms_threshold={limit}", supported="from 0 to 1")
    fits = b.GatherElements(fits, order, axis=1)
    if offset:  # boxes less than a pixel apart do not meet, and would if all were a pixel wider
        alive = b.Cast(fits, to=T.FLOAT)
        picked, there = best_of_overlapping(b, boxes, alive, of.integer("post_nms_count"), limit, offset)
        found = b.Transpose(b.NonZero(there), perm=[1, 0])
        at = b.Concat(b.Slice(found, [0], [1], [1]), b.Unsqueeze(b.GatherND(picked, found), [1]), axis=1)
    else:
        left = b.Unsqueeze(b.Where(fits, scores, _number(of, float("-inf"))), [1])
        most = sizes.one(of, of.integer("post_nms_count"))
        found = b.NonMaxSuppression(boxes, left, most, _number(of, limit), _number(of, LOWEST))
        at = b.Gather(found, [0, 2], axis=1)
    images = b.Reshape(b.Range(0, b.Squeeze(sizes.one(of, batch), [0]), 1), [1, -1])
    counts = b.ReduceSum(b.Cast(b.Equal(b.Slice(at, [0], [1], [1]), images), to=T.INT64), [0], keepdims=0)
    of.close("Exp may round otherwise; equal scores may come in another order")
    number = of.element_type("roi_num_type", "i64")
    return [
        of.cast(b.GatherND(boxes, at), elem_type),
        of.cast(b.GatherND(scores, at), elem_type),
        of.cast(counts, number),
    ]


def _number(of: Layer, value: float) -> str:
    return str(of.build.constant(value, T.FLOAT))


def _offset(of: Layer) -> float:
    """A box from 3 to 3 is one wide where sizes are those of pixels."""
    return 0.0 if of.flag("normalized", True) else 1.0


def _boxes(of: Layer, dims: list[sizes.Size], total: sizes.Size) -> tuple[str, str]:
    """Batch, box, 4; and whether each is as large as it has to be."""
    b, offset, half = of.build, _number(of, _offset(of)), _number(of, 0.5)
    batch, count, height, width = dims
    moves = sizes.reshape(of, of.cast(of.input(2), T.FLOAT), [batch, count, 4, height, width])
    moves = b.Transpose(moves, perm=[0, 3, 4, 1, 2])
    anchors = b.Unsqueeze(of.cast(of.input(1), T.FLOAT), [0])
    low, high = (b.Slice(anchors, [k], [k + 2], [4]) for k in (0, 2))
    by, further = (b.Slice(moves, [k], [k + 2], [4]) for k in (0, 2))
    span = b.Add(b.Sub(high, low), offset)
    middle = b.Add(b.Mul(by, span), b.Add(low, b.Mul(half, span)))
    reach = b.Mul(half, b.Mul(b.Exp(b.Min(further, _number(of, FURTHEST))), span))
    boxes = b.Concat(b.Sub(middle, reach), b.Sub(b.Add(middle, reach), offset), axis=4)
    edge = b.Gather(of.cast(of.input(0), T.FLOAT), [1, 0, 1, 0], axis=1)
    edge = b.Unsqueeze(b.Sub(edge, offset), [1, 2, 3])
    boxes = b.Max(b.Min(boxes, edge), _number(of, 0.0))
    low, high = (b.Slice(boxes, [k], [k + 2], [4]) for k in (0, 2))
    wide = b.GreaterOrEqual(b.Add(b.Sub(high, low), offset), _number(of, of.number("min_size")))
    fits = b.Cast(b.ReduceMin(b.Cast(wide, to=T.FLOAT), [4], keepdims=0), to=T.BOOL)
    return sizes.reshape(of, boxes, [batch, total, 4]), sizes.reshape(of, fits, [batch, total])
