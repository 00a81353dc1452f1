"""LRN, to which only types came, and which is a mean over neighbouring channels."""

from __future__ import annotations

from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined, same
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced LRN by X / (bias + alpha * AveragePool(X * X) over channels) ** beta")
def divided_by_neighbours(node: Node) -> str:
    """Pool the channels as an image of one channel; zeros beyond the ends count, as LRN divides by size."""
    node.close("the operator is computed from its definition")
    build, given, rank, size = node.build, node.elem_type(), node.rank(), node.attributes["size"]
    if rank < 3:
        raise CannotConvert(node, f'"{node.input(0)}" has rank {rank}', supported="rank 3 or more")
    wide = T.FLOAT if given == T.BFLOAT16 else given
    x = recast(build, node.input(0), given, wide)
    squares = build.Mul(x, x)
    image = [dim if isinstance(dim, int) else 0 for dim in node.scope.shape(node.input(0)) or []][2:]
    merged = rank != 3 and prod(image) > 0
    if merged:  # which runtimes pool that know two axes alone
        squares = build.Reshape(squares, [0, 0, prod(image)])
    window = [size] + [1] * (1 if merged else rank - 2)
    pads = [(size - 1) // 2] + [0] * (len(window) - 1) + [size // 2] + [0] * (len(window) - 1)
    mean = build.AveragePool(build.Unsqueeze(squares, [1]), kernel_shape=window, pads=pads, count_include_pad=1)
    mean = build.Squeeze(mean, [1])
    if merged:
        mean = build.Reshape(mean, [0, 0, *image])
    alpha, beta, bias = (
        build.constant(node.attributes.get(name, default), wide)
        for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    divisor = build.Pow(build.Add(build.Mul(mean, alpha), bias), beta)
    return recast(build, build.Div(x, divisor), wide, given)


defined("LRN", divided_by_neighbours, opset=13)
same("LRN", 13, "only the text and bfloat16 changed")
