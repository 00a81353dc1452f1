"""LinearAttention before it existed: a Scan over the tokens."""

from __future__ import annotations

from math import sqrt

from opshift.passes.analysis.scope import Scope
from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import GraphProto, TensorProto
from opshift.passes.model.types import tensor_type
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto
RULES = ("linear", "gated", "delta", "gated_delta")


@says("The recurrence runs in a Scan over the tokens, in float32.")
def attention_token_by_token(node: Node) -> list[str]:
    node.close("the recurrence is computed token by token in float32")
    build, kind, rule = node.build, node.elem_type(), node.attributes.get("update_rule", "gated_delta")
    if rule not in RULES:
        raise CannotConvert(node, f"update_rule={rule!r}; {', '.join(RULES)} could be expressed")
    heads, queries = node.attributes["kv_num_heads"], node.attributes["q_num_heads"]
    gated, corrected = rule in ("gated", "gated_delta"), rule in ("delta", "gated_delta")
    for index, needed in ((4, gated), (5, corrected)):
        if needed != bool(node.input(index)):
            raise CannotConvert(node, f"update_rule={rule!r} {'without' if needed else 'with'} input {index}")
    wide = [recast(build, name, node.elem_type(i), T.FLOAT) if name else "" for i, name in enumerate(node.inputs)]
    wide += [""] * (6 - len(wide))
    tokens = [  # each with the shape that one token takes for the matrix products: [B, heads, rows, columns]
        (build.Mul(wide[0], _scale(node, queries)), [heads, queries // heads, -1]),
        (wide[1], [heads, -1, 1]),
        (wide[2], [heads, 1, -1]),
    ]
    tokens += [(wide[4], [heads, -1, 1])] if gated else []
    tokens += [(wide[5], [-1, 1, 1])] if corrected else []
    scanned = [build.Reshape(value, [0, 0, *shape]) for value, shape in tokens]
    start = wide[3] or _empty_state(node, scanned[1], scanned[2])
    attributes = {
        "body": _token(node, gated=gated, corrected=corrected),
        "num_scan_inputs": len(scanned),
        "scan_input_axes": [1] * len(scanned),
        "scan_output_axes": [1],
    }
    state, y = build.emit("Scan", [start, *scanned], attributes, outputs=2)
    build.typed(state, T.FLOAT, [None] * 4)
    y = build.Reshape(build.typed(y, T.FLOAT, [None] * 5), [0, 0, -1])
    kept = node.elem_type(3) if node.input(3) else kind
    return [recast(build, y, T.FLOAT, kind), recast(build, state, T.FLOAT, kept)][: len(node.outputs)]


def _token(node: Node, *, gated: bool, corrected: bool) -> GraphProto:
    """state = exp(g) * state + k * (v, or beta * (v - k' * state));  y = q * state"""
    names = ["state", "query", "key", "value", *(["decay"] if gated else []), *(["beta"] if corrected else [])]
    fresh = {name: node.scope.context.names.fresh(f"LinearAttention/{name}") for name in names}
    graph = GraphProto(name="token")
    for name in names:
        graph.input.add(name=fresh[name]).type.CopyFrom(tensor_type(T.FLOAT, [None] * 4))
    scope = Scope(graph, node.scope.context, node.build.opset, node.scope)
    build = Builder(scope, node.build.opset, node.proto)
    state, value = fresh["state"], fresh["value"]
    if gated:
        state = build.Mul(build.Exp(fresh["decay"]), state)
    if corrected:
        found = build.MatMul(build.Transpose(fresh["key"], perm=[0, 1, 3, 2]), state)
        value = build.Mul(fresh["beta"], build.Sub(value, found))
    state = build.Add(state, build.Mul(fresh["key"], value))
    y = build.MatMul(fresh["query"], state)
    graph.node.extend(build.nodes)
    for name in (state, y):
        graph.output.add(name=name).type.CopyFrom(tensor_type(T.FLOAT, [None] * 4))
    return graph


def _scale(node: Node, queries: int) -> str:
    """scale, or 1 / sqrt(size of a head)."""
    build, given = node.build, node.attributes.get("scale", 0.0)
    if given:
        return str(build.constant(given, T.FLOAT))
    dims = node.scope.shape(node.input(0))
    if dims and isinstance(dims[-1], int):
        return str(build.constant(1 / sqrt(max(dims[-1] // queries, 1)), T.FLOAT))
    size = build.Div(build.Gather(build.Shape(node.input(0)), 2), queries)
    return str(build.Reciprocal(build.Sqrt(build.Cast(size, to=T.FLOAT))))


def _empty_state(node: Node, keys: str, values: str) -> str:
    """Zeros of [B, heads, rows of a key, columns of a value]; both are [B, T, heads, rows, columns]."""
    build = node.build
    shape = build.Concat(build.Gather(build.Shape(keys), [0, 2, 3]), build.Gather(build.Shape(values), [4]), axis=0)
    return str(build.ConstantOfShape(shape))


changed("LinearAttention", 27, Pair(down=attention_token_by_token))
