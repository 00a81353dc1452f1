"""Normalizations where there are none: the statistics are computed from their definitions.

Deviations from the mean are squared, not squares subtracted, which would cancel.
"""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import along_channels, behind_channels, recast, shape_of, wider
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
SHORT = (T.FLOAT16, T.BFLOAT16)


@says("The operator becomes (X - mean) / sqrt(variance + epsilon) * Scale + B over its last axes.")
def layer_statistics(node: Node) -> list[str]:
    node.close("the operator is computed from its definition")
    build, kind, stash = node.build, node.elem_type(), _stash(node)
    epsilon, axes = build.constant(node.attributes.get("epsilon", 1e-5), stash), _last_axes(node)
    x = recast(build, node.input(0), kind, stash)
    mean = build.ReduceMean(x, axes=axes)
    centered = build.Sub(x, mean)
    variance = build.ReduceMean(build.Mul(centered, centered), axes=axes)
    deviation = build.Sqrt(build.Add(variance, epsilon))
    y = build.Mul(recast(build, build.Div(centered, deviation), stash, kind), node.input(1))
    y = build.Add(y, node.input(2)) if node.input(2) else y
    saved = node.attributes.get("stash_type", T.FLOAT)
    results = [y, ""]
    if len(node.outputs) > 1:
        results[1] = recast(build, mean, stash, saved)
    if len(node.outputs) > 2:
        results.append(recast(build, build.Reciprocal(deviation), stash, saved))
    return results[: len(node.outputs)]


@says("The operator becomes X / sqrt(mean(X * X) + epsilon) * scale over its last axes, in the type of scale.")
def root_mean_square(node: Node) -> str:
    node.close("the operator is computed from its definition")
    build, kind, stash = node.build, node.elem_type(), _stash(node)
    epsilon = build.constant(node.attributes.get("epsilon", 1e-5), stash)
    x = recast(build, node.input(0), kind, stash)
    mean = build.ReduceMean(build.Mul(x, x), _last_axes(node))
    normal = recast(build, build.Div(x, build.Sqrt(build.Add(mean, epsilon))), stash, kind)
    return str(build.Mul(recast(build, normal, kind, node.elem_type(1)), node.input(1)))


def _stash(node: Node) -> int:
    """The type to compute in; runtimes do not narrow a double to the default, which is float."""
    stash = node.attributes.get("stash_type", T.FLOAT)
    if stash not in (T.FLOAT, T.DOUBLE, *SHORT):
        raise CannotConvert(node, f"stash_type={stash}; a floating-point type could be expressed")
    return T.DOUBLE if node.elem_type() == T.DOUBLE and stash == T.FLOAT else int(stash)


def _last_axes(node: Node) -> list[int]:
    axis = node.attributes.get("axis", -1)
    return list(range(axis, 0) if axis < 0 else range(axis, node.rank()))


@says("The operator becomes (X - mean) / (sqrt(variance) + 1e-9) over its axes.")
def mean_and_variance(node: Node) -> str:
    node.close("the operator is computed from its definition")
    build, kind = node.build, node.elem_type()
    wide, axes = wider(kind), node.attributes.get("axes", [0, 2, 3])
    if any(axis < 0 for axis in axes):
        axes = [axis % node.rank() for axis in axes]
    x = recast(build, node.input(0), kind, wide)
    centered = build.Sub(x, build.ReduceMean(x, axes=axes))
    variance = build.ReduceMean(build.Mul(centered, centered), axes=axes)
    deviation = build.Add(build.Sqrt(variance), build.constant(1e-9, wide))
    return recast(build, build.Div(centered, deviation), wide, kind)


@says("The operator becomes (x - mean) / sqrt(variance + epsilon) * scale + bias, all of them for each group.")
def groups_of_channels(node: Node) -> str:
    node.close("group statistics are computed from their definition")
    build, x, kind = node.build, node.input(0), node.elem_type()
    wide = wider(kind)
    epsilon = build.constant(node.attributes.get("epsilon", 1e-5), wide)
    grouped = build.Reshape(recast(build, x, kind, wide), [0, node.attributes["num_groups"], -1])
    centered = build.Sub(grouped, build.ReduceMean(grouped, axes=[2]))
    variance = build.ReduceMean(build.Mul(centered, centered), axes=[2])
    normal = build.Div(centered, build.Sqrt(build.Add(variance, epsilon)))
    scale, bias = (build.Unsqueeze(recast(build, node.input(i), kind, wide), [1]) for i in (1, 2))
    scaled = build.Add(build.Mul(normal, scale), bias)
    return str(build.Reshape(recast(build, scaled, wide, kind), shape_of(node)))


@says("(x - mean) / sqrt(variance + epsilon) * scale + B, with mean and variance of each channel of each instance")
def statistics_of_instances(node: Node) -> str:
    node.close("the operator is computed from its definition")
    build, kind, axes = node.build, node.elem_type(), behind_channels(node)
    x = recast(build, node.input(0), kind, wider(kind))
    epsilon = build.constant(node.attributes.get("epsilon", 1e-5), wider(kind))
    centered = build.Sub(x, build.ReduceMean(x, axes=axes))
    variance = build.ReduceMean(build.Mul(centered, centered), axes=axes)
    normal = build.Div(centered, build.Sqrt(build.Add(variance, epsilon)))
    scale, bias = (along_channels(node, index, wider(kind)) for index in (1, 2))
    return recast(build, build.Add(build.Mul(normal, scale), bias), wider(kind), kind)


@says("x / norm, and 0 where that is 0, with norm = sum(|x|) or sqrt(sum(x * x)) along axis")
def divided_by_norm(node: Node) -> str:
    power, build, kind = node.attributes.get("p", 2), node.build, node.elem_type()
    if power not in (1, 2):
        raise CannotConvert(node, f"p={power}; 1 and 2 could be expressed")
    node.close("the operator is computed from its definition")
    x = recast(build, node.input(0), kind, wider(kind))
    norm = build.emit(f"ReduceL{power}", [x], {"axes": [node.attributes.get("axis", -1)]})
    zero = build.constant(0.0, wider(kind))
    return recast(build, build.Where(build.Equal(norm, zero), zero, build.Div(x, norm)), wider(kind), kind)


changed("MeanVarianceNormalization", 9, Pair(down=mean_and_variance))
changed("LayerNormalization", 17, Pair(down=layer_statistics))
changed("GroupNormalization", 18, Pair(down=groups_of_channels))
changed("RMSNormalization", 23, Pair(down=root_mean_square))
defined("InstanceNormalization", statistics_of_instances, opset=13)
defined("LpNormalization", divided_by_norm, opset=13)
