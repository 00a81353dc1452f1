"""Attention and MultiHeadAttention: Attention-23 with a mask that is added."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.microsoft.masks import addend, allowed_keys, earlier_keys, kind_of_scores
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.operators.shared.shapes import share_along
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

WITH_MASK = 2  # of what Attention yields of the scores


@says("The input times the weights, split into query, key and value for Attention-23, with an additive mask.")
def projected_attention(node: Node) -> list[str]:
    x, weights, bias, mask, past, added = (node.input(i) for i in range(6))
    _refuse_flags(node, "do_rotary", "past_present_share_buffer")
    node.close("attention rounds in its own order")
    build, kind = node.build, kind_of_scores(node, bool(mask))
    projected = build.MatMul(x, weights)
    projected = build.Add(projected, bias) if bias else projected
    sizes = node.attributes.get("qkv_hidden_sizes", [])
    if node.is_used(1) and len({*sizes[1:]}) > 1:
        raise CannotConvert(node, "present of keys and values of different sizes, which one tensor does not hold")
    inputs = build.emit("Split", [projected, sizes or None], {"axis": 2, **_thirds(sizes)}, outputs=3)
    before = [build.Gather(past, k, axis=0) for k in range(2)] if past else []
    batch, queries = (share_along(node, x, axis, 1) for axis in range(2))
    earlier: Size = share_along(node, past, 3, 1) if past else 0
    keys = _sum(node, earlier, queries)
    allowed = allowed_keys(node, 3, batch, keys, starts=True) if mask else ""
    causal = bool(node.attributes.get("unidirectional", 0))
    later = earlier_keys(build, queries, earlier, keys) if causal and (past or mask) else ""
    total = addend(node, allowed, later, added, kind)
    y, *present = attended(
        node, inputs, total, before, kind, causal=causal and not later, outputs=3 if node.is_used(1) else 1
    )
    return [y, build.Concat(*(build.Unsqueeze(of, [0]) for of in present), axis=0)] if present else [y]


def _thirds(sizes: list[int]) -> dict[str, int]:
    return {} if sizes else {"num_outputs": 3}


@says("Attention-23 of what the bias is added to, with an additive mask.")
def attention_of_heads(node: Node) -> list[str]:
    mask, added, past_key, past_value = (node.input(i) for i in range(4, 8))
    if node.input(8) or node.input(9):
        raise CannotConvert(node, "a cache in a shared buffer; past and present of their own could be expressed")
    node.close("attention rounds in its own order")
    kind = kind_of_scores(node, bool(mask))
    query, key, value = with_bias(node, _unpacked(node), node.input(3))
    length = 2 if node.input(1) and node.rank(1) == 4 else 1
    queries, new = share_along(node, query, 1, 1), share_along(node, key, length, 1)
    past: Size = share_along(node, past_key, 2, 1) if past_key else 0
    keys = _sum(node, past, new)
    allowed = allowed_keys(node, 4, share_along(node, query, 0, 1), keys) if mask else ""
    causal, later = bool(node.attributes.get("unidirectional", 0)), ""
    if causal and not (queries == new and isinstance(new, int) and not past and not mask and not node.is_used(3)):
        later = _earlier_or_last(node, queries, past, keys)
    used = max((i for i in (1, 2, 3) if node.is_used(i)), default=0)
    total = addend(node, allowed, later, added, kind)
    before = [past_key, past_value] if past_key else []
    made = attended(node, [query, key, value], total, before, kind, causal=causal and not later, outputs=1 + used)
    return [*made[:3], *(scores_as_declared(node, scores) for scores in made[3:])]


def scores_as_declared(node: Node, scores: str) -> str:
    """The scores in their type, of which no input tells."""
    kind = node.elem_type()
    return recast(node.build, scores, kind, node.scope.elem_type(node.outputs[3]) or kind)


def _earlier_or_last(node: Node, queries: Size, past: Size, keys: Size) -> str:
    """The causal mask of the kernel, which excludes no key from the last query, however many there are."""
    build, earlier = node.build, earlier_keys(node.build, queries, past, keys)
    last = build.Equal(flat_indices.count(build, queries), build.Sub(queries, 1))
    return str(build.Or(earlier, build.Unsqueeze(last, [1])))


def _unpacked(node: Node) -> list[str]:
    """Query, key and value, which may be packed as (batch, length, heads, 2 or 3, size)."""
    query, key, value = (node.input(i) for i in range(3))
    if not key:
        if node.rank(0) != 5:
            raise CannotConvert(
                node, "a query of rank 3 without key; with key, or packed with rank 5, could be expressed"
            )
        return _parts(node, query, 3)
    if node.rank(1) == 5:
        return [query, *_parts(node, key, 2)]
    if not value:
        raise CannotConvert(node, "a key without value; with value could be expressed")
    return [query, key, value]


def _parts(node: Node, packed: str, parts: int) -> list[str]:
    build = node.build
    each = build.emit("Split", [packed], {"axis": 3, "num_outputs": parts}, outputs=parts)
    return [str(build.Reshape(part, [0, 0, -1])) for part in each]


def with_bias(node: Node, values: list[str], bias: str) -> list[str]:
    """Each with its part of the bias; key and value of rank 4 are a cache, in which it is."""
    build = node.build
    if not bias:
        return values
    cached = bool(node.input(1)) and node.rank(1) == 4
    size = share_along(node, values[0], 2, 1)
    bounds: list[Size | None] = [0, size, flat_indices.times(build, size, 2), None]
    made: list[str] = []
    for value, start, end in zip(values, bounds, bounds[1:], strict=False):
        if cached and made:
            made.append(value)
            continue
        ends = [2**63 - 1] if end is None else flat_indices.vector(build, [end])
        part = build.Slice(bias, flat_indices.vector(build, [start or 0]), ends)
        made.append(build.Add(value, part))
    return made


def attended(
    node: Node, values: list[str], mask: str, past: list[str], kind: int, *, causal: bool = False, outputs: int = 1
) -> list[str]:
    """Attention-23 of query, key and value, computed in a type; where those two are (batch, heads, length, size), the
    query is made so."""
    build, heads, of = node.build, node.attributes["num_heads"], node.elem_type()
    query, key, value, *past = (recast(build, name, of, kind) for name in (*values, *past))
    scale = node.attributes.get("scale", 0.0)
    apart = len(build.scope.shape(key) or []) == 4
    if apart:
        query = build.Transpose(build.Reshape(query, [0, 0, heads, -1]), perm=[0, 2, 1, 3])
    if scale < 0:  # of which Attention takes the root
        query = build.Neg(query)
    attributes = {
        "q_num_heads": None if apart else heads,
        "kv_num_heads": None if apart else heads,
        "scale": abs(scale) or None,
        "is_causal": 1 if causal else None,
        "qk_matmul_output_mode": WITH_MASK if outputs > 3 else None,
    }
    made = build.emit("Attention", [query, key, value, mask, *past], attributes, outputs=outputs)
    y, *rest = [recast(build, name, kind, of) for name in ([made] if isinstance(made, str) else made)]
    if apart:
        y = build.Reshape(build.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])
    return [y, *rest]


def _refuse_flags(node: Node, *names: str) -> None:
    for name in names:
        if node.attributes.get(name, 0):
            raise CannotConvert(node, f"{name}=1, which the CPU kernel does not run; 0 could be expressed")


def _sum(node: Node, a: Size, b: Size) -> Size:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return b if a == 0 else str(node.build.Add(a, b))


defined("Attention", projected_attention, opset=23, domain=MICROSOFT)
defined("MultiHeadAttention", attention_of_heads, opset=23, domain=MICROSOFT)
