"""Layers that choose elements, or put some there."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.layers.draw import INTEGERS, Draw, Unfit, kind_of, recipe, shape_of


@recipe
def gather(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    dims = shape_of(x)
    axis = d.axis(len(dims))
    size = dims[axis]
    version = d.one((1, 7, 8, 8))
    least = -size if version == 8 else 0
    batch = d.number(0, axis % len(dims)) if version > 1 and d.chance(0.4) else 0
    shape = dims[:batch] + [d.size() for _ in range(d.number(0, 2))]
    if not size:
        raise Unfit
    places = d.rng.integers(least, size, shape)
    held = {"batch_dims": batch} if version > 1 else {}
    return d.make(version, "Gather", [x, d.whole(places, 0.5), d.whole(axis)], **held)


@recipe
def gather_elements(d: Draw) -> Any:
    x = d.value((1, 2, 3))
    dims = shape_of(x)
    axis = d.axis(len(dims))
    if not dims[axis]:
        raise Unfit
    shape = list(dims)
    shape[axis] = d.size()
    return d.make(6, "GatherElements", [x, d.whole(d.rng.integers(0, dims[axis], shape), 0.5)], axis=axis)


@recipe
def gather_nd(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4), fit=lambda dims: min(dims) > 0)
    dims = shape_of(x)
    batch = d.number(0, min(2, len(dims) - 1))
    depth = d.number(1, len(dims) - batch)
    shape = dims[:batch] + [d.number(1, 3) for _ in range(d.number(0, 1))]
    places = np.stack([d.rng.integers(0, dims[batch + k], shape) for k in range(depth)], -1)
    return d.make(d.one((5, 8, 8)), "GatherND", [x, d.whole(places, 0.5)], batch_dims=batch)


@recipe
def scatter(d: Draw) -> Any:
    x = d.value((1, 2, 3), ("float32", "int32"), fit=lambda dims: min(dims) > 0)
    dims, kind = shape_of(x), kind_of(x)
    axis = d.axis(len(dims))
    choice = d.number(0, 2)
    if choice == 0:
        shape = [d.number(1, dim) for dim in dims]
        version = d.one((3, 12, 12))
        places = d.rng.integers(0, dims[axis], shape)
        if version == 12:
            held = {"reduction": d.one(("none", "sum", "prod", "min", "max", "mean")), "use_init_val": d.chance(0.8)}
        else:
            held = {}
        if held.get("reduction", "none") == "none":
            places = np.argsort(
                d.rng.random([*(dims[a] if a == axis % len(dims) else s for a, s in enumerate(shape))]), axis
            )
            places = np.take(places, range(shape[axis]), axis)
        return d.make(
            version, "ScatterElementsUpdate", [x, d.whole(places, 0.4), d.like(shape, kind), d.whole(axis, 0.4)], **held
        )
    if choice == 1:
        count = d.number(1, dims[axis])
        places = d.rng.permutation(dims[axis])[:count]
        axis = axis % len(dims)
        updates = d.like([*dims[:axis], count, *dims[axis + 1 :]], kind)
        return d.make(3, "ScatterUpdate", [x, d.whole(places, 0.4), updates, d.whole(axis, 0.4)])
    depth = d.number(1, len(dims))
    total = int(np.prod(dims[:depth]))
    places = np.stack(np.unravel_index(d.rng.permutation(total)[: d.number(1, total)], dims[:depth]), -1)
    updates = d.like([len(places), *dims[depth:]], kind)
    held = {"reduction": d.one(("none", "sum", "sub", "prod", "min", "max"))} if d.chance(0.7) else {}
    return d.make(15 if held else 4, "ScatterNDUpdate", [x, d.whole(places, 0.4), updates], **held)


def _ends(d: Draw, size: int) -> int:
    return d.one(
        (d.number(-size - 2, size + 2), d.number(-size - 2, size + 2), 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
    )


@recipe
def sliced(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    dims = shape_of(x)
    axes = d.axes(len(dims), 1)
    numbers = [[_ends(d, dims[a]) for a in axes] for _ in range(2)]
    steps = [d.one((1, 1, 2, -1, -2, 3)) for _ in axes]
    if any(abs(n) > 2**31 - 1 for held in numbers for n in held) or d.chance():
        inputs = [d.constant(n, "int64") for n in (*numbers, steps)]  # 2**63 overflows at run time
    else:
        inputs = [d.whole(n) for n in (*numbers, steps)]
    if sorted(a % len(dims) for a in axes) == list(range(len(axes))) and d.chance():
        order = np.argsort([a % len(dims) for a in axes])
        return d.make(8, "Slice", [x, *(d.constant(np.array(n)[order], "int64") for n in (*numbers, steps))])
    return d.make(8, "Slice", [x, *inputs, d.whole(axes)])


@recipe
def put_into_slices(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    dims = shape_of(x)
    axes = d.axes(len(dims), 1)
    axes = axes if len({axis % len(dims) for axis in axes}) == len(axes) else axes[:1]
    starts, stops = ([_ends(d, dims[a]) for a in axes] for _ in range(2))
    steps = [d.one((1, 1, 2, -1, -2, 3)) for _ in axes]
    taken = np.empty(dims)
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
        size = dims[axis]
        first = min(max(start + size if start < 0 else start, 0), size if step > 0 else size - 1)
        last = min(max(stop + size if stop < 0 else stop, 0 if step > 0 else -1), size)
        taken = np.take(taken, range(first, last, step), axis)
    held = [d.constant(n, "int64") for n in (starts, stops, steps, axes)]
    return d.make(15, "SliceScatter", [x, d.like(taken.shape, kind_of(x)), *held])


@recipe
def strided(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    dims = shape_of(x)
    count = d.number(1, len(dims))
    new, shrink, ellipsis = [0] * count, [0] * count, [0] * count
    for place in range(count):
        new[place] = int(d.chance(0.15))
        shrink[place] = int(min(dims) > 0 and d.chance(0.2))
    if d.chance(0.25):
        ellipsis[d.number(0, count - 1)] = 1
    begin, end = ([d.number(-d_, d_) for d_ in dims[:count]] for _ in range(2))
    steps = [d.one((1, 1, 2, -1, -2)) if not shrink[k] or d.chance(0.2) else 1 for k in range(count)]
    masks = {
        "begin_mask": [int(d.chance(0.3)) for _ in range(count)],
        "end_mask": [int(d.chance(0.3)) for _ in range(count)],
    }
    masks |= {"new_axis_mask": new, "shrink_axis_mask": shrink, "ellipsis_mask": ellipsis}
    inputs = [d.given(n, "int64") for n in (begin, end)]
    if any(n != 1 for n in steps) or d.chance():
        inputs.append(d.given(steps, "int64"))
    return d.make(1, "StridedSlice", [x, *inputs], **masks)


@recipe
def ranged(d: Draw) -> Any:
    start, step = d.number(-3, 3), d.one((1, 2, -1, -2))
    stop = start + step * d.number(0, 4) + (d.number(0, 1) if step > 1 else 0)  # none the other way, see the page
    kind, to = d.one((("int32", "i32"), ("int64", "i64"), ("float32", "f32"), ("int32", "f32")))
    return d.make(4, "Range", [d.given(n, kind, 0.4) for n in (start, stop, step)], output_type=to)


@recipe
def top_k(d: Draw) -> Any:
    dims = [d.count(5) for _ in range(d.number(1, 3))]
    axis = d.axis(len(dims))
    x = d.parameter(d.rng.permutation(int(np.prod(dims))).reshape(dims).astype(np.float32))
    count = d.whole(d.number(min(dims[axis], 1), dims[axis]))
    held = {
        "axis": axis,
        "mode": d.one(("max", "min")),
        "sort": d.one(("value", "index")),
        "index_element_type": d.one(("i32", "i64")),
    }
    if d.chance(0.3):
        return d.make(11, "TopK", [x, count], stable=held["sort"] == "value" and d.chance(), **held)
    return d.make(d.one((1, 3)), "TopK", [x, count], **held)


@recipe
def non_zero(d: Draw) -> Any:
    """Floats are new ones: of those that were computed, a zero may be a rounding."""
    shape = [d.size() for _ in range(d.number(0, 4))]
    x = d.parameter(d.array(shape)) if d.chance(0.4) else d.value(None, ("int32", "bool"))
    return d.make(3, "NonZero", [x], output_type=d.one(("i32", "i64")))


@recipe
def one_hot(d: Draw) -> Any:
    places = d.rng.integers(-1, 6, [d.size() for _ in range(d.number(0, 3))])
    axis = d.number(-places.ndim - 1, places.ndim)
    depth, on, off = d.whole(d.number(1, 5)), d.given(np.float32(2)), d.given(np.float32(-1))
    return d.make(1, "OneHot", [d.whole(places, 0.6), depth, on, off], axis=axis)


@recipe
def eye(d: Draw) -> Any:
    batch = [d.given(d.numbers(d.number(1, 2), 1, 2), "int32")] if d.chance(0.3) else []
    numbers = [d.given(n, "int32", 0.3) for n in (d.number(0, 4), d.number(0, 4), d.number(-5, 5))]
    return d.make(9, "Eye", [*numbers, *batch], output_type=d.one(("f32", "i32", "i64")))


@recipe
def unique(d: Draw) -> Any:
    """Of floats that were computed, a rounding tells which are equal; behind one of no element, OpenVINO computes nothing,
    or ends its process, as onnxruntime does of slices without any."""
    new, along = d.chance(), d.chance()
    shape = [d.size() for _ in range(d.number(1, 3))]
    x = d.parameter(d.array(shape)) if new else d.value((1, 2, 3), ("int32",))
    if 0 in shape_of(x):
        raise Unfit
    axis = [d.constant(d.number(0, len(shape_of(x)) - 1), "int32")] if along else []
    return d.make(
        10, "Unique", [x, *axis], sorted=d.chance(), index_element_type=d.one(("i32", "i64")), count_element_type="i64"
    )


@recipe
def bags(d: Draw) -> Any:
    rows, width = d.number(1, 5), d.numbers(d.number(1, 2), 1, 3)
    table = d.like([rows, *width], run_time=0.4)
    count = d.number(1, 6)
    choice = d.number(0, 4)
    places = d.given(d.numbers(count, 0, rows - 1), d.one(INTEGERS), 0.5)
    kind = kind_of(places)
    if choice == 0 or choice == 1:
        bag_count = d.number(1, 4)
        offsets = sorted(d.numbers(bag_count, 0, count - 1))
        offsets[0] = 0
        inputs = [table, places, d.given(offsets, kind, 0.4)]
        if d.chance(0.7):
            inputs.append(d.given(d.number(-1 if choice else 0, rows - 1), kind))
            if d.chance():
                inputs.append(d.like([count]))
        if choice == 0:
            return d.make(3, "EmbeddingBagOffsetsSum", inputs)
        mean = d.chance()
        return d.make(15, "EmbeddingBagOffsets", inputs[: 4 if mean else 5], reduction="mean" if mean else "sum")
    if choice in (2, 3):
        shape = [d.number(1, 3), d.number(1, 3)]
        inputs = [table, d.given(d.rng.integers(0, rows, shape), kind, 0.5)]
        if d.chance():
            inputs.append(d.like(shape))
        if choice == 2:
            return d.make(3, "EmbeddingBagPackedSum", inputs)
        mean = d.chance()
        return d.make(15, "EmbeddingBagPacked", inputs[: 2 if mean else 3], reduction="mean" if mean else "sum")
    segments = d.number(1, 4)
    ids = sorted(d.numbers(count, 0, segments - 1))
    inputs = [table, places, d.given(ids, kind, 0.4), d.given(segments, kind)]
    if d.chance(0.7):
        inputs.append(d.given(d.number(-1, rows - 1), kind))
        if d.chance():
            inputs.append(d.like([count]))
    return d.make(3, "EmbeddingSegmentsSum", inputs)


@recipe
def segments(d: Draw) -> Any:
    x = d.value((1, 2, 3), ("float32", "float16", "int32", "int64"), lambda shape: shape[0] > 0)
    ids = sorted(d.numbers(x.get_shape()[0], 0, 4))
    more = [d.whole(d.number(0, 6))] if d.chance() else []
    return d.make(16, "SegmentMax", [x, d.whole(ids, 0.4), *more], fill_mode=d.one(("ZERO", "LOWEST")))


@recipe
def buckets(d: Draw) -> Any:
    x = d.value(None, ("float32", "int32", "int64"))
    bounds = np.sort(d.array([d.size()], kind_of(x)))
    held = {"output_type": d.one(("i32", "i64")), "with_right_bound": d.chance()}
    return d.make(3, "Bucketize", [x, d.given(bounds, run_time=0.5)], **held)


@recipe
def places_in_order(d: Draw) -> Any:
    """One sequence for all, or one for each row."""
    lead = [d.number(1, 3) for _ in range(d.number(0, 2))]
    kind = d.one(("float32", "int32", "int64"))
    rows = np.sort(d.array([*lead, d.number(1, 5)], kind))
    values = d.array([*lead, d.number(1, 4)] if lead else [d.number(1, 3) for _ in range(d.number(0, 3))], kind)
    inputs = [d.given(rows, run_time=0.5), d.parameter(values)]
    return d.make(15, "SearchSorted", inputs, right_mode=d.chance(), output_type=d.one(("i32", "i64")))
