"""LayerNormalization and RMSNormalization before they existed: the statistics are computed from their definitions.

Deviations from the mean are squared, not squares subtracted, which would cancel.
"""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto
SHORT = (T.FLOAT16, T.BFLOAT16)


@says("Replaced LayerNormalization by (X - mean) / sqrt(variance + epsilon) * Scale + B")
def layer_statistics(node: Node) -> list[str]:
    _check_ranks(node)
    node.close("the operator is computed from its definition")
    build, elem_type, stash = node.build, node.elem_type(), _stash(node)
    epsilon, axes = build.constant(node.attributes.get("epsilon", 1e-5), stash), _last_axes(node)
    x = recast(build, node.input(0), elem_type, stash)
    mean = build.ReduceMean(x, axes=axes)
    centered = build.Sub(x, mean)
    variance = build.ReduceMean(build.Mul(centered, centered), axes=axes)
    deviation = build.Sqrt(build.Add(variance, epsilon))
    y = build.Mul(recast(build, build.Div(centered, deviation), stash, elem_type), node.input(1))
    y = build.Add(y, node.input(2)) if node.input(2) else y
    saved = node.attributes.get("stash_type", T.FLOAT)
    results = [y, ""]
    if len(node.outputs) > 1:
        results[1] = recast(build, mean, stash, saved)
    if len(node.outputs) > 2:
        results.append(recast(build, build.Reciprocal(deviation), stash, saved))
    return results[: len(node.outputs)]


@says("Replaced RMSNormalization by X / sqrt(mean(X * X) + epsilon) * scale")
def root_mean_square(node: Node) -> str:
    _check_ranks(node)
    node.close("the operator is computed from its definition")
    build, elem_type, stash = node.build, node.elem_type(), _stash(node)
    epsilon = build.constant(node.attributes.get("epsilon", 1e-5), stash)
    x = recast(build, node.input(0), elem_type, stash)
    mean = build.ReduceMean(build.Mul(x, x), _last_axes(node))
    normal = recast(build, build.Div(x, build.Sqrt(build.Add(mean, epsilon))), stash, elem_type)
    return str(build.Mul(recast(build, normal, elem_type, node.elem_type(1)), node.input(1)))


def _check_ranks(node: Node) -> None:
    """Scale and bias are broadcast to the data, and not the data to them."""
    for name in filter(None, node.inputs[1:]):
        other = node.scope.shape(name)
        if other is None or len(other) < 2:  # data have as many, and need not be inferred
            continue
        held = node.scope.shape(node.input(0))
        if held is not None and len(other) > len(held):
            raise CannotConvert(
                node,
                f'"{name}" has rank {len(other)}, and the data has rank {len(held)}',
                supported="at most the rank of the data",
            )


def _stash(node: Node) -> int:
    """The type to compute in; runtimes do not narrow a double to the default, which is float."""
    stash = node.attributes.get("stash_type", T.FLOAT)
    if stash not in (T.FLOAT, T.DOUBLE, *SHORT):
        raise CannotConvert(node, f"stash_type={stash}", supported="a floating-point type")
    return T.DOUBLE if node.elem_type() == T.DOUBLE and stash == T.FLOAT else int(stash)


def _last_axes(node: Node) -> list[int]:
    axis = node.attributes.get("axis", -1)
    return list(range(axis, 0) if axis < 0 else range(axis, node.rank()))


changed("LayerNormalization", 17, Pair(down=layer_statistics))
changed("RMSNormalization", 23, Pair(down=root_mean_square))
