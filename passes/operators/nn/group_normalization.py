"""GroupNormalization: scale and bias per group or per channel, and before it existed."""

from __future__ import annotations

from math import prod

from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import along_channels, check_positive, recast, wider
from opshift.passes.operators.shared.shapes import in_shape_of_data, reshape_behind
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced GroupNormalization by (x - mean) / sqrt(variance + epsilon) * scale + bias")
def groups_of_channels(node: Node) -> str:
    node.close("group statistics are computed from their definition")
    build, x, elem_type = node.build, node.input(0), node.elem_type()
    wide = wider(elem_type)
    epsilon = build.constant(node.attributes.get("epsilon", 1e-5), wide)
    grouped = _group(node, recast(build, x, elem_type, wide))
    centered = build.Sub(grouped, build.ReduceMean(grouped, axes=[2]))
    variance = build.ReduceMean(build.Mul(centered, centered), axes=[2])
    normal = build.Div(centered, build.Sqrt(build.Add(variance, epsilon)))
    scale, bias = (build.Unsqueeze(recast(build, node.input(i), elem_type, wide), [1]) for i in (1, 2))
    scaled = build.Add(build.Mul(normal, scale), bias)
    return in_shape_of_data(node, recast(build, scaled, wide, elem_type))


@says("Repeated the scale and bias of each group for its channels, as newer GroupNormalization has one per channel")
def scale_per_channel(node: Node) -> None:
    check_positive(node, "num_groups")
    build, groups = node.build, node.attributes["num_groups"]
    if node.elem_type() != T.FLOAT:
        node.attributes["stash_type"] = node.elem_type()
    shape = node.scope.shape(node.input(0))
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    if channels == groups:
        return
    if isinstance(channels, int):
        target = build.constant(tensors.int64s([1, channels // groups]))
    else:
        each = build.Div(build.Shape(node.input(0), start=1, end=2), [groups])
        target = build.Concat([1], each, axis=0)
    for index in (1, 2):
        column = build.Expand(build.Reshape(node.input(index), [-1, 1]), target)
        node.set_input(index, build.Reshape(column, [-1]))


@says("Replaced GroupNormalization by its definition, as older versions have scale and bias per group")
def group_statistics(node: Node) -> str:
    node.close("group statistics are computed from their definition")
    build, x, elem_type = node.build, node.input(0), node.elem_type()
    stash = node.attributes.get("stash_type", T.FLOAT)
    epsilon = build.constant(node.attributes.get("epsilon", 1e-5), stash)
    grouped = _group(node, recast(build, x, elem_type, stash))
    centered = build.Sub(grouped, build.ReduceMean(grouped, [2]))
    variance = build.ReduceMean(build.Mul(centered, centered), [2])
    normal = recast(build, build.Div(centered, build.Sqrt(build.Add(variance, epsilon))), stash, elem_type)
    if node.scope.shape(x) is not None:
        scale, bias = (along_channels(node, index, node.elem_type(index)) for index in (1, 2))
        return str(build.Add(build.Mul(in_shape_of_data(node, normal), scale), bias))
    pixels = build.ReduceProd(build.Shape(x, start=2), keepdims=0)
    channels = reshape_behind(node, normal, 1, [build.Gather(build.Shape(x), 1), pixels])
    scale, bias = (build.Unsqueeze(node.input(index), [1]) for index in (1, 2))
    return in_shape_of_data(node, build.Add(build.Mul(channels, scale), bias))


def _group(node: Node, x: str) -> str:
    """(batch, groups, elements of a group); what is not known to be filled is divided among the groups."""
    check_positive(node, "num_groups")
    build, groups = node.build, node.attributes["num_groups"]
    batch, *rest = node.scope.shape(node.input(0)) or [None, None]
    if all(isinstance(dim, int) for dim in rest):
        return reshape_behind(node, x, 1, [groups, prod(dim for dim in rest if isinstance(dim, int)) // groups])
    if isinstance(batch, int) and batch:
        return str(build.Reshape(x, [0, groups, -1]))
    each = build.Div(build.ReduceProd(build.Shape(x, start=1), keepdims=0), groups)
    return reshape_behind(node, x, 1, [groups, each])


changed("GroupNormalization", 18, Pair(down=groups_of_channels))
changed("GroupNormalization", 21, Pair(up=scale_per_channel, down=group_statistics))
