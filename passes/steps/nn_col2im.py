"""Col2Im before it existed: for each pixel the columns that fall on it are gathered and added up."""

from __future__ import annotations

from itertools import product
from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.lazy import np
from opshift.passes.protos import TensorProto
from opshift.passes.registry import Pair, changed
from opshift.passes.view import Node

T = TensorProto
SUMMED = (
    *(T.FLOAT16, T.BFLOAT16, T.FLOAT, T.DOUBLE),
    *(T.INT8, T.INT16, T.INT32, T.INT64, T.UINT8, T.UINT16, T.UINT32, T.UINT64),
)
MOST = 2**22
"""The most indices that are written as constants."""


def gathered_and_added(node: Node) -> str:
    """Every pixel gathers the elements that fall on it, one layer after the other, the last ones from a 0."""
    build, kind = node.build, node.elem_type()
    image, block = node.scope.ints(node.input(1)), node.scope.ints(node.input(2))
    if image is None or block is None:
        raise CannotConvert(node, "image_shape or block_shape is known only at run time; constants could be expressed")
    if kind not in SUMMED:
        raise CannotConvert(node, "elements that cannot be added; numbers could be expressed")
    wide = T.FLOAT if kind in (T.FLOAT16, T.BFLOAT16) else kind
    if wide != kind:
        node.close("added in float32")
    rank = len(image)
    strides, dilations = (node.attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
    pads = node.attributes.get("pads", [0] * (2 * rank))
    counts = [
        (image[k] + pads[k] + pads[k + rank] - dilations[k] * (block[k] - 1) - 1) // strides[k] + 1 for k in range(rank)
    ]
    columns = prod(block) * prod(counts)
    layers = _layers(image, block, counts, strides, dilations, pads)
    if len(layers) * prod(image) > MOST:
        raise CannotConvert(node, f"{len(layers) * prod(image)} indices; {MOST} at most could be expressed")
    x = node.input(0) if wide == kind else build.Cast(node.input(0), to=wide)
    flat = build.Pad(build.Reshape(x, [0, -1, columns]), [0, 0, 0, 0, 0, 1])  # place `columns` holds a 0
    total = ""
    for layer in layers:
        part = build.Gather(flat, build.constant(layer, T.INT64), axis=2)
        total = build.Add(total, part) if total else part
    y = build.Reshape(total, [0, 0, *image])
    return str(y if wide == kind else build.Cast(y, to=kind))


def _layers(
    image: list[int], block: list[int], counts: list[int], strides: list[int], dilations: list[int], pads: list[int]
) -> list[list[int]]:
    """Lists of one column for each pixel, as many as fall on the pixel that gets the most."""
    found: list[list[int]] = [[] for _ in range(prod(image))]
    places = np.arange(prod(block) * prod(counts)).reshape(*block, *counts)
    ranges = [range(n) for n in (*block, *counts)]
    for at in product(*ranges):
        inside, step = at[: len(image)], at[len(image) :]
        pixel = [
            s * stride + b * dilation - pad
            for s, stride, b, dilation, pad in zip(step, strides, inside, dilations, pads[: len(image)], strict=True)
        ]
        if all(0 <= p < n for p, n in zip(pixel, image, strict=True)):
            found[int(np.ravel_multi_index(pixel, image))].append(int(places[at]))
    depth = max((len(columns) for columns in found), default=1) or 1
    return [[columns[k] if k < len(columns) else places.size for columns in found] for k in range(depth)]


changed("Col2Im", 18, Pair(down=gathered_and_added))
