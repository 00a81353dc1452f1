"""MeanVarianceNormalization: before it existed, and the default of its axes."""

from __future__ import annotations

from opshift.passes.operators.shared.recipes import recast, wider
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says


@says("Replaced MeanVarianceNormalization by (X - mean) / (sqrt(variance) + 1e-9)")
def mean_and_variance(node: Node) -> str:
    node.close("the operator is computed from its definition")
    build, elem_type = node.build, node.elem_type()
    wide, axes = wider(elem_type), node.attributes.get("axes", [0, 2, 3])
    if any(axis < 0 for axis in axes):
        axes = [axis % node.rank() for axis in axes]
    x = recast(build, node.input(0), elem_type, wide)
    centered = build.Sub(x, build.ReduceMean(x, axes=axes))
    variance = build.ReduceMean(build.Mul(centered, centered), axes=axes)
    deviation = build.Add(build.Sqrt(variance), build.constant(1e-9, wide))
    return recast(build, build.Div(centered, deviation), wide, elem_type)


@says("Set the attribute axes of MeanVarianceNormalization to its default, [0, 2, 3]")
def write_axes(node: Node) -> None:
    node.attributes.setdefault("axes", [0, 2, 3])


changed("MeanVarianceNormalization", 9, Pair(down=mean_and_variance))
changed("MeanVarianceNormalization", 13, Pair(up=write_axes))
