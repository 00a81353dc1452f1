"""DeformConv before it existed: samples beside the grid, gathered, interpolated and multiplied by the weights."""

from __future__ import annotations

import itertools

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.carriers import bfloat16_in_float
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.operators.shared.recipes import check_positive
from opshift.passes.operators.shared.shapes import reshape_behind, share_along
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced DeformConv by interpolating gathered samples and MatMul")
def sampled_and_multiplied(node: Node) -> str:
    node.close("interpolates and sums in another order")
    build, elem_type, rank = node.build, node.elem_type(), node.rank() - 2
    wide = T.DOUBLE if elem_type == T.DOUBLE else T.FLOAT
    result, kernel = (flat_indices.sizes(node, node.input(k))[2:] for k in (2, 1))
    if {len(kernel), len(result)} != {rank}:
        raise CannotConvert(
            node,
            f"the data, the kernel and the output have {rank}, {len(kernel)} and {len(result)} spatial axes",
            supported="equal numbers",
        )
    x, weights, offset, bias, mask = (
        build.Cast(node.input(k), to=wide) if node.input(k) and elem_type != wide else node.input(k) for k in range(5)
    )
    check_positive(node, "group", "offset_group", "strides", "dilations")
    groups, parts = node.attributes.get("group", 1), node.attributes.get("offset_group", 1)
    offset = reshape_behind(node, offset, 1, [parts, *kernel, rank, *result])
    axes = [_neighbours(node, offset, [*kernel, *result], axis, wide) for axis in range(rank)]
    samples = _interpolate(node, x, axes, parts, wide)
    if mask:
        samples = build.Mul(samples, reshape_behind(node, mask, 1, [parts, *kernel, *result, 1]))
    samples = build.Transpose(samples, perm=[0, 1, 2 * rank + 2, *range(2, 2 * rank + 2)])
    outputs, *each = flat_indices.sizes(node, node.input(1))
    terms = flat_indices.product(build, each)
    columns = reshape_behind(node, samples, 1, [groups, terms, flat_indices.product(build, result)])
    weights = flat_indices.in_sizes(node, weights, [groups, share_along(node, node.input(1), 0, groups), terms])
    y = reshape_behind(node, build.MatMul(weights, columns), 1, [outputs, *result])
    y = build.Add(y, build.Unsqueeze(bias, list(range(1, rank + 1)))) if bias else y
    return str(y if elem_type == wide else build.Cast(y, to=elem_type))


def _neighbours(node: Node, offset: str, dims: list[Size], axis: int, wide: int) -> list[tuple[str, str, str]]:
    """The elements before and after each sample along an axis: index, whether it lies inside, and weight.

    `dims` are those of the kernel and of the result; the offsets have those of each axis between them.
    """
    build, rank = node.build, len(dims) // 2
    strides, dilations = (node.attributes.get(name) or [1] * rank for name in ("strides", "dilations"))
    pads = node.attributes.get("pads") or [0] * (2 * rank)
    steps: list[Size] = [0] * (2 * rank)
    steps[axis], steps[axis + rank] = dilations[axis], strides[axis]
    place = flat_indices.places(build, dims, steps, -pads[axis])
    fixed = build.constant(place, wide) if isinstance(place, int) else build.Cast(place, to=wide)
    at = build.Add(build.Gather(offset, axis, axis=rank + 2), fixed)
    size = flat_indices.sizes(node, node.input(0))[axis + 2]
    end = build.constant(size, wide) if isinstance(size, int) else build.Cast(size, to=wide)
    one, zero, low = build.constant(1, wide), build.constant(0, wide), build.Floor(at)
    part, high = build.Sub(at, low), build.Add(low, one)
    return [
        (build.Cast(near, to=T.INT64), build.And(build.Not(build.Less(near, zero)), build.Less(near, end)), weight)
        for near, weight in ((low, build.Sub(one, part)), (high, part))
    ]


def _interpolate(node: Node, x: str, axes: list[list[tuple[str, str, str]]], parts: int, wide: int) -> str:
    """For each image, part of the channels, element of the kernel and of the result: the channels of the sample."""
    build = node.build
    batch, _, *sizes = flat_indices.sizes(node, node.input(0))
    pixels = flat_indices.product(build, list(sizes))
    each = share_along(node, node.input(0), 1, parts)
    rows = reshape_behind(node, x, 1, [parts, each, pixels])
    rows = build.Pad(build.Transpose(rows, perm=[0, 1, 3, 2]), [0, 0, 0, 0, 0, 0, 1, 0])  # row `pixels` holds zeros
    apart = pixels + 1 if isinstance(pixels, int) else build.Add(pixels, 1)
    rows = flat_indices.in_sizes(node, rows, [flat_indices.product(build, [batch, parts, apart]), each])
    alone: list[Size] = [1] * (2 * len(axes))
    images = [flat_indices.times(build, apart, parts), apart, *([0] * len(alone))]
    first = flat_indices.places(build, [batch, parts, *alone], images)
    steps, total = flat_indices.strides(build, list(sizes)), ""
    for corner in itertools.product(*axes):
        place, inside, weight = corner[0]
        place = build.Mul(place, steps[0]) if steps[0] != 1 else place
        for (index, within, factor), step in zip(corner[1:], steps[1:], strict=True):
            place = build.Add(place, build.Mul(index, step) if step != 1 else index)
            inside, weight = build.And(inside, within), build.Mul(weight, factor)
        place = build.Where(inside, place, pixels)
        place = place if first == 0 else build.Add(place, first)
        value = build.Mul(build.Gather(rows, place, axis=0), build.Unsqueeze(weight, [2 * len(axes) + 2]))
        total = build.Add(total, value) if total else value
    return total


changed("DeformConv", 19, Pair(down=sampled_and_multiplied))
changed("DeformConv", 22, Pair(down=bfloat16_in_float))
