"""LinearAttention, which ONNX has from opset 27 on, and the gates that feed it."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.operators.shared.shapes import regroup
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
STATE, DECAY, BETA = 3, 4, 5  # inputs
GATED, CORRECTED = ("gated", "gated_delta"), ("delta", "gated_delta")


@says("Replaced com.microsoft::LinearAttention by ONNX's LinearAttention")
def linear_attention(node: Node) -> list[str]:
    node.close("rounds in another order")
    build, rule = node.build, node.attributes.get("update_rule", "gated_delta")
    window = node.attributes.get("state_window", 0)
    if window:
        raise CannotConvert(node, f"onnxruntime's CPU kernel does not support state_window={window}", supported="0")
    query = node.input(0)
    queries, keys = node.attributes["q_num_heads"], node.attributes["kv_num_heads"]
    if keys > queries:
        apart = build.Unsqueeze(regroup(node, query, 2, [queries, None]), [3])
        many = build.Expand(apart, [1, 1, 1, keys // queries, 1])
        query, queries = regroup(node, many, 2, [None]), keys
    gates = [node.input(i) if rule in rules else "" for i, rules in ((DECAY, GATED), (BETA, CORRECTED))]
    attributes = {
        "q_num_heads": queries,
        "kv_num_heads": keys,
        "update_rule": rule,
        "scale": node.attributes.get("scale", 0.0) or None,
        "chunk_size": node.attributes.get("chunk_size"),
    }
    inputs = [_with_rank(node, 0, query), *(_with_rank(node, i) for i in (1, 2, STATE)), *gates]
    return list(build.emit("LinearAttention", inputs, attributes, outputs=2))[: len(node.outputs)]


def _with_rank(node: Node, index: int, name: str = "") -> str:
    """Reshape an input of unknown rank: without the rank onnxruntime does not run the body of LinearAttention."""
    name = name or node.input(index)
    if not name or node.build.scope.shape(name) is not None:
        return name
    return str(node.build.Reshape(name, [0, 0, 0, -1] if index == STATE else [0, 0, -1]))


@says("Replaced LinearAttentionGate by decay_scale * Softplus(a + dt_bias) and Sigmoid(b), in float32")
def gates_of_linear_attention(node: Node) -> list[str]:
    build, elem_type = node.build, node.elem_type()
    node.close("Softplus and Sigmoid round otherwise")
    a, b = (recast(build, name, elem_type, T.FLOAT) if name else "" for name in (node.input(0), node.input(3)))
    decay = build.Mul(node.input(2), build.Softplus(build.Add(a, node.input(1))))
    results = [recast(build, decay, T.FLOAT, elem_type)]
    if node.is_used(1):
        if not b:
            raise CannotConvert(node, "the output beta is used, but input b is missing", supported="both")
        results.append(recast(build, build.Sigmoid(b), T.FLOAT, elem_type))
    return [*results, ""][: len(node.outputs)]


defined("LinearAttention", linear_attention, opset=27, domain=MICROSOFT)
defined("LinearAttentionGate", gates_of_linear_attention, opset=13, domain=MICROSOFT)
