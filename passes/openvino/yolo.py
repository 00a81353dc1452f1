"""What YOLO's networks end with."""

from __future__ import annotations

from opshift.passes.openvino import sizes
from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer


@layer("ReorgYolo")
def reorganize(of: Layer) -> Made:
    """The data as an image of fewer channels, of which each place of a block becomes an image of its own."""
    stride, dims = of.integer("stride"), sizes.dims(of)
    if len(dims) != 4 or stride < 1:
        raise Unmapped(f"rank {len(dims)}, stride={stride}", supported="rank 4 and a stride of 1 or more")
    batch, channels, height, width = dims
    for size, by in ((channels, stride * stride), (height, stride), (width, stride)):
        if isinstance(size, int) and size % by:
            raise Unmapped(f"stride={stride} does not divide size {size}")
    fewer = sizes.over(of, channels, stride * stride)
    blocks = sizes.reshape(of, of.input(0), [batch, fewer, height, stride, width, stride])
    apart = of.build.Transpose(blocks, perm=[0, 3, 5, 1, 2, 4])
    shape = [
        batch,
        sizes.times(of, channels, stride * stride),
        sizes.over(of, height, stride),
        sizes.over(of, width, stride),
    ]
    return sizes.reshape(of, apart, shape)


@layer("RegionYolo")
def regions(of: Layer) -> Made:
    """In each region x and y, whether there is an object, and the classes go through a Sigmoid; those of the first
    YOLO through a Softmax."""
    coords, classes, softmax = of.integer("coords"), of.integer("classes"), of.flag("do_softmax", True)
    mask = of.ints("mask", [])
    count = of.integer("num") if softmax else len(mask)
    dims, b, channels = sizes.dims(of), of.build, count * (coords + 1 + classes)
    if len(dims) != 4 or (isinstance(dims[1], int) and dims[1] != channels):
        raise Unmapped(
            f"shape {of.dims()}", supported=f"rank 4, with channels for {count} regions of {coords + 1 + classes}"
        )
    dims[1] = channels
    if coords < 2 or classes < 1:
        raise Unmapped(f"coords={coords}, classes={classes}", supported="2 or more coords, 1 or more classes")
    whole = sizes.reshape(of, of.input(0), [dims[0], count, coords + 1 + classes, *dims[2:]])
    lengths = [2, coords - 2, 1, classes]
    parts = b.emit("Split", [whole, b.constant(lengths, 7)], {"axis": 2}, outputs=4)
    place, size, chance, kinds = parts
    found = b.Softmax(kinds, axis=2) if softmax else b.Sigmoid(kinds)
    joined = b.Concat(b.Sigmoid(place), size, b.Sigmoid(chance), found, axis=2)
    if not softmax:
        return sizes.reshape(of, joined, dims)
    first, last = (of.normal(of.integer(name), 4) for name in ("axis", "end_axis"))
    flat = [*dims[:first], sizes.times(of, *dims[first : last + 1]), *dims[last + 1 :]]
    return sizes.reshape(of, joined, flat)
