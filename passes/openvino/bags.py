"""Rows of a table, summed in bags, and the largest of segments."""

from __future__ import annotations

import numpy as np
from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer

T = TensorProto


@layer("EmbeddingBagPackedSum", "EmbeddingBagPacked")
def pack(of: Layer) -> Made:
    """Bags of one length: table, indices, weights."""
    rows = _weight(of, of.build.Gather(of.input(0), of.int64(1), axis=0), 2, 2)
    return str(of.build.emit("ReduceMean" if _is_mean(of) else "ReduceSum", [rows, [1]], {"keepdims": 0}))


@layer("EmbeddingBagOffsetsSum", "EmbeddingBagOffsets")
def by_offsets(of: Layer) -> Made:
    """Table, indices, where each bag begins, the row of empty bags, weights: a place is in the last bag before it."""
    b, mean = of.build, _is_mean(of)
    starts = of.vector(2)
    places = b.Range(0, b.Squeeze(b.Shape(of.input(1)), [0]), 1)
    begun = b.Cast(b.LessOrEqual(b.Unsqueeze(starts, [1]), b.Unsqueeze(places, [0])), to=T.INT64)
    bag = b.Sub(b.ReduceSum(begun, [0], keepdims=0), [1])
    return _sum(of, bag, b.Shape(starts), 3, mean=mean)


@layer("EmbeddingSegmentsSum")
def by_segments(of: Layer) -> Made:
    """Table, indices, the bag of each, how many bags there are, the row of empty bags, weights."""
    return _sum(of, of.vector(2), of.vector(3), 4, mean=False)


@layer("SegmentMax")
def largest_of_segments(of: Layer) -> Made:
    """Data, the segment of each row, how many there are; all begin at the lowest number, which NaN and -inf leave."""
    b, elem_type, fill = of.build, of.elem_type(), of.choice("fill_mode", ("zero", "lowest"))
    if elem_type == T.INT64 and fill == "lowest":
        raise Unmapped("fill_mode=lowest for int64, which OpenVINO computes in 32 bits", supported="fill_mode=zero")
    wide = T.FLOAT if elem_type in (T.FLOAT16, T.BFLOAT16) else elem_type
    lowest = b.constant(_lowest(wide), wide)
    x, segment = of.cast(of.input(0), wide), of.vector(1)
    if wide in (T.FLOAT, T.DOUBLE):
        x = b.Where(b.IsNaN(x), lowest, x)
    count = b.Add(b.ReduceMax(b.Concat(b.constant([-1], T.INT64), segment, axis=0)), [1])
    count = b.Max(count, of.vector(2)) if of.has(2) else count
    rows, width = b.Unsqueeze(segment, [1]), b.Shape(x, start=1)
    found = b.ScatterND(b.Expand(lowest, b.Concat(count, width, axis=0)), rows, x, reduction="max")
    if fill == "zero":
        held = b.ScatterND(b.Expand(0, count), rows, b.Expand(1, b.Shape(segment)), reduction="max")
        shape = b.Concat(count, b.Expand(1, b.Shape(width)), axis=0)
        found = b.Where(b.Cast(b.Reshape(held, shape), to=T.BOOL), found, b.constant(0, wide))
    return of.cast(b.Slice(found, [0], of.vector(2), [0]) if of.has(2) else found, elem_type)


def _lowest(elem_type: int) -> float | int:
    info = {T.FLOAT: np.finfo(np.float32), T.DOUBLE: np.finfo(np.float64), T.INT32: np.iinfo(np.int32),
            T.INT64: np.iinfo(np.int64)}.get(elem_type)  # type: ignore[call-overload]  # fmt: skip
    if info is None:
        raise Unmapped("the largest of small or unsigned integers", supported="floats, int32 and int64")
    return info.min  # type: ignore[no-any-return]


def _is_mean(of: Layer) -> bool:
    return of.choice("reduction", ("sum", "mean"), "sum") == "mean"


def _sum(of: Layer, bag: str, bags: str, default: int, *, mean: bool) -> str:
    """Each row is added to its bag; an empty one takes the row of its own, or nothing where that is -1."""
    b, elem_type = of.build, of.elem_type()
    count, rank = of.build.Unsqueeze(bag, [1]), of.rank()
    rows = _weight(of, b.Gather(of.input(0), of.int64(1), axis=0), default + 1, 1)
    width = b.Shape(of.input(0), start=1)
    none = b.Expand(b.constant(0, elem_type), b.Concat(bags, width, axis=0))
    total = b.ScatterND(none, count, rows, reduction="add")
    ones = b.Expand(b.constant(1, elem_type), b.Shape(bag))
    sizes = b.ScatterND(b.Expand(b.constant(0, elem_type), bags), count, ones, reduction="add")
    if rank > 1:
        sizes = b.Unsqueeze(sizes, list(range(1, rank)))
    if mean:
        total = b.Div(total, b.Max(sizes, b.constant(1, elem_type)))
    held = of.constant(default) if of.has(default) else [-1]
    if held is not None and held[0] < 0:
        return str(total)
    place = of.vector(default)
    row = b.Gather(of.input(0), b.Max(place, [0]), axis=0)
    if held is None:
        row = b.Where(b.Less(place, [0]) if rank == 1 else b.Reshape(b.Less(place, [0]), [1] * rank), of.like(0), row)
    return str(b.Where(b.Equal(sizes, b.constant(0, elem_type)), row, total))


def _weight(of: Layer, rows: str, index: int, axes: int) -> str:
    """Rows times their weights."""
    if not of.has(index):
        return rows
    more = list(range(axes, axes + of.rank() - 1))
    weights = of.build.Unsqueeze(of.input(index), more) if more else of.input(index)
    return str(of.build.Mul(rows, weights))
