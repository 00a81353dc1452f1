"""DepthToSpace and SpaceToDepth: the order in which channels and blocks take turns."""

from __future__ import annotations

from opshift.passes import constants
from opshift.passes.errors import CannotConvert
from opshift.passes.lazy import np
from opshift.passes.registry import Pair, Replacement, changed, defined, same
from opshift.passes.steps import _indices
from opshift.passes.steps.tensor_shape import size_along
from opshift.passes.steps.tensor_slice import count_up
from opshift.passes.view import Node

Part = int | str | None


def channels_to_depth_first(node: Node) -> None:
    """There was no mode CRD: the channels are put into the order that DCR reads."""
    if _column_first(node):
        blocks, channels = node.attributes["blocksize"] ** 2, size_along(node, 1)
        node.set_input(0, _turned(node, node.input(0), channels, [-1, blocks]))


def channels_from_depth_first(node: Node) -> Replacement:
    """There was no mode CRD: the channels that DCR writes are put into its order."""
    if not _column_first(node):
        return None
    blocks, channels = node.attributes["blocksize"] ** 2, size_along(node, 1)
    channels = channels * blocks if isinstance(channels, int) else node.build.Mul(channels, blocks)
    return _turned(node, node.build.again(node.proto, node.inputs), channels, [blocks, -1])


def _column_first(node: Node) -> bool:
    mode = node.attributes.pop("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise CannotConvert(node, f"mode={mode!r}; DCR or CRD could be expressed")
    return bool(mode == "CRD")


def _turned(node: Node, x: str, channels: int | str, rows: list[int]) -> str:
    """x with its channels, seen as a matrix of this shape, transposed."""
    build = node.build
    if isinstance(channels, int):
        order = build.constant(constants.int64s(np.arange(channels).reshape(rows).T.reshape(-1).tolist()))
    else:
        matrix = build.Transpose(build.Reshape(count_up(build, channels), rows), perm=[1, 0])
        order = build.Reshape(matrix, [-1])
    return str(build.Gather(x, order, axis=1))


def blocks_from_channels(node: Node) -> str:
    """y[n, c, h * b + i, w * b + j] = x[n, (i * b + j) * C + c, h, w], or x[n, (c * b + i) * b + j, h, w] for CRD"""
    block = node.attributes["blocksize"]
    _, channels, height, width = _sizes(node)
    channels = _over(node, channels, block**2)
    if _column_first(node):
        apart, order = [0, channels, block, block, height, width], [0, 1, 4, 2, 5, 3]
    else:
        apart, order = [0, block, block, channels, height, width], [0, 3, 4, 1, 5, 2]
    joined = [0, channels, _times(node, height, block), _times(node, width, block)]
    return _taken_apart(node, apart, order, joined)


def channels_from_blocks(node: Node) -> str:
    """y[n, (i * b + j) * C + c, h, w] = x[n, c, h * b + i, w * b + j]"""
    block = node.attributes["blocksize"]
    _, channels, height, width = _sizes(node)
    height, width = _over(node, height, block), _over(node, width, block)
    joined = [0, _times(node, channels, block**2), height, width]
    return _taken_apart(node, [0, channels, height, block, width, block], [0, 3, 5, 1, 2, 4], joined)


def _taken_apart(node: Node, apart: list[Part], order: list[int], joined: list[Part]) -> str:
    build = node.build
    turned = build.Transpose(build.Reshape(node.input(0), _shape(node, apart)), perm=order)
    return str(build.Reshape(turned, _shape(node, joined)))


def _shape(node: Node, parts: list[Part]) -> str:
    return _indices.vector(node.build, [-1 if part is None else part for part in parts])


def _sizes(node: Node) -> list[Part]:
    """Of all axes; a single unknown one is None and follows from the others, several are read at run time."""
    dims = node.scope.shape(node.input(0)) or [None] * 4
    if sum(not isinstance(dim, int) for dim in dims[1:]) > 1:
        return list(_indices.sizes(node, node.input(0)))
    return [dim if isinstance(dim, int) else None for dim in dims]


def _over(node: Node, size: Part, by: int) -> Part:
    if size is None or isinstance(size, int):
        return size and size // by
    return str(node.build.Div(size, by))


def _times(node: Node, size: Part, by: int) -> Part:
    if size is None or isinstance(size, int):
        return size and size * by
    return str(node.build.Mul(size, by))


changed("DepthToSpace", 11, Pair(down=channels_to_depth_first))
same("DepthToSpace", 13, "bfloat16 came; the text was laid out anew")
changed("SpaceToDepth", 28, Pair(down=channels_from_depth_first))
defined("DepthToSpace", blocks_from_channels, opset=13)
defined("SpaceToDepth", channels_from_blocks, opset=13)
