"""Attention, of integers as well, and MultiHeadAttention: Attention-23 with a mask that is added."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.attention import (
    addend,
    allowed_keys,
    attend,
    earlier_keys,
    elem_type_of_scores,
    scores_as_declared,
    with_bias,
)
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.operators.shared.shapes import regroup, share_along
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says


@says("Replaced Attention by MatMul, Split and ONNX's Attention with an additive mask")
def projected_attention(node: Node) -> list[str]:
    _refuse_flags(node, "do_rotary", "past_present_share_buffer")
    build, bias = node.build, node.input(2)
    projected = build.MatMul(node.input(0), node.input(1))
    projected = build.Add(projected, bias) if bias else projected
    return _of_projected(node, projected, mask=3, past=4, added=5)


@says("Replaced QAttention by MatMulInteger, Mul by the scales, and ONNX's Attention")
def attention_of_integers(node: Node) -> list[str]:
    _refuse_flags(node, "do_rotary", "past_present_share_buffer")
    build = node.build
    product = build.MatMulInteger(node.input(0), node.input(1), node.input(6), node.input(7))
    scale = build.Mul(node.input(3), node.input(4))
    projected = build.Add(build.Mul(build.Cast(product, to=node.elem_type(3)), scale), node.input(2))
    return _of_projected(node, projected, mask=5, past=8)


def _of_projected(node: Node, projected: str, *, mask: int, past: int, added: int | None = None) -> list[str]:
    """Attention of queries, keys and values side by side; the numbers are those of inputs."""
    node.close("sums in another order")
    build, cache = node.build, node.input(past)
    elem_type = elem_type_of_scores(node, build.scope.elem_type(projected), bool(node.input(mask)))
    sizes = node.attributes.get("qkv_hidden_sizes", [])
    if node.is_used(1) and len({*sizes[1:]}) > 1:
        raise CannotConvert(node, "keys and values have different sizes, so the output present cannot be one tensor")
    inputs = build.emit("Split", [projected, sizes or None], {"axis": 2, **_thirds(sizes)}, outputs=3)
    before = [build.Gather(cache, k, axis=0) for k in range(2)] if cache else []
    batch, queries = (share_along(node, node.input(0), axis, 1) for axis in range(2))
    earlier: Size = share_along(node, cache, 3, 1) if cache else 0
    keys = _sum(node, earlier, queries)
    allowed = allowed_keys(node, mask, batch, keys, starts=True) if node.input(mask) else ""
    causal = node.attributes.get("unidirectional", 0) == 1
    later = earlier_keys(build, queries, earlier, keys) if causal and (cache or allowed) else ""
    total = addend(node, allowed, later, "" if added is None else node.input(added), elem_type, queries)
    outputs = 3 if node.is_used(1) else 1
    y, *present = attend(node, inputs, total, before, elem_type, causal=causal and not later, outputs=outputs)
    return [y, build.Concat(*(build.Unsqueeze(of, [0]) for of in present), axis=0)] if present else [y]


def _thirds(sizes: list[int]) -> dict[str, int]:
    return {} if sizes else {"num_outputs": 3}


@says("Replaced MultiHeadAttention by Add of the bias and ONNX's Attention with an additive mask")
def attention_of_heads(node: Node) -> list[str]:
    mask, added, past_key, past_value = (node.input(i) for i in range(4, 8))
    if node.input(8) or node.input(9):
        raise CannotConvert(
            node,
            "past_present_share_buffer=1 makes past and present share a buffer",
            supported="past and present in tensors of their own",
        )
    if past_key and not all([*node.outputs, "", ""][1:3]):
        raise CannotConvert(
            node,
            "past is given without present: onnxruntime would ignore past, the definition would not",
            supported="past together with present",
        )
    node.close("sums in another order")
    elem_type = elem_type_of_scores(node, node.elem_type(), bool(mask))
    query, key, value = with_bias(node, _unpack(node), node.input(3))
    length = 2 if node.input(1) and node.rank(1) == 4 else 1
    queries, new = share_along(node, query, 1, 1), share_along(node, key, length, 1)
    past: Size = share_along(node, past_key, 2, 1) if past_key else 0
    keys = _sum(node, past, new)
    allowed = allowed_keys(node, 4, share_along(node, query, 0, 1), keys) if mask else ""
    causal, later = node.attributes.get("unidirectional", 0) == 1, ""
    if causal and not (queries == new and isinstance(new, int) and not past and not mask and not node.is_used(3)):
        later = _earlier_or_last(node, queries, past, keys)
    used = max((i for i in (1, 2, 3) if node.is_used(i)), default=0)
    total = addend(node, allowed, later, added, elem_type, queries)
    before = [past_key, past_value] if past_key else []
    values, causal = [query, key, value], causal and not later
    made = attend(node, values, total, before, elem_type, apart=length == 2, causal=causal, outputs=1 + used)
    return [*made[:3], *(scores_as_declared(node, scores) for scores in made[3:])]


def _earlier_or_last(node: Node, queries: Size, past: Size, keys: Size) -> str:
    """The causal mask of the kernel, which excludes no key from the last query, however many there are."""
    build, earlier = node.build, earlier_keys(node.build, queries, past, keys)
    last = build.Equal(flat_indices.count(build, queries), build.Sub(queries, 1))
    return str(build.Or(earlier, build.Unsqueeze(last, [1])))


def _unpack(node: Node) -> list[str]:
    """Query, key and value, which may be packed as (batch, length, heads, 2 or 3, size)."""
    query, key, value = (node.input(i) for i in range(3))
    if not key:
        if node.rank(0) != 5:
            raise CannotConvert(
                node, "the query has rank 3, and there is no key", supported="a query with key, or packed QKV of rank 5"
            )
        return _parts(node, query, 3)
    if node.rank(1) == 5:
        return [query, *_parts(node, key, 2)]
    if not value:
        raise CannotConvert(node, "a key without value", supported="key and value")
    return [query, key, value]


def _parts(node: Node, packed: str, parts: int) -> list[str]:
    build = node.build
    each = build.emit("Split", [packed], {"axis": 3, "num_outputs": parts}, outputs=parts)
    return [regroup(node, part, 2, [None]) for part in each]


def _refuse_flags(node: Node, *names: str) -> None:
    for name in names:
        if node.attributes.get(name, 0):
            raise CannotConvert(node, f"onnxruntime's CPU kernel does not support {name}=1", supported="0")


def _sum(node: Node, a: Size, b: Size) -> Size:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return b if a == 0 else str(node.build.Add(a, b))


defined("Attention", projected_attention, opset=23, domain=MICROSOFT)
defined("QAttention", attention_of_integers, opset=23, domain=MICROSOFT)
defined("MultiHeadAttention", attention_of_heads, opset=23, domain=MICROSOFT)
