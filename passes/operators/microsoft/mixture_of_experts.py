"""MoE: a router chooses which experts see a token, each of which is two products with an activation between them."""

from __future__ import annotations

from math import isinf

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.model.types import tensor_type
from opshift.passes.operators.shared.recipes import recast, wider
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
WEIGHTS_1, BIAS_1, WEIGHTS_2, BIAS_2, WEIGHTS_3 = 2, 3, 4, 5, 6  # inputs
INTERLEAVED = 1  # swiglu_fusion


@says("TopK of the router's Softmax, and a loop over the experts: each adds what it makes of its tokens.")
def sum_of_chosen_experts(node: Node) -> str:
    if node.input(WEIGHTS_3):
        raise CannotConvert(node, "fc3_experts_weights, which the CPU kernel does not run; without could be expressed")
    if node.attributes.get("use_sparse_mixer", 0):
        raise CannotConvert(node, "use_sparse_mixer=1, which no text describes; 0 could be expressed")
    node.close("products and sums round in their own order")
    build, kind = node.build, node.elem_type()
    wide = wider(kind)
    tokens = recast(build, node.input(0), kind, wide)
    tokens = build.Reshape(tokens, [-1, _size(node)]) if node.rank() == 3 else tokens
    shares = _shares(node, wide)
    begin = build.Expand(build.constant(0.0, wide), build.Shape(tokens))

    def expert(inner: Builder, at: str, sums: list[str]) -> list[str]:
        each = inner.Gather(shares, at, axis=1)
        chosen = inner.Reshape(inner.NonZero(each), [-1, 1])
        y = inner.GatherND(tokens, chosen)
        y = _product(node, inner, at, y, WEIGHTS_1, wide)
        y = _product(node, inner, at, _activated(node, inner, y, wide), WEIGHTS_2, wide)
        weighted = inner.Mul(y, inner.Unsqueeze(inner.GatherND(each, chosen), [1]))
        return [inner.ScatterND(sums[0], chosen, inner.Add(inner.GatherND(sums[0], chosen), weighted))]

    count = build.Squeeze(build.Shape(node.input(1), start=1, end=2))
    y = build.loop(count, [(begin, tensor_type(wide, [None, None]))], expert)[0]
    y = recast(build, y, wide, kind)
    return str(build.Reshape(y, build.Shape(node.input(0)))) if node.rank() == 3 else y


def _size(node: Node) -> int:
    """The size of a token."""
    size = (node.scope.shape(node.input(WEIGHTS_2)) or [None, None])[1]
    if not isinstance(size, int):
        raise CannotConvert(node, "the shape of fc2_experts_weights is unknown; a known one could be expressed")
    return size


def _shares(node: Node, wide: int) -> str:
    """What each expert contributes to each token, 0 where it is not chosen; of equal ones the last is."""
    build, k = node.build, node.attributes.get("k", 1)
    probabilities = build.Softmax(recast(build, node.input(1), node.elem_type(1), wide), axis=-1)
    backward = build.Slice(probabilities, [-1], [-(2**63)], [1], [-1])
    best, places = build.emit("TopK", [backward, [k]], {"axis": 1}, outputs=2)
    if node.attributes.get("normalize_routing_weights", 0):
        best = build.Div(best, build.ReduceSum(best, [1], keepdims=1))
    nothing = build.Expand(build.constant(0.0, wide), build.Shape(probabilities))
    return str(build.Slice(build.ScatterElements(nothing, places, best, axis=1), [-1], [-(2**63)], [1], [-1]))


def _product(node: Node, inner: Builder, at: str, x: str, index: int, wide: int) -> str:
    """x times the transposed weights of an expert, plus its bias."""
    weights, bias = (
        recast(inner, inner.Gather(node.input(i), at, axis=0), node.elem_type(i), wide) if node.input(i) else ""
        for i in (index, index + 1)
    )
    product = inner.MatMul(x, inner.Transpose(weights, perm=[1, 0]))
    return str(inner.Add(product, bias) if bias else product)


def _activated(node: Node, inner: Builder, x: str, wide: int) -> str:
    name = node.attributes.get("activation_type", "relu")
    if name == "gelu":  # which the kernel approximates
        return str(inner.Gelu(x, approximate="tanh"))
    if name in ("relu", "identity"):
        return str(inner.Relu(x)) if name == "relu" else x
    if name == "silu":
        return str(inner.Mul(x, inner.Sigmoid(x)))
    if name != "swiglu" or node.attributes.get("swiglu_fusion", 0) != INTERLEAVED:
        raise CannotConvert(node, f"activation_type={name!r} that is not interleaved; the kernel runs no other")
    gate, linear = (inner.Slice(x, [start], [2**63 - 1], [1], [2]) for start in range(2))
    limit = node.attributes.get("swiglu_limit", float("inf"))
    if not isinf(limit):
        gate = inner.Clip(gate, None, inner.constant(limit, wide))
        linear = inner.Clip(linear, inner.constant(-limit, wide), inner.constant(limit, wide))
    alpha = inner.constant(node.attributes.get("activation_alpha", 1.0), wide)
    beta = inner.constant(node.attributes.get("activation_beta", 0.0), wide)
    return str(inner.Mul(inner.Mul(gate, inner.Sigmoid(inner.Mul(alpha, gate))), inner.Add(linear, beta)))


defined("MoE", sum_of_chosen_experts, opset=20, domain=MICROSOFT)
