"""DepthToSpace and SpaceToDepth: the order in which channels and blocks take turns."""

from __future__ import annotations

from opshift.passes import constants
from opshift.passes.errors import CannotConvert
from opshift.passes.lazy import np
from opshift.passes.registry import Pair, Replacement, changed, defined, same
from opshift.passes.steps.tensor_shape import size_along
from opshift.passes.steps.tensor_slice import count_up
from opshift.passes.view import Node


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


def _taken_apart(node: Node, apart: list[int | str], order: list[int], joined: list[int | str]) -> str:
    build = node.build
    turned = build.Transpose(build.Reshape(node.input(0), _shape(node, apart)), perm=order)
    return str(build.Reshape(turned, _shape(node, joined)))


def _shape(node: Node, sizes: list[int | str]) -> str | list[int]:
    """Sizes as a shape; a single one that is known only at run time follows from the others."""
    computed = [k for k, size in enumerate(sizes) if isinstance(size, str)]
    if len(computed) > 1:
        return str(node.build.Concat(*([size] if isinstance(size, int) else size for size in sizes), axis=0))
    return [-1 if isinstance(size, str) else size for size in sizes]


def _sizes(node: Node) -> list[int | str]:
    return [size_along(node, axis) for axis in range(4)]


def _over(node: Node, size: int | str, by: int) -> int | str:
    return size // by if isinstance(size, int) else node.build.Div(size, [by])


def _times(node: Node, size: int | str, by: int) -> int | str:
    return size * by if isinstance(size, int) else node.build.Mul(size, [by])


changed("DepthToSpace", 11, Pair(down=channels_to_depth_first))
same("DepthToSpace", 13, "bfloat16 came; the text was laid out anew")
changed("SpaceToDepth", 28, Pair(down=channels_from_depth_first))
defined("DepthToSpace", blocks_from_channels, opset=13)
defined("SpaceToDepth", channels_from_blocks, opset=13)
