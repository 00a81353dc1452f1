"""InstanceNormalization: images of rank 4 at first, and its definition."""

from __future__ import annotations

from opshift.passes.operators.shared.carriers import bfloat16_in_float
from opshift.passes.operators.shared.recipes import (
    along_channels,
    as_image,
    behind_channels,
    recast,
    wider,
    without_hint,
)
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined
from opshift.passes.rewrite.says import says


@says("Replaced InstanceNormalization by (x - mean) / sqrt(variance + epsilon) * scale + B")
def statistics_of_instances(node: Node) -> str:
    node.close("the operator is computed from its definition")
    build, elem_type, axes = node.build, node.elem_type(), behind_channels(node)
    x = recast(build, node.input(0), elem_type, wider(elem_type))
    epsilon = build.constant(node.attributes.get("epsilon", 1e-5), wider(elem_type))
    centered = build.Sub(x, build.ReduceMean(x, axes=axes))
    variance = build.ReduceMean(build.Mul(centered, centered), axes=axes)
    normal = build.Div(centered, build.Sqrt(build.Add(variance, epsilon)))
    scale, bias = (along_channels(node, index, wider(elem_type)) for index in (1, 2))
    return recast(build, build.Add(build.Mul(normal, scale), bias), wider(elem_type), elem_type)


changed("InstanceNormalization", 6, Pair(up=without_hint, down=as_image))
changed("InstanceNormalization", 22, Pair(down=bfloat16_in_float))
defined("InstanceNormalization", statistics_of_instances, opset=13)
