"""Sums that are normalized and passed on, means of squares of branches and groups, and gates behind them.

The kernels add, and normalize, 16-bit floats in float32: what is normalized is the sum before it is rounded.
"""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.recipes import recast, wider
from opshift.passes.operators.shared.shapes import regroup
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

FLOAT = TensorProto.FLOAT
_RECIPROCAL = "the kernel divides, and adds squares, in another order"


@says("Replaced SkipLayerNormalization by LayerNormalization of input + skip + bias")
def normalized_sum(node: Node) -> list[str]:
    build, elem_type = node.build, node.elem_type()
    wide = wider(elem_type)
    node.close("the kernel subtracts the square of the mean")
    gamma, beta = (_wide(node, index) for index in (2, 3))
    total = _total(node, 4)
    statistics = max((i for i in (1, 2) if node.is_used(i)), default=0)
    attributes = {"axis": -1, "epsilon": node.attributes.get("epsilon", 1e-12)}
    made = build.emit("LayerNormalization", [total, gamma, beta], attributes, outputs=1 + statistics)
    normal, *saved = [made] if isinstance(made, str) else made
    results = [recast(build, normal, wide, elem_type), *saved, *[""] * (2 - statistics)]
    return _with_sum(node, results, total)


@says("Replaced SkipSimplifiedLayerNormalization by RMSNormalization of input + skip + bias")
def scaled_sum(node: Node) -> list[str]:
    build, elem_type = node.build, node.elem_type()
    wide = wider(elem_type)
    if node.is_used(1) or node.is_used(2):
        raise CannotConvert(node, "the output mean or inv_std_var is used, but onnxruntime never computes it")
    node.close(_RECIPROCAL)
    total = _total(node, 3)
    epsilon = node.attributes.get("epsilon", 1e-12)
    normal = build.RMSNormalization(total, _wide(node, 2), epsilon=epsilon)
    return _with_sum(node, [recast(build, normal, wide, elem_type), "", ""], total)


def _wide(node: Node, index: int) -> str:
    """An input in the type that is computed in; the empty string where it is left out."""
    elem_type = node.elem_type()
    return recast(node.build, node.input(index), elem_type, wider(elem_type)) if node.input(index) else ""


def _total(node: Node, bias: int) -> str:
    total = node.build.Add(_wide(node, 0), _wide(node, 1))
    return str(node.build.Add(total, _wide(node, bias)) if node.input(bias) else total)


def _with_sum(node: Node, results: list[str], total: str) -> list[str]:
    if node.is_used(3):
        elem_type = node.elem_type()
        results.append(recast(node.build, total, wider(elem_type), elem_type))
    return [*results, *[""] * 4][: len(node.outputs)]


@says("Replaced BranchwiseRMSNorm by RMSNormalization of each branch, in float32")
def normalized_branches(node: Node) -> str:
    node.close(_RECIPROCAL)
    build, elem_type = node.build, node.elem_type()
    x, branches = recast(build, node.input(0), elem_type, FLOAT), node.attributes.get("num_branches", 0)
    shape = node.scope.shape(node.input(0))
    if shape is None or len(shape) < (1 if branches else 2):
        raise CannotConvert(
            node,
            f"X has {'unknown rank' if shape is None else f'rank {len(shape)}'}, and there are {branches} branches",
        )
    grouped = regroup(node, x, len(shape) - 1, [branches, None]) if branches else x
    normal = build.RMSNormalization(grouped, build.constant([1.0], FLOAT), epsilon=node.attributes.get("epsilon", 1e-5))
    if node.input(1):
        scale = recast(build, node.input(1), node.elem_type(1), FLOAT)
        normal = build.Mul(normal, _scale_of_branches(node, scale, grouped))
    result = regroup(node, normal, len(shape) - 1, [None]) if branches else normal
    return recast(build, result, FLOAT, elem_type)


def _scale_of_branches(node: Node, scale: str, grouped: str) -> str:
    """The scale with an axis for branches, of which there is one where all share it."""
    build = node.build
    if node.rank(1) != 1:
        return scale
    each = (build.scope.shape(grouped) or [None])[-1]
    if isinstance(each, int) and each:
        return str(build.Reshape(scale, [-1, each]))
    size = build.Shape(grouped, start=-1)
    rows = build.Max(build.Div(build.Shape(scale), build.Max(size, [1])), [1])
    return str(build.Reshape(scale, build.Concat(rows, size, axis=0), allowzero=1))


_GATES = ("silu", "swish", "sigmoid")


@says("Replaced GatedRMSNorm by RMSNormalization of groups, times the activated gate, in float32")
def gated_normalization(node: Node) -> str:
    build, elem_type, activation = node.build, node.elem_type(), node.attributes.get("activation", "silu")
    if activation not in _GATES:
        raise CannotConvert(node, f"activation={activation!r}", supported=f"{', '.join(_GATES)}")
    node.close(_RECIPROCAL)
    x, scale, gate = (recast(build, node.input(index), elem_type, FLOAT) for index in range(3))
    each, before = (node.scope.shape(node.input(1)) or [None])[0], node.rank() - 1
    grouped = regroup(node, x, before, [None, each if isinstance(each, int) else build.Shape(node.input(1))])
    normal = build.RMSNormalization(grouped, scale, epsilon=node.attributes.get("epsilon", 1e-5))
    back = regroup(node, normal, before, [None])
    opened = build.Sigmoid(gate)
    opened = opened if activation == "sigmoid" else build.Mul(gate, opened)
    return recast(build, build.Mul(back, opened), FLOAT, elem_type)


@says("Replaced GroupNorm by GroupNormalization between Transposes, and x * Sigmoid(x)")
def normalized_groups(node: Node) -> str:
    build, elem_type = node.build, node.elem_type()
    return recast(build, _normalized_groups(node, recast(build, node.input(0), elem_type, FLOAT)), FLOAT, elem_type)


@says("Replaced SkipGroupNorm by GroupNormalization of X + skip + bias between Transposes, and x * Sigmoid(x)")
def normalized_groups_of_sum(node: Node) -> list[str]:
    build, elem_type = node.build, node.elem_type()
    last = node.attributes.get("channels_last", 1)
    x, skip = (recast(build, node.input(index), elem_type, FLOAT) for index in (0, 3))
    if node.rank(3) == 2:
        skip = build.Unsqueeze(skip, [1, 2] if last else [2, 3])
    total = build.Add(x, skip)
    if node.input(4):
        bias = recast(build, node.input(4), elem_type, FLOAT)
        total = build.Add(total, bias if last else build.Unsqueeze(bias, [1, 2]))
    results = [recast(build, _normalized_groups(node, total), FLOAT, elem_type)]
    if len(node.outputs) > 1:
        results.append(recast(build, total, FLOAT, elem_type))
    return results


def _normalized_groups(node: Node, x: str) -> str:
    node.close("kernels of other devices sum in another order")
    build, attributes = node.build, node.attributes
    activation, last = attributes["activation"], attributes.get("channels_last", 1)
    if activation not in (0, 1):
        raise CannotConvert(node, f"activation={activation}", supported="0 or 1")
    gamma, beta = (recast(build, node.input(index), node.elem_type(index), FLOAT) for index in (1, 2))
    x = build.Transpose(x, perm=[0, 3, 1, 2]) if last else x
    own = {"num_groups": attributes["groups"], "epsilon": attributes.get("epsilon", 1e-5)}
    normal = build.emit("GroupNormalization", [x, gamma, beta], own)
    normal = build.Transpose(normal, perm=[0, 2, 3, 1]) if last else normal
    return str(build.Mul(normal, build.Sigmoid(normal)) if activation else normal)


defined("SkipLayerNormalization", normalized_sum, opset=17, domain=MICROSOFT)
defined("SkipSimplifiedLayerNormalization", scaled_sum, opset=23, domain=MICROSOFT)
defined("BranchwiseRMSNorm", normalized_branches, opset=23, domain=MICROSOFT)
defined("GatedRMSNorm", gated_normalization, opset=23, domain=MICROSOFT)
defined("GroupNorm", normalized_groups, opset=21, domain=MICROSOFT)
defined("SkipGroupNorm", normalized_groups_of_sum, opset=21, domain=MICROSOFT)
