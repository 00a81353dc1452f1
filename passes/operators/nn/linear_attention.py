"""LinearAttention before it existed: a loop over the tokens."""

from __future__ import annotations

from math import inf, sqrt
from types import EllipsisType

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import tensor_type
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.operators.shared.shapes import reshape_behind, share_along
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto
RULES = ("linear", "gated", "delta", "gated_delta")


@says("Replaced LinearAttention by a Loop over the tokens in float32")
def attention_token_by_token(node: Node) -> list[str]:
    node.close("the recurrence is computed token by token in float32")
    build, elem_type, rule = node.build, node.elem_type(), node.attributes.get("update_rule", "gated_delta")
    if rule not in RULES:
        raise CannotConvert(node, f"update_rule={rule!r}", supported=f"{', '.join(RULES)}")
    heads, queries = node.attributes["kv_num_heads"], node.attributes["q_num_heads"]
    gated, corrected = rule in ("gated", "gated_delta"), rule in ("delta", "gated_delta")
    for index, needed in ((4, gated), (5, corrected)):
        if needed != bool(node.input(index)):
            raise CannotConvert(
                node,
                f"update_rule={rule!r} {'needs' if needed else 'does not take'} input {index}, and it is "
                f"{'missing' if needed else 'given'}",
            )
    wide = [recast(build, name, node.elem_type(i), T.FLOAT) if name else "" for i, name in enumerate(node.inputs)]
    wide += [""] * (6 - len(wide))
    query, key, value, decay, beta = (  # each with the shape that one token takes: [B, heads, rows, columns]
        _apart(node, wide[0], [heads, queries // heads, ...], queries),
        _apart(node, wide[1], [heads, ..., 1], heads),
        _apart(node, wide[2], [heads, 1, ...], heads),
        _apart(node, wide[4], [heads, ..., 1], heads) if gated else "",
        _apart(node, wide[5], [..., 1, 1], 1) if corrected else "",
    )

    def token(inner: Builder, at: str, states: list[str]) -> list[str]:
        """state = exp(g) * state + k * (v, or beta * (v - k' * state));  y = q * state, to be scaled"""
        (state,), (q, k, v, g, b) = (
            states,
            (name and inner.Gather(name, at, axis=1) for name in (query, key, value, decay, beta)),
        )
        if gated:
            state = inner.Mul(inner.Exp(g), state)
        if corrected:
            v = inner.Mul(b, inner.Sub(v, inner.MatMul(inner.Transpose(k, perm=[0, 1, 3, 2]), state)))
        state = inner.Add(state, inner.Mul(k, v))
        return [state, inner.set_type(inner.MatMul(q, state), T.FLOAT, [None] * 4)]

    start = wide[3] or _empty_state(node, key, value)
    length = share_along(node, node.input(0), 1, 1)
    state, y = build.loop(length, [(start, tensor_type(T.FLOAT, [None] * 4))], token)
    y = build.Mul(build.set_type(y, T.FLOAT, [None] * 5), _scale(node, queries))
    y = build.Transpose(y, perm=[1, 0, 2, 3, 4])
    width = flat_indices.times(build, share_along(node, node.input(2), 2, heads), queries)
    if isinstance(length, int) and length:
        y = reshape_behind(node, y, 2, [width])
    else:  # of no rounds, nothing but their number is known
        y = build.Reshape(
            y, build.Concat(build.Shape(node.input(0), end=2), flat_indices.vector(build, [width]), axis=0), allowzero=1
        )
    kept = node.elem_type(3) if node.input(3) else elem_type
    return [recast(build, y, T.FLOAT, elem_type), recast(build, state, T.FLOAT, kept)][: len(node.outputs)]


def _apart(node: Node, name: str, axes: list[int | EllipsisType], parts: int) -> str:
    """The last of three axes taken apart; what is left of it after `parts` stands in the place of the dots."""
    rest = share_along(node, name, 2, parts)
    return reshape_behind(node, name, 2, [size if isinstance(size, int) else rest for size in axes])


def _scale(node: Node, queries: int) -> str:
    """scale, or 1 / sqrt(size of a head)."""
    build, given = node.build, node.attributes.get("scale", 0.0)
    if given:
        return str(build.constant(given, T.FLOAT))
    dims = node.scope.shape(node.input(0))
    if dims and isinstance(dims[-1], int):
        size = dims[-1] // queries
        return str(build.constant(1 / sqrt(size) if size else inf, T.FLOAT))  # no feature: y = inf * 0
    features = build.Div(build.Gather(build.Shape(node.input(0)), 2), queries)
    return str(build.Reciprocal(build.Sqrt(build.Cast(features, to=T.FLOAT))))


def _empty_state(node: Node, keys: str, values: str) -> str:
    """Zeros of [B, heads, rows of a key, columns of a value]; both are [B, T, heads, rows, columns]."""
    build = node.build
    shape = build.Concat(build.Gather(build.Shape(keys), [0, 2, 3]), build.Gather(build.Shape(values), [4]), axis=0)
    return str(build.ConstantOfShape(shape))


changed("LinearAttention", 27, Pair(down=attention_token_by_token))
