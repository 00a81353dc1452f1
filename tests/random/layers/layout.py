"""Layers that move elements."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tests.random.layers.draw import Draw, Unfit, kind_of, recipe, shape_of


@recipe
def reshaped(d: Draw) -> Any:
    x = d.value()
    dims = shape_of(x)
    zero = d.chance()
    kept = list(dims)
    if zero and kept and d.chance():
        kept[d.number(0, len(kept) - 1)] = 0
    if len(kept) > 1 and d.chance():
        place = d.number(0, len(kept) - 2)
        if kept[place] and kept[place + 1]:
            kept[place : place + 2] = [kept[place] * kept[place + 1]]
    elif d.chance(0.4):
        kept.insert(0, 1) if not zero else kept.append(1)
    if kept and d.chance(0.4):
        kept[d.number(0, len(kept) - 1)] = -1
    told = [dims[at] if size == 0 and zero else size for at, size in enumerate(kept[: len(dims)])] + kept[len(dims) :]
    if -1 not in told and prod(told) != prod(dims):
        raise Unfit  # which OpenVINO does not say
    return d.make(1, "Reshape", [x, d.whole(kept)], special_zero=zero)


@recipe
def transposed(d: Draw) -> Any:
    x = d.any_value()
    rank = x.get_partial_shape().rank
    if not rank.is_static:
        raise Unfit
    order = [int(a) for a in d.rng.permutation(rank.get_length())]
    return d.make(1, "Transpose", [x, d.whole(order if d.chance(0.8) else [])])


@recipe
def squeezed(d: Draw) -> Any:
    x = d.value(None, ("float32", "int64", "bool"))
    ones = [axis for axis, dim in enumerate(shape_of(x)) if dim == 1]
    version = d.one((1, 15))
    if d.chance(0.3):
        return d.make(version, "Squeeze", [x])
    held = {"allow_axis_skip": d.chance(0.4)} if version == 15 else {}
    axes = [a - (len(shape_of(x)) if d.chance() else 0) for a in ones if d.chance(0.7)]
    if held.get("allow_axis_skip") and shape_of(x) and d.chance():
        axes = d.axes(len(shape_of(x)), 1)
    return d.make(version, "Squeeze", [x, d.whole(axes)], **held)


@recipe
def unsqueezed(d: Draw) -> Any:
    x = d.any_value(("float32", "int64", "bool"))
    rank = x.get_partial_shape().rank
    if not rank.is_static or rank.get_length() > 3:
        raise Unfit
    count = d.number(1, 2)
    axes = [int(a) for a in d.rng.permutation(rank.get_length() + count)[:count]]
    return d.make(1, "Unsqueeze", [x, d.whole(axes if d.chance(0.8) or count > 1 else axes[0])])


@recipe
def concat(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4), ("float32", "int32"))
    dims = shape_of(x)
    axis = d.axis(len(dims))
    others = []
    for _ in range(d.number(0, 2)):
        other = list(dims)
        other[axis] = d.size()
        others.append(d.like(other, kind_of(x)))
    return d.make(1, "Concat", [x, *others], axis=axis)


@recipe
def split(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    axis = d.axis(len(shape_of(x)))
    size = shape_of(x)[axis]
    if d.chance():
        if not size:
            raise Unfit
        parts = d.one([n for n in range(1, size + 1) if size % n == 0])
        return d.make(1, "Split", [x, d.whole(axis)], num_splits=parts)
    first = d.number(0, size)
    lengths = d.one(([first, size - first], [first, -1], [-1], [0, size]))
    return d.make(1, "VariadicSplit", [x, d.whole(axis), d.whole(lengths)])


@recipe
def broadcast(d: Draw) -> Any:
    x = d.value((0, 1, 2, 3))
    dims = shape_of(x)
    mode = d.one(("numpy", "bidirectional", "explicit"))
    target = [d.number(1, 3) if dim == 1 and d.chance() else dim for dim in dims]
    if mode == "explicit":
        axes = sorted(int(a) for a in d.rng.permutation(len(dims) + 1)[: len(dims)])
        full = [2] * (len(dims) + 1)
        for axis, dim in zip(axes, target, strict=True):
            full[axis] = dim
        return d.make(3, "Broadcast", [x, d.whole(full), d.whole(axes, 0.4)], mode=mode)
    if mode == "bidirectional":
        target = [1 if d.chance(0.4) else dim for dim in target][d.number(0, len(target)) :]
    return d.make(3, "Broadcast", [x, d.whole([d.number(1, 2)] * d.number(0, 1) + target)], mode=mode)


@recipe
def tile(d: Draw) -> Any:
    x = d.value((0, 1, 2, 3), ("float32", "int64"))
    return d.make(1, "Tile", [x, d.whole(d.numbers(d.number(1, 4), 0 if d.chance(0.1) else 1, 2))])


@recipe
def sized(d: Draw) -> Any:
    return d.make(3, "ShapeOf", [d.any_value(("float32", "bool", "int32"))], output_type=d.one(("i32", "i64")))


@recipe
def pad(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    dims = shape_of(x)
    mode = d.one(("constant", "edge", "reflect", "symmetric"))
    least = -1 if d.chance(0.3) else 0
    if mode == "constant":
        widths = [d.numbers(len(dims), least, 2) for _ in range(2)]
    else:
        most = [max(min(dim - (mode == "reflect"), 2), 0) for dim in dims]
        widths = [[d.number(min(least, m), m) for m in most] for _ in range(2)]
    fill = [d.constant(np.float32(d.number(-2, 2)))] if mode == "constant" and d.chance(0.7) else []
    return d.make(12 if least < 0 or d.chance() else 1, "Pad", [x, *map(d.whole, widths), *fill], pad_mode=mode)


@recipe
def to_depth(d: Draw) -> Any:
    rank, block = d.one((1, 2, 2, 3)), d.number(1, 3)
    held = {"block_size": block, "mode": d.one(("blocks_first", "depth_first"))}
    if d.chance():
        x = d.parameter(d.array([d.count(2), d.number(1, 2) * block**rank, *d.numbers(rank, 1, 3)]))
        return d.make(1, "DepthToSpace", [x], **held)
    x = d.parameter(d.array([d.count(2), d.number(1, 2), *(block * n for n in d.numbers(rank, 1, 3))]))
    return d.make(1, "SpaceToDepth", [x], **held)


@recipe
def shuffled(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    axis = d.axis(len(shape_of(x)))
    groups = d.one([g for g in range(1, 7) if shape_of(x)[axis] % g == 0])
    return d.make(3, "ShuffleChannels", [x], axis=axis, group=groups)


@recipe
def space_to_batch(d: Draw) -> Any:
    rank = d.one((2, 3, 4, 4, 5))
    blocks = [1, *d.numbers(rank - 1, 1, 3)]
    begin = [0, *d.numbers(rank - 1, 0, 1)]
    if d.chance():
        end = [0, *d.numbers(rank - 1, 0, 1)]
        dims = [
            d.count(2),
            *(max(b * d.number(1, 2) - p - e, 0) for b, p, e in zip(blocks[1:], begin[1:], end[1:], strict=True)),
        ]
        if rank > 3 and any(p + n < b for b, p, n in zip(blocks[1:], begin[1:], dims[1:], strict=True)):
            raise Unfit  # a block that ends in padding alone, into which OpenVINO lets other data leak
        return d.make(2, "SpaceToBatch", [d.parameter(d.array(dims)), *(d.whole(n) for n in (blocks, begin, end))])
    dims = [int(np.prod(blocks)) * d.count(2), *d.numbers(rank - 1, 1, 3)]
    end = [
        0,
        *(d.number(0, 1) if b * n - p > 1 else 0 for b, n, p in zip(blocks[1:], dims[1:], begin[1:], strict=True)),
    ]
    return d.make(2, "BatchToSpace", [d.parameter(d.array(dims)), *(d.whole(n) for n in (blocks, begin, end))])


@recipe
def reversed_(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4))
    rank = len(shape_of(x))
    if d.chance():
        axes = d.axes(rank)
        if d.chance():
            return d.make(1, "Reverse", [x, d.whole(axes, 0.4)], mode="index")
        return d.make(1, "Reverse", [x, d.given(d.array([rank], "bool"), run_time=0.4)], mode="mask")
    if rank < 2:
        raise Unfit
    batch, time = (int(a) for a in d.rng.permutation(rank)[:2])
    lengths = d.given(d.numbers(shape_of(x)[batch], 1, max(shape_of(x)[time], 1)), "int32", 0.5)
    return d.make(1, "ReverseSequence", [x, lengths], batch_axis=batch - (rank if d.chance(0.3) else 0), seq_axis=time)


@recipe
def rolled(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4), ("float32", "int32"))
    axes = d.axes(len(shape_of(x)), 1)
    axes += axes[:1] if d.chance(0.2) else []
    shifts = d.numbers(len(axes), -7, 7)
    return d.make(7, "Roll", [x, d.whole(shifts if len(axes) > 1 or d.chance() else shifts[0]), d.whole(axes)])


@recipe
def columns_to_image(d: Draw) -> Any:
    image, kernel = d.numbers(2, 1, 6), d.numbers(2, 1, 3)
    held = {name: d.numbers(2, 1, 2) for name in ("strides", "dilations")}
    held |= {name: d.numbers(2, 0, 2) for name in ("pads_begin", "pads_end")}
    sides = zip(image, kernel, *held.values(), strict=True)
    counts = [(n + ahead + behind - gap * (k - 1) - 1) // step + 1 for n, k, step, gap, ahead, behind in sides]
    if min(counts) < 1:
        raise Unfit
    shape = [d.count(2)] * d.number(0, 1) + [d.number(1, 3) * kernel[0] * kernel[1], counts[0] * counts[1]]
    return d.make(15, "Col2Im", [d.parameter(d.array(shape)), d.whole(image), d.whole(kernel)], **held)


@recipe
def patches(d: Draw) -> Any:
    held = {"sizes": d.numbers(2, 1, 3), "strides": d.numbers(2, 1, 3), "rates": d.numbers(2, 1, 2)}
    x = d.parameter(d.array([d.count(2), d.number(1, 3), *d.numbers(2, 5, 8)]))
    return d.make(3, "ExtractImagePatches", [x], **held, auto_pad=d.one(("valid", "same_upper", "same_lower")))
