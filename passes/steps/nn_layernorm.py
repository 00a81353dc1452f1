"""Normalizations before they existed: the statistics are computed from their definitions.

Deviations from the mean are squared, not squares subtracted, which would cancel.
"""

from __future__ import annotations

from opshift.passes.build import Builder
from opshift.passes.errors import CannotConvert
from opshift.passes.protos import TensorProto
from opshift.passes.registry import Pair, changed
from opshift.passes.view import Node

T = TensorProto
SHORT = (T.FLOAT16, T.BFLOAT16)


def layer_statistics(node: Node) -> list[str]:
    """The operator becomes (X - mean) / sqrt(variance + epsilon) * Scale + B over its last axes."""
    node.close("the operator is computed from its definition")
    build, kind, stash = node.build, node.elem_type(), _stash(node)
    epsilon, axes = build.constant(node.attributes.get("epsilon", 1e-5), stash), _last_axes(node)
    x = _cast(build, node.input(0), kind, stash)
    mean = build.ReduceMean(x, axes=axes)
    centered = build.Sub(x, mean)
    variance = build.ReduceMean(build.Mul(centered, centered), axes=axes)
    deviation = build.Sqrt(build.Add(variance, epsilon))
    y = build.Mul(_cast(build, build.Div(centered, deviation), stash, kind), node.input(1))
    y = build.Add(y, node.input(2)) if node.input(2) else y
    saved = node.attributes.get("stash_type", T.FLOAT)
    results = [y, ""]
    if len(node.outputs) > 1:
        results[1] = _cast(build, mean, stash, saved)
    if len(node.outputs) > 2:
        results.append(_cast(build, build.Reciprocal(deviation), stash, saved))
    return results[: len(node.outputs)]


def root_mean_square(node: Node) -> str:
    """The operator becomes X / sqrt(mean(X * X) + epsilon) * scale over its last axes, in the type of scale."""
    node.close("the operator is computed from its definition")
    build, kind, stash = node.build, node.elem_type(), _stash(node)
    epsilon = build.constant(node.attributes.get("epsilon", 1e-5), stash)
    x = _cast(build, node.input(0), kind, stash)
    mean = build.ReduceMean(build.Mul(x, x), _last_axes(node))
    normal = _cast(build, build.Div(x, build.Sqrt(build.Add(mean, epsilon))), stash, kind)
    return str(build.Mul(_cast(build, normal, kind, node.elem_type(1)), node.input(1)))


def _stash(node: Node) -> int:
    """The type to compute in; runtimes do not narrow a double to the default, which is float."""
    stash = node.attributes.get("stash_type", T.FLOAT)
    if stash not in (T.FLOAT, T.DOUBLE, *SHORT):
        raise CannotConvert(node, f"stash_type={stash}; a floating-point type could be expressed")
    return T.DOUBLE if node.elem_type() == T.DOUBLE and stash == T.FLOAT else int(stash)


def _last_axes(node: Node) -> list[int]:
    axis = node.attributes.get("axis", -1)
    return list(range(axis, 0) if axis < 0 else range(axis, node.rank()))


def mean_and_variance(node: Node) -> str:
    """The operator becomes (X - mean) / (sqrt(variance) + 1e-9) over its axes."""
    node.close("the operator is computed from its definition")
    build, kind = node.build, node.elem_type()
    wide, axes = _wider(kind), node.attributes.get("axes", [0, 2, 3])
    if any(axis < 0 for axis in axes):
        axes = [axis % node.rank() for axis in axes]
    x = _cast(build, node.input(0), kind, wide)
    centered = build.Sub(x, build.ReduceMean(x, axes=axes))
    variance = build.ReduceMean(build.Mul(centered, centered), axes=axes)
    deviation = build.Add(build.Sqrt(variance), build.constant(1e-9, wide))
    return _cast(build, build.Div(centered, deviation), wide, kind)


def groups_of_channels(node: Node) -> str:
    """The operator becomes (x - mean) / sqrt(variance + epsilon) * scale + bias, all of them for each group."""
    node.close("group statistics are computed from their definition")
    build, x, kind = node.build, node.input(0), node.elem_type()
    wide = _wider(kind)
    epsilon = build.constant(node.attributes.get("epsilon", 1e-5), wide)
    grouped = build.Reshape(_cast(build, x, kind, wide), [0, node.attributes["num_groups"], -1])
    centered = build.Sub(grouped, build.ReduceMean(grouped, axes=[2]))
    variance = build.ReduceMean(build.Mul(centered, centered), axes=[2])
    normal = build.Div(centered, build.Sqrt(build.Add(variance, epsilon)))
    scale, bias = (build.Unsqueeze(_cast(build, node.input(i), kind, wide), [1]) for i in (1, 2))
    scaled = build.Add(build.Mul(normal, scale), bias)
    return str(build.Reshape(_cast(build, scaled, wide, kind), build.Shape(x)))


def _wider(kind: int) -> int:
    return T.FLOAT if kind in SHORT else kind


def _cast(build: Builder, name: str, kind: int, to: int) -> str:
    return name if kind == to else str(build.Cast(name, to=to))


changed("MeanVarianceNormalization", 9, Pair(down=mean_and_variance))
changed("LayerNormalization", 17, Pair(down=layer_statistics))
changed("GroupNormalization", 18, Pair(down=groups_of_channels))
changed("RMSNormalization", 23, Pair(down=root_mean_square))
