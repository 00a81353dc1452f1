"""Layers that put blocks of places side by side: in channels, in the batch, as columns."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.passes.openvino import sizes
from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer
from opshift.passes.openvino.sizes import Size


@layer("DepthToSpace")
def depth_to_space(of: Layer) -> Made:
    """Blocks of channels become blocks of places."""
    size, mode = of.integer("block_size", 1), of.choice("mode", ("blocks_first", "depth_first"))
    rank = of.rank() - 2
    if rank == 2:
        return str(of.build.DepthToSpace(of.input(0), blocksize=size, mode="DCR" if mode == "blocks_first" else "CRD"))
    batch, channels, *rest = sizes.dims(of)
    fewer = sizes.over(of, channels, size**rank)
    blocks: list[Size] = [size] * rank
    first = mode == "blocks_first"
    parted = sizes.reshape(of, of.input(0), [batch, *([*blocks, fewer] if first else [fewer, *blocks]), *rest])
    start = 1 if first else 2
    pairs = [axis for n in range(rank) for axis in (2 + rank + n, start + n)]
    moved = of.build.Transpose(parted, perm=[0, 1 + rank if first else 1, *pairs])
    return sizes.reshape(of, moved, [batch, fewer, *(sizes.times(of, dim, size) for dim in rest)])


@layer("SpaceToDepth")
def space_to_depth(of: Layer) -> Made:
    """Blocks of places become blocks of channels."""
    size, mode = of.integer("block_size", 1), of.choice("mode", ("blocks_first", "depth_first"))
    rank = of.rank() - 2
    if rank == 2 and mode == "blocks_first":
        return str(of.build.SpaceToDepth(of.input(0), blocksize=size))
    batch, channels, *rest = sizes.dims(of)
    fewer = [sizes.over(of, dim, size) for dim in rest]
    parted = sizes.reshape(of, of.input(0), [batch, channels, *(n for dim in fewer for n in (dim, size))])
    inside, places = [3 + 2 * n for n in range(rank)], [2 + 2 * n for n in range(rank)]
    order = [0, *inside, 1, *places] if mode == "blocks_first" else [0, 1, *inside, *places]
    moved = of.build.Transpose(parted, perm=order)
    return sizes.reshape(of, moved, [batch, sizes.times(of, channels, size**rank), *fewer])


@layer("ShuffleChannels")
def shuffle_channels(of: Layer) -> Made:
    dims = sizes.dims(of)
    axis, groups = of.normal(of.integer("axis", 1), len(dims)), of.integer("group", 1)
    channels = dims[axis]
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise Unmapped(f"{channels} channels do not divide into {groups} groups")
    parted = [*dims[:axis], groups, sizes.over(of, channels, groups), *dims[axis + 1 :]]
    order = list(range(len(dims) + 1))
    order[axis], order[axis + 1] = axis + 1, axis
    return sizes.reshape(of, of.build.Transpose(sizes.reshape(of, of.input(0), parted), perm=order), dims)


@layer("SpaceToBatch")
def space_to_batch(of: Layer) -> Made:
    """Of padded data, the places in blocks go to the batch."""
    batch, *rest = sizes.dims(of)
    (_, *blocks), begin, end = (sizes.elements(of, index, of.rank()) for index in (1, 2, 3))
    _check_leaks(of, blocks, begin[1:], rest)
    padded = [sizes.plus(of, sizes.plus(of, a, d), b) for a, d, b in zip(begin[1:], rest, end[1:], strict=True)]
    for size, block in zip(padded, blocks, strict=True):
        if isinstance(size, int) and isinstance(block, int) and (block < 1 or size % block):
            raise Unmapped(f"{size} elements do not divide into blocks of {block}")
    data = of.build.Pad(of.input(0), sizes.vector(of, [*begin, *end]))
    fewer = [sizes.over(of, size, block) for size, block in zip(padded, blocks, strict=True)]
    parted = sizes.reshape(of, data, [batch, *(n for pair in zip(fewer, blocks, strict=True) for n in pair)])
    inner = [2 * axis for axis in range(1, len(rest) + 1)]
    moved = of.build.Transpose(parted, perm=[*inner, 0, *(axis - 1 for axis in inner)])
    return sizes.reshape(of, moved, [sizes.times(of, batch, *blocks), *fewer])


def _check_leaks(of: Layer, blocks: Sequence[Size], begin: Sequence[Size], rest: Sequence[Size]) -> None:
    """Where the first block ends in padding alone, OpenVINO's kernel, that of images, takes the data of other rows."""
    if of.rank() < 4:
        return
    unknown = False
    for size, before, block in zip(rest, begin, blocks, strict=True):
        if isinstance(before, int) and isinstance(block, int) and before + 1 >= block:
            continue
        if not all(isinstance(known, int) for known in (size, before, block)):
            unknown = True
        elif (filled := sizes.plus(of, size, before)) < block:  # type: ignore[operator]
            raise Unmapped(
                f"data and begin fill {filled} of a block of {block}, and OpenVINO leaves other data in the rest",
                supported="whole ones",
            )
    if unknown:
        of.close("fills incomplete blocks with 0, where OpenVINO leaves other data")


@layer("BatchToSpace")
def batch_to_space(of: Layer) -> Made:
    """The way back, of which the ends are cut."""
    batch, *rest = sizes.dims(of)
    (_, *blocks), begin, end = (sizes.elements(of, index, of.rank()) for index in (1, 2, 3))
    for block in blocks:
        if isinstance(batch, int) and isinstance(block, int) and (block < 1 or batch % block):
            raise Unmapped(f"a batch of {batch} does not divide into blocks of {blocks}")
        batch = sizes.over(of, batch, block)
    parted = sizes.reshape(of, of.input(0), [*blocks, batch, *rest])
    count = len(rest)
    order = [count, *(axis for n in range(count) for axis in (count + 1 + n, n))]
    whole = [sizes.times(of, dim, block) for dim, block in zip(rest, blocks, strict=True)]
    merged = sizes.reshape(of, of.build.Transpose(parted, perm=order), [batch, *whole])
    if not any(n != 0 for n in (*begin, *end)):
        return merged
    stops = [sizes.minus(of, size, cut) for size, cut in zip(whole, end[1:], strict=True)]
    axes = list(range(1, count + 1))
    return str(of.build.Slice(merged, sizes.vector(of, begin[1:]), sizes.vector(of, stops), axes))


@layer("Col2Im")
def columns_to_image(of: Layer) -> Made:
    b, rank = of.build, of.rank()
    pads = [*of.ints("pads_begin", [0, 0]), *of.ints("pads_end", [0, 0])]
    columns = of.input(0) if rank == 3 else b.Unsqueeze(of.input(0), [0])
    held = {name: of.ints(name, [1, 1]) for name in ("dilations", "strides")}
    found = b.Col2Im(columns, of.vector(1), of.vector(2), pads=pads, **held)
    of.close("sums in another order")
    return str(found if rank == 3 else b.Squeeze(found, [0]))


@layer("ExtractImagePatches")
def patches(of: Layer) -> Made:
    """Each place of the result has a patch of the image, the channels of one pixel after those of another."""
    b, dims = of.build, sizes.dims(of)
    sides = [dim for dim in dims[2:] if isinstance(dim, int)]
    if len(sides) < 2:
        raise Unmapped("the size of the image is unknown")
    held = zip(sides, of.ints("sizes"), of.ints("strides"), of.ints("rates"), strict=True)
    auto = of.choice("auto_pad", ("valid", "same_upper", "same_lower"))
    value, counts, kernel = of.input(0), [], of.ints("sizes")
    for axis, (size, count, stride, rate) in enumerate(held, 2):
        extent = (count - 1) * rate + 1
        made = max(-(-(size - extent + 1) // stride), 0) if auto == "valid" else -(-size // stride)
        missing = 0 if auto == "valid" else max((made - 1) * stride + extent - size, 0)
        ahead = missing // 2 if auto != "same_lower" else missing - missing // 2
        pads = [0] * 8
        pads[axis], pads[axis + 4] = ahead, missing - ahead
        value = b.Pad(value, pads) if missing else value
        value = b.Gather(value, [k * stride + n * rate for k in range(made) for n in range(count)], axis=axis)
        counts.append(made)
    if 0 in counts:
        raise Unmapped("a patch is larger than the image", supported="smaller patches")
    value = sizes.reshape(of, value, [dims[0], dims[1], counts[0], kernel[0], counts[1], kernel[1]])
    value = b.Transpose(value, perm=[0, 3, 5, 1, 2, 4])
    return sizes.reshape(of, value, [dims[0], sizes.times(of, dims[1], kernel[0] * kernel[1]), *counts])
