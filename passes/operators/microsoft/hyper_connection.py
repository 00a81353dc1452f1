"""Streams side by side that are mixed: HyperConnectionPreMix, HyperConnectionPostMix, and EngramGate between them.

HyperConnectionLowRankMix makes the gates of both itself, in a network of its own.
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

T = TensorProto


@says("Replaced HyperConnectionPreMix by the sum of all streams, each times its gate")
def streams_reduced(node: Node) -> str:
    node.close("sums in another order")
    build, elem_type = node.build, node.elem_type()
    gated = build.Mul(_group(node), _gates(node, 1))
    total = build.ReduceSum(gated, [-2], keepdims=0)
    scale = node.attributes.get("reduction_scale", 1.0)
    total = build.Mul(total, build.constant(scale, T.FLOAT)) if scale != 1.0 else total
    return recast(build, total, T.FLOAT, elem_type)


@says("Replaced HyperConnectionPostMix by a mixture of all streams, plus gate * output")
def streams_mixed(node: Node) -> str:
    node.close("sums in another order")
    build, elem_type, mixed = node.build, node.elem_type(), _group(node)
    if node.input(3):
        perm = [*range(node.rank(3))]
        perm[-2:] = perm[:-3:-1]
        mixed = build.MatMul(build.Transpose(_wide(node, 3), perm=perm), mixed)
    total = build.Add(mixed, build.Mul(_gates(node, 2), build.Unsqueeze(_wide(node, 1), [-2])))
    if node.attributes.get("num_branches", 0):
        total = regroup(node, total, node.rank() - 1, [None])
    return recast(build, total, T.FLOAT, elem_type)


@says("Replaced HyperConnectionLowRankMix by normalization of the streams, two MatMul and Sigmoid")
def streams_mixed_by_own_gates(node: Node) -> list[str]:
    node.close("sums and rounds in another order")
    build, elem_type, given, before = node.build, node.elem_type(), node.attributes, node.rank() - 1
    branches = given["num_branches"]

    def round_back(x: str) -> str:
        return recast(build, x, T.FLOAT, elem_type)

    def wide(x: str) -> str:
        return recast(build, x, elem_type, T.FLOAT)

    def times(x: str, factor: float) -> str:
        return x if factor == 1.0 else str(build.Mul(x, build.constant(factor, T.FLOAT)))

    def sigmoid(x: str) -> str:
        return round_back(build.Sigmoid(wide(x)))

    streams = regroup(node, node.input(0), before, [branches, None])
    if node.input(5):
        block, gate = build.Unsqueeze(_wide(node, 5), [-2]), build.Unsqueeze(_wide(node, 6), [-1])
        streams = round_back(build.Add(wide(streams), build.Mul(gate, block)))
    x, scale = wide(streams), build.Reshape(_wide(node, 1), [branches, -1])
    normal = build.RMSNormalization(x, build.constant([1.0], T.FLOAT), epsilon=given.get("epsilon", 1e-5))
    normal = round_back(build.Mul(normal, scale))
    line = regroup(node, normal, before, [None])
    scaled = round_back(times(wide(build.MatMul(line, node.input(2))), given.get("silu_alpha", 1.0)))
    hidden = build.Mul(scaled, sigmoid(scaled))
    gates = regroup(node, sigmoid(build.MatMul(hidden, node.input(3))), before, [branches, None])
    mixed = build.ReduceSum(build.Mul(wide(normal), wide(gates)), [-2], keepdims=0)
    inside = wide(build.MatMul(line, node.input(4)))
    divisor = given.get("gate_div", 1.0)
    inside = inside if divisor == 1.0 else build.Div(inside, build.constant(divisor, T.FLOAT))
    after = round_back(times(wide(sigmoid(round_back(inside))), given.get("gate_mul", 1.0)))
    results = [round_back(times(mixed, given.get("reduction_scale", 1.0))), after]
    if node.is_used(2):
        results.append(regroup(node, streams, before, [None]) if node.input(5) else node.input(0))
    return [*results, ""][: len(node.outputs)]


def _wide(node: Node, index: int) -> str:
    return recast(node.build, node.input(index), node.elem_type(index), T.FLOAT)


def _group(node: Node) -> str:
    """The streams as (..., branches, size) in float32."""
    branches, x = node.attributes.get("num_branches", 0), _wide(node, 0)
    return regroup(node, x, node.rank() - 1, [branches, None]) if branches else x


def _gates(node: Node, index: int) -> str:
    """One gate for each stream, or one for each of its elements."""
    branches, rank, gates = node.attributes.get("num_branches", 0), node.rank(index), _wide(node, index)
    grouped = node.rank() + (1 if branches else 0)
    if rank == grouped:
        return gates
    if rank != grouped - 1:
        raise CannotConvert(
            node,
            f"the gates have rank {rank}, and the streams have rank {grouped}",
            supported="gates of one rank less than the streams",
        )
    if not branches:
        return str(node.build.Unsqueeze(gates, [-1]))
    return regroup(node, gates, rank - 1, [branches, None])


@says("Replaced EngramGate by Sigmoid of the signed root of normalized key * query, times the value")
def gated_by_signed_root(node: Node) -> list[str]:
    node.close("rounds in another order")
    build, elem_type = node.build, node.elem_type()
    wide, size = wider(elem_type), (node.scope.shape(node.input(0)) or [None])[-1]
    key, query, value, of_key, of_query, of_value = (
        recast(build, node.input(i), elem_type, wide) if node.input(i) else "" for i in range(6)
    )
    product = build.Mul(_normalize(node, key, of_key, wide), _normalize(node, query, of_query, wide))
    dot = build.ReduceSum(product, [-1], keepdims=1)
    if isinstance(size, int):
        root = build.constant(max(size, 1) ** 0.5, wide)
    else:
        root = build.Sqrt(build.Cast(build.Shape(key, start=-1), to=wide))
    dot = build.Div(dot, root)
    strength = build.Sqrt(build.Max(build.Abs(dot), build.constant(1e-6, wide)))
    gate = build.Sigmoid(build.Mul(build.Sign(dot), strength))
    gated = build.Mul(gate, build.Unsqueeze(value, [2]))
    results = [recast(build, gated, wide, elem_type)]
    if node.is_used(1):
        if not of_value:
            raise CannotConvert(node, "the output gated_value_normed is used without conv_norm_scale", supported="both")
        results.append(recast(build, _normalize(node, gated, of_value, wide), wide, elem_type))
    return [*results, ""][: len(node.outputs)]


def _normalize(node: Node, x: str, scale: str, elem_type: int) -> str:
    """x / sqrt(mean(x * x) + epsilon) * scale: RMSNormalization, whose scale is a vector"""
    build = node.build
    mean = build.ReduceMean(build.Mul(x, x), [-1], keepdims=1)
    root = build.Sqrt(build.Add(mean, build.constant(node.attributes.get("epsilon", 1e-5), elem_type)))
    return str(build.Mul(build.Div(x, root), scale))


defined("HyperConnectionPreMix", streams_reduced, opset=18, domain=MICROSOFT)
defined("HyperConnectionPostMix", streams_mixed, opset=18, domain=MICROSOFT)
defined("HyperConnectionLowRankMix", streams_mixed_by_own_gates, opset=23, domain=MICROSOFT)
defined("EngramGate", gated_by_signed_root, opset=18, domain=MICROSOFT)
