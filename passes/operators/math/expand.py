"""Expand, before there was an operator that repeats elements to fill a shape."""

from __future__ import annotations

from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import carrier_casts
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced Expand by repeating axes of size 1")
def tile(node: Node) -> str:
    build, x, dims = node.build, node.input(0), node.scope.shape(node.input(0))
    wanted, length = node.scope.ints(node.input(1)), _length(node)
    if length is None and dims == []:
        ones = build.Add(build.Mul(node.input(1), [0]), [1])  # as many as there will be axes
        return str(build.Tile(build.Reshape(x, ones), node.input(1)))
    if length is None:
        raise CannotConvert(
            node,
            "the length of the input 'shape' is unknown",
            supported="a shape of known length, or a scalar to expand",
        )
    if dims is None:
        raise node.unknown("rank", x)
    rank = max(len(dims), length)
    if not rank:
        return str(build.Identity(x))
    if rank > len(dims):
        x = build.Unsqueeze(x, axes=list(range(rank - len(dims))))
    known: list[Any] = [1] * (rank - len(dims)) + list(dims)
    if wanted is not None and all(isinstance(d, int) for d in known):
        sizes = [1] * (rank - length) + wanted
        repeats = [size if dim == 1 else 1 for dim, size in zip(known, sizes, strict=True)]
        if all(repeat == 1 for repeat in repeats):
            return str(build.Identity(x) if x == node.input(0) else x)
        return str(build.Tile(x, repeats))
    shape = node.input(1)
    if length < rank:
        shape = build.Concat([1] * (rank - length), shape, axis=0)
    return str(build.Tile(x, _repeats(node, x, known, shape)))


def _length(node: Node) -> int | None:
    dims = node.scope.shape(node.input(1))
    if dims and isinstance(dims[0], int):
        return dims[0]
    result = node.scope.shape(node.outputs[0])
    given = node.scope.shape(node.input(0))
    if result is not None and given is not None and len(result) > len(given):
        return len(result)
    return None


def _repeats(node: Node, x: str, dims: list[Any], shape: str) -> str:
    """shape where the axis has one element, 1 where it has not"""
    build = node.build
    if all(dim == 1 for dim in dims):
        return shape
    if all(isinstance(dim, int) for dim in dims):
        single: Any = build.constant(tensors.int64s([int(dim == 1) for dim in dims]))
    else:
        single = build.Cast(build.Equal(build.Shape(x), [1]), to=T.INT64)
    return str(build.Add(build.Mul(build.Sub(shape, [1]), single), [1]))


changed("Expand", 8, Pair(down=tile))
changed("Expand", 13, Pair(down=carrier_casts({T.BFLOAT16: T.FLOAT})))
