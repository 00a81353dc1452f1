"""Col2Im before it existed: for each pixel the columns that fall on it are gathered and added up.

Where the sizes are known they are written out; where not, which column falls on which pixel is computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.operators.shared.recipes import check_positive
from opshift.passes.operators.shared.shapes import reshape_behind, share_along
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto
FLOATS = (T.FLOAT16, T.BFLOAT16, T.FLOAT, T.DOUBLE)
SUMMED = (
    *FLOATS,
    *(T.INT8, T.INT16, T.INT32, T.INT64, T.UINT8, T.UINT16, T.UINT32, T.UINT64),
)
WIDER: dict[int, int] = {
    **dict.fromkeys([T.FLOAT16, T.BFLOAT16], T.FLOAT),
    **dict.fromkeys([T.INT8, T.INT16, T.UINT8, T.UINT16], T.INT32),
    T.UINT32: T.INT64,
}
MOST = 2**20
"""The most indices that are written as constants."""


@dataclass(frozen=True)
class Axis:
    """One axis of the image: how many pixels, elements of a block and steps of the block there are along it."""

    image: Size
    block: Size
    steps: Size
    stride: int
    dilation: int
    begin: int


@says("Replaced Col2Im by Gather and ReduceSum, which add up the elements of each pixel")
def gathered_and_added(node: Node) -> str:
    build, elem_type = node.build, node.elem_type()
    if elem_type not in SUMMED:
        raise CannotConvert(node, "the element type is one that cannot be added", supported="numbers")
    wide = WIDER.get(elem_type, elem_type)
    x = node.input(0) if wide == elem_type else build.Cast(node.input(0), to=wide)
    axes = _axes(node)
    elements = flat_indices.product(build, [axis.block for axis in axes])
    columns = flat_indices.times(build, elements, flat_indices.product(build, [axis.steps for axis in axes]))
    x = _channels_apart(node, x, elements, columns)
    x = build.Pad(x, [0, 0, 0, 0, 0, 1])  # place `columns` holds a 0
    places = [size for axis in axes for size in (axis.image, axis.block) if isinstance(size, int)]
    if len(places) == 2 * len(axes) and prod(places) <= MOST:
        if elem_type in (T.FLOAT16, T.BFLOAT16):
            node.close("added in float32")
        y = _sum_of_layers(node, x, axes)
    else:
        if elem_type in FLOATS:
            node.close("sums in another order")
        y = _sum(build, x, axes, columns)
    if elem_type in FLOATS:
        y = build.Add(y, build.constant(0, wide))  # runtimes begin at 0, which makes 0 of -0
    return str(y if wide == elem_type else build.Cast(y, to=elem_type))


def _channels_apart(node: Node, x: str, elements: Size, columns: Size) -> str:
    """(batch, channels, columns of one channel), from (batch, channels * elements, steps)."""
    batch, channels, _ = node.scope.shape(node.input(0)) or [None] * 3
    if isinstance(batch, int) and batch and not isinstance(channels, int) and flat_indices.is_never_empty([columns]):
        return str(node.build.Reshape(x, flat_indices.vector(node.build, [0, -1, columns])))
    return reshape_behind(node, x, 1, [share_along(node, node.input(0), 1, elements), columns])


def _axes(node: Node) -> list[Axis]:
    build, image, block = node.build, node.scope.ints(node.input(1)), node.scope.ints(node.input(2))
    check_positive(node, "strides", "dilations")
    rank = _spatial_rank(node)
    strides, dilations = (node.attributes.get(name) or [1] * rank for name in ("strides", "dilations"))
    pads = node.attributes.get("pads") or [0] * (2 * rank)
    found = []
    for k in range(rank):
        pixels: Size = image[k] if image else build.Gather(node.input(1), k)
        elements: Size = block[k] if block else build.Gather(node.input(2), k)
        reach = flat_indices.times(
            build, elements, dilations[k]
        )  # (elements - 1) * dilation + 1, less what is added here
        room = flat_indices.minus(build, pixels, reach)
        room = _more(build, room, pads[k] + pads[k + rank] + dilations[k] - 1)
        steps = room // strides[k] if isinstance(room, int) else build.Div(room, strides[k])
        found.append(Axis(pixels, elements, _more(build, steps, 1), strides[k], dilations[k], pads[k]))
    return found


def _more(build: Builder, a: Size, b: int) -> Size:
    return a + b if isinstance(a, int) else flat_indices.plus(build, a, b)


def _spatial_rank(node: Node) -> int:
    for index in (1, 2):
        held = node.scope.ints(node.input(index))
        dims = [len(held)] if held is not None else node.scope.shape(node.input(index))
        if dims and isinstance(dims[0], int):
            return dims[0]
    for name, each in (("strides", 1), ("dilations", 1), ("pads", 2)):
        if node.attributes.get(name):
            return len(node.attributes[name]) // each
    raise CannotConvert(node, "the number of image axes is unknown", supported="an image_shape of known length")


def _sum(build: Builder, x: str, axes: list[Axis], columns: Size) -> str:
    """Every pixel gathers one column for each element of the block, the zero where none falls on it."""
    rank, place, hit = len(axes), "", ""
    apart = flat_indices.strides(build, [axis.block for axis in axes] + [axis.steps for axis in axes])
    for k, axis in enumerate(axes):
        element = build.Reshape(flat_indices.count(build, axis.block), [-1, 1])
        pixel = flat_indices.count(build, axis.image)
        shifted = build.Sub(build.Add(pixel, axis.begin), build.Mul(element, axis.dilation))
        step = build.Div(shifted, axis.stride)
        begins = build.And(build.Equal(build.Mul(step, axis.stride), shifted), build.Not(build.Less(shifted, 0)))
        there = build.And(begins, build.Less(step, axis.steps))
        along = build.Add(build.Mul(element, apart[k]), build.Mul(step, apart[rank + k]))
        aside = [at for at in range(2 * rank) if at not in (k, rank + k)]
        if aside:
            along, there = build.Unsqueeze(along, aside), build.Unsqueeze(there, aside)
        place, hit = (build.Add(place, along), build.And(hit, there)) if k else (along, there)
    gathered = build.Gather(x, build.Where(hit, place, columns), axis=2)
    return str(build.ReduceSum(gathered, list(range(2, 2 + rank)), keepdims=0))


def _sum_of_layers(node: Node, x: str, axes: list[Axis]) -> str:
    """Sum layers of columns, if all columns are known: as many layers as columns fall on one pixel at most."""
    build, total = node.build, ""
    for layer in _layers(axes):
        part = build.Gather(x, build.constant(layer, T.INT64), axis=2)
        total = build.Add(total, part) if total else part
    return reshape_behind(node, total, 2, [axis.image for axis in axes])


def _layers(axes: list[Axis]) -> list[list[int]]:
    """Lists of one column for each pixel; a layer holds the last column, of zeros, where a pixel gets no more."""
    image, block, counts = ([getattr(axis, part) for axis in axes] for part in ("image", "block", "steps"))
    found: list[list[int]] = [[] for _ in range(prod(image))]
    places = np.arange(prod(block) * prod(counts)).reshape(*block, *counts)
    for at in product(*(range(n) for n in (*block, *counts))):
        inside, step = at[: len(axes)], at[len(axes) :]
        pixel = [
            s * axis.stride + b * axis.dilation - axis.begin for s, b, axis in zip(step, inside, axes, strict=True)
        ]
        if all(0 <= p < n for p, n in zip(pixel, image, strict=True)):
            found[int(np.ravel_multi_index(pixel, image))].append(int(places[at]))
    depth = max((len(columns) for columns in found), default=1) or 1
    return [[columns[k] if k < len(columns) else places.size for columns in found] for k in range(depth)]


changed("Col2Im", 18, Pair(down=gathered_and_added))
