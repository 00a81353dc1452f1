"""What is read from scores of labels over time: the best label of each step, without blanks and repetitions."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino.layer import Layer, Made, layer

T = TensorProto


@layer("CTCGreedyDecoder")
def decoded_over_time(of: Layer) -> Made:
    """Scores of time, batch and class; a sequence ends before the first step whose mask is 0."""
    b = of.build
    best = b.ArgMax(b.Transpose(of.input(0), perm=[1, 0, 2]), axis=2, keepdims=0)
    ends = b.Cast(b.Equal(b.Transpose(of.input(1), perm=[1, 0]), of.like(0, 1)), to=T.INT32)
    going = b.Equal(b.CumSum(ends, 1), b.constant(0, T.INT32))
    blank = b.Sub(b.Shape(of.input(0), start=2, end=3), [1])
    found, _ = _packed(of, best, going, blank, of.flag("ctc_merge_repeated", True))
    return str(b.Cast(b.Unsqueeze(found, [2, 3]), to=of.elem_type()))


@layer("CTCGreedyDecoderSeqLen")
def decoded(of: Layer) -> Made:
    """Scores of batch, time and class, and how many steps each sequence has."""
    b = of.build
    best = b.ArgMax(of.input(0), axis=2, keepdims=0)
    steps = b.Range(0, b.Squeeze(b.Shape(of.input(0), start=1, end=2), [0]), 1)
    going = b.Less(b.Unsqueeze(steps, [0]), b.Unsqueeze(of.int64(1), [1]))
    blank = of.vector(2) if of.has(2) else b.Sub(b.Shape(of.input(0), start=2, end=3), [1])
    found, counts = _packed(of, best, going, blank, of.flag("merge_repeated", True))
    classes = of.element_type("classes_index_type", "i32")
    return [of.cast(found, classes), of.cast(counts, of.element_type("sequence_length_type", "i32"))]


def _packed(of: Layer, best: str, going: str, blank: str, merge: bool) -> tuple[str, str]:
    """The labels that count, one behind the other, with -1 behind the last; and how many they are."""
    b = of.build
    counts = b.And(going, b.Not(b.Equal(best, blank)))
    total = b.Shape(best, start=1, end=2)
    if merge:
        before = b.Slice(b.Pad(best, [0, 1, 0, 0], b.constant(-1, T.INT64)), [0], total, [1])
        counts = b.And(counts, b.Not(b.Equal(best, before)))
    number = b.CumSum(b.Cast(counts, to=T.INT64), 1)
    places = b.Where(counts, b.Sub(number, [1]), total)
    rows = b.Concat(b.Shape(best, end=1), b.Add(total, [1]), axis=0)
    none = b.Expand(b.constant([[-1]], T.INT64), rows)
    found = b.Slice(b.ScatterElements(none, places, best, axis=1), [0], total, [1])
    return str(found), str(b.ReduceSum(b.Cast(counts, to=T.INT64), [1], keepdims=0))
