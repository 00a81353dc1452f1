"""What is read from scores of labels over time: the best label of each step, or the steps of each beam."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import tensor_type
from opshift.passes.openvino import sizes
from opshift.passes.openvino.layer import Layer, Made, layer
from opshift.passes.rewrite.builder import Builder

T = TensorProto


@layer("CTCGreedyDecoder")
def decode_over_time(of: Layer) -> Made:
    """Scores of time, batch and class; a sequence ends before the first step whose mask is 0."""
    b = of.build
    best = b.ArgMax(b.Transpose(of.input(0), perm=[1, 0, 2]), axis=2, keepdims=0)
    ends = b.Cast(b.Equal(b.Transpose(of.input(1), perm=[1, 0]), of.like(0, 1)), to=T.INT32)
    going = b.Equal(b.CumSum(ends, 1), b.constant(0, T.INT32))
    blank = b.Sub(b.Shape(of.input(0), start=2, end=3), [1])
    found, _ = _pack(of, best, going, blank, of.flag("ctc_merge_repeated", True))
    return str(b.Cast(b.Unsqueeze(found, [2, 3]), to=of.elem_type()))


@layer("CTCGreedyDecoderSeqLen")
def decode(of: Layer) -> Made:
    """Scores of batch, time and class, and how many steps each sequence has."""
    b = of.build
    best = b.ArgMax(of.input(0), axis=2, keepdims=0)
    steps = b.Range(0, b.Squeeze(b.Shape(of.input(0), start=1, end=2), [0]), 1)
    going = b.Less(b.Unsqueeze(steps, [0]), b.Unsqueeze(of.int64(1), [1]))
    blank = of.vector(2) if of.has(2) else b.Sub(b.Shape(of.input(0), start=2, end=3), [1])
    found, counts = _pack(of, best, going, blank, of.flag("merge_repeated", True))
    classes = of.element_type("classes_index_type", "i32")
    return [of.cast(found, classes), of.cast(counts, of.element_type("sequence_length_type", "i32"))]


@layer("GatherTree")
def beams(of: Layer) -> Made:
    """Steps of time, batch and beam, the beam before each, how long each of the batch is, and what ends one.

    From its last step on backwards, each beam is the one that it came from; behind its first end there are but ends.
    """
    b, elem_type = of.build, of.elem_type()
    time, _, width = sizes.dims(of)
    end, last = b.Reshape(of.input(3), [1, 1]), b.Unsqueeze(of.int64(2), [1])
    here = b.Expand(
        b.Unsqueeze(b.Range(0, b.Squeeze(sizes.one(of, width), [0]), 1), [0]), b.Shape(of.input(0), start=1)
    )
    steps, parents, total = of.input(0), of.int64(1), b.Squeeze(sizes.one(of, time), [0])

    def back(inner: Builder, at: str, so_far: list[str]) -> list[str]:
        (beam,) = so_far
        place = inner.Sub(inner.Sub(total, inner.constant(1, T.INT64)), at)
        going = inner.Less(place, last)
        found = inner.GatherElements(inner.Gather(steps, place, axis=0), beam, axis=1)
        before = inner.GatherElements(inner.Gather(parents, place, axis=0), beam, axis=1)
        return [inner.Where(going, before, beam), inner.Where(going, found, end)]

    _, stacked = b.loop(total, [(here, tensor_type(T.INT64, b.scope.shape(here)))], back)
    forward = b.Slice(stacked, [-1], [-(2**63)], [0], [-1])
    ended = b.CumSum(b.Cast(b.Equal(forward, end), to=T.INT32), 0)
    made = b.Where(b.Greater(ended, b.constant(0, T.INT32)), b.Unsqueeze(end, [2]), forward)
    return of.cast(str(made), elem_type)


def _pack(of: Layer, best: str, going: str, blank: str, merge: bool) -> tuple[str, str]:
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
