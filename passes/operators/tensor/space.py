"""DepthToSpace and SpaceToDepth: the order in which channels and blocks take turns."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.lazy_numpy import np
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.operators.shared.shapes import size_along
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined, same
from opshift.passes.rewrite.says import says


@says("Replaced mode CRD by reordering the channels for DCR")
def channels_to_depth_first(node: Node) -> None:
    if _drop_mode(node):
        blocks, channels = node.attributes["blocksize"] ** 2, size_along(node, 1)
        if isinstance(channels, int) and channels % blocks:
            raise CannotConvert(node, f"{channels} channels", supported="a multiple of blocksize * blocksize")
        node.set_input(0, _turn(node, node.input(0), channels, [-1, blocks]))


@says("Replaced mode CRD by reordering the channels for DCR")
def channels_from_depth_first(node: Node) -> Replacement:
    if not _drop_mode(node):
        return None
    blocks, channels = node.attributes["blocksize"] ** 2, size_along(node, 1)
    channels = channels * blocks if isinstance(channels, int) else node.build.Mul(channels, blocks)
    return _turn(node, node.build.again(node.proto, node.inputs), channels, [blocks, -1])


def _drop_mode(node: Node) -> bool:
    """Take mode off the node; whether it was CRD, where the column is the first part of a channel."""
    mode = node.attributes.pop("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise CannotConvert(node, f"mode={mode!r}", supported="DCR or CRD")
    return bool(mode == "CRD")


def _turn(node: Node, x: str, channels: int | str, rows: list[int]) -> str:
    """x with its channels, seen as a matrix of this shape, transposed."""
    build = node.build
    if isinstance(channels, int):
        order = build.constant(tensors.int64s(np.arange(channels).reshape(rows).T.reshape(-1).tolist()))
    else:
        matrix = build.Transpose(build.Reshape(flat_indices.count(build, channels), rows), perm=[1, 0])
        order = build.Reshape(matrix, [-1])
    return str(build.Gather(x, order, axis=1))


@says("Replaced DepthToSpace by Reshape and Transpose")
def blocks_from_channels(node: Node) -> str:
    block = node.attributes["blocksize"]
    batch, channels, height, width = flat_indices.sizes(node, node.input(0))
    channels = _over(node, channels, block**2)
    if _drop_mode(node):
        apart, order = [batch, channels, block, block, height, width], [0, 1, 4, 2, 5, 3]
    else:
        apart, order = [batch, block, block, channels, height, width], [0, 3, 4, 1, 5, 2]
    joined = [
        batch,
        channels,
        flat_indices.times(node.build, height, block),
        flat_indices.times(node.build, width, block),
    ]
    return _take_apart(node, apart, order, joined)


@says("Replaced SpaceToDepth by Reshape and Transpose")
def channels_from_blocks(node: Node) -> str:
    block = node.attributes["blocksize"]
    batch, channels, height, width = flat_indices.sizes(node, node.input(0))
    height, width = _over(node, height, block), _over(node, width, block)
    joined = [batch, flat_indices.times(node.build, channels, block**2), height, width]
    return _take_apart(node, [batch, channels, height, block, width, block], [0, 3, 5, 1, 2, 4], joined)


def _take_apart(node: Node, apart: list[Size], order: list[int], joined: list[Size]) -> str:
    turned = node.build.Transpose(flat_indices.in_sizes(node, node.input(0), apart), perm=order)
    return flat_indices.in_sizes(node, turned, joined)


def _over(node: Node, size: Size, by: int) -> Size:
    return size // by if isinstance(size, int) else str(node.build.Div(size, by))


changed("DepthToSpace", 11, Pair(down=channels_to_depth_first))
same("DepthToSpace", 13, "only the text and bfloat16 changed")
changed("SpaceToDepth", 28, Pair(down=channels_from_depth_first))
defined("DepthToSpace", blocks_from_channels, opset=14)
defined("SpaceToDepth", channels_from_blocks, opset=14)
