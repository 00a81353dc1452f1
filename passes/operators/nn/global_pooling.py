"""Pooling over everything behind the channels, which a reduction says as well."""

from __future__ import annotations

from opshift.passes.operators.shared.recipes import behind_channels, recast, wider
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says


@says("mean(X) over all axes behind the channels")
def mean_of_each_channel(node: Node) -> str:
    node.close("the mean is summed in another order")
    build, kind = node.build, node.elem_type()
    x = recast(build, node.input(0), kind, wider(kind))
    return recast(build, build.ReduceMean(x, axes=behind_channels(node)), wider(kind), kind)


@says("max(X) over all axes behind the channels")
def maximum_of_each_channel(node: Node) -> str:
    return str(node.build.ReduceMax(node.input(0), axes=behind_channels(node)))


@says("sum(|X| ** p) ** (1 / p) over all axes behind the channels")
def norm_of_each_channel(node: Node) -> str:
    node.close("the norm is summed in another order")
    build, kind, axes, p = node.build, node.elem_type(), behind_channels(node), node.attributes.get("p", 2)
    x = recast(build, node.input(0), kind, wider(kind))
    if p in (1, 2):
        norm = build.emit(f"ReduceL{p}", [x], {"axes": axes})
    else:
        powers = build.Pow(build.Abs(x), build.constant(float(p), wider(kind)))
        norm = build.Pow(build.ReduceSum(powers, axes), build.constant(1 / p, wider(kind)))
    return recast(build, norm, wider(kind), kind)


defined("GlobalAveragePool", mean_of_each_channel, opset=13)
defined("GlobalMaxPool", maximum_of_each_channel, opset=13)
defined("GlobalLpPool", norm_of_each_channel, opset=13)
