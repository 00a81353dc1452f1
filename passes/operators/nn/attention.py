"""Attention: windows, padded caches and short masks, all of which an attention mask of full width can say
(`shared/attention_masks.py`), and the products and the Softmax that the operator stands for.
"""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import Dim
from opshift.passes.operators.shared import attention_masks as masks
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.attention_masks import (
    FILLED,
    FLOATS,
    KEY,
    MASK,
    PAST_KEY,
    PAST_VALUE,
    QUERY,
    VALUE,
)
from opshift.passes.operators.shared.shapes import reshape_behind, share_along
from opshift.passes.rewrite.builder import Builder, Operand
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto
SCORES = 3  # an output, qk_matmul_output
HEADS = ("q_num_heads", "kv_num_heads", "kv_num_heads")  # of QUERY, KEY and VALUE


@says("Expanded an attention mask of width 1 to the number of keys")
def expand_mask(node: Node) -> None:
    width = masks.dim_of(node, MASK, -1) if node.input(MASK) else 0
    if masks.is_full(node) or (isinstance(width, int) and width != 1):
        return
    keys = masks.key_count(node)
    node.set_input(MASK, node.build.Expand(node.input(MASK), [keys] if isinstance(keys, int) else keys))


@says("Merged nonpad_kv_seqlen and a short mask into one mask of full width")
def pad_mask(node: Node) -> None:
    _say_all_in_mask(node)


def _say_all_in_mask(node: Node) -> None:
    if node.input(MASK) and not masks.is_full(node):
        node.set_input(MASK, masks.widen_mask(node))
    if not node.input(FILLED):
        return
    build, key = node.build, masks.count_up(node.build, masks.key_count(node))
    filled, causal = build.Reshape(node.input(FILLED), [-1, 1, 1, 1]), node.attributes.pop("is_causal", 0)
    if not causal and not node.input(MASK) and (queries := masks.length_of(node, QUERY)) != 1:
        filled = build.Expand(filled, flat_indices.vector(build, [queries, 1]))  # as onnxruntime asks
    allowed = build.Less(key, filled)
    if causal:
        allowed = build.And(allowed, build.LessOrEqual(key, masks.positions(node)))
    node.set_input(MASK, masks.combine_mask(node, allowed))
    node.set_input(FILLED, "")


@says("Dropped the numbers of heads for inputs of rank 4; turned nonpad_kv_seqlen into a mask where there is a cache")
def heads_of_axes(node: Node) -> None:
    ranks = (node.scope.shape(node.input(index)) for index in (QUERY, KEY, VALUE))
    told = [node.attributes.get(name, 0) for name in HEADS]  # rank 3 needs all of them
    if not all(told) or any(dims is not None and len(dims) == 4 for dims in ranks):
        for name in {*HEADS} & {*node.attributes}:
            del node.attributes[name]
    caches = [*node.outputs, ""][1:SCORES]
    if any(caches) and not all(caches):
        named = [name or node.scope.context.names.fresh(f"{node.op_type}/present") for name in caches]
        node.outputs = [node.outputs[0], *named, *node.outputs[SCORES:]]
    if node.input(FILLED) and any((node.input(PAST_KEY), *caches)):
        _say_all_in_mask(node)


@says("Turned left_window_size and right_window_size of Attention into a mask")
def window_in_mask(node: Node) -> None:
    left, right = (node.attributes.pop(f"{side}_window_size", -1) for side in ("left", "right"))
    if left < 0 and right < 0:
        return
    build, query, key = node.build, masks.positions(node), masks.count_up(node.build, masks.key_count(node))
    bounds = [build.LessOrEqual(build.Sub(query, left), key)] if left >= 0 else []
    bounds += [build.LessOrEqual(key, build.Add(query, right))] if right >= 0 else []
    allowed = bounds[0] if len(bounds) == 1 else build.And(*bounds)
    if node.input(MASK) and not masks.is_full(node):
        allowed = build.Slice(allowed, [0], build.Shape(node.input(MASK), start=-1), [-1])
    node.set_input(MASK, masks.combine_mask(node, allowed))


@says("Replaced Attention by Softmax(scale * Q * K + mask) * V")
def products_and_softmax(node: Node) -> list[str]:
    mode = node.attributes.get("qk_matmul_output_mode", 0)
    if mode not in range(4):
        raise CannotConvert(node, f"qk_matmul_output_mode={mode}", supported="0, 1, 2 and 3")
    node.close("attention is computed from its definition")
    build, elem_type = node.build, node.elem_type(QUERY)
    turned = not node.input(PAST_KEY) and not node.is_used(1)  # nobody sees the key but the product
    if _are_alike(node):
        query, key, value = _all_heads_apart(node)
    else:
        query, value = _heads_apart(node, QUERY), _heads_apart(node, VALUE)
        key = _heads_apart(node, KEY, [0, 1, 3, 2] if turned else None)
    if node.input(PAST_KEY):
        key = build.Concat(node.input(PAST_KEY), key, axis=2)
        value = build.Concat(node.input(PAST_VALUE), value, axis=2)
    joined, split = _groups(node, query, key)
    scale, root = _scales(node, query, elem_type)
    rows = _reshape(build, _scale(build, query, scale), joined)
    columns = _scale(build, key if turned else build.Transpose(key, perm=[0, 1, 3, 2]), root)
    scores = _reshape(build, build.MatMul(rows, columns), split)
    capped = _cap(node, scores, elem_type)
    mask = masks.mask_of(node, elem_type)
    biased = mask.apply(build, capped, elem_type)
    shares = mask.zero_without_keys(build, biased, _softmax(node, biased, elem_type), elem_type)
    y = _reshape(build, _product(node, _reshape(build, shares, joined), value, elem_type), split)
    y = _heads_together(node, y) if node.rank(QUERY) == 3 else y
    saved = (scores, capped, biased, shares)[mode]
    if len(node.outputs) > SCORES:  # of which inference claims that there are 0 keys if it cannot count them
        batch, queries = masks.dim_of(node, QUERY, 0), masks.dim_of(node, QUERY, -2)
        build.set_type(saved, elem_type, [batch, _heads(node, QUERY), queries, masks.known_keys(node)])
    return [y, key, value, saved][: len(node.outputs)]


def _heads_apart(node: Node, index: int, order: list[int] | None = None) -> str:
    """(batch, heads, length, size), from (batch, length, heads * size) where the rank is 3; then in `order`."""
    rank, build, name = node.rank(QUERY), node.build, node.input(index)
    if rank not in (3, 4):
        raise CannotConvert(node, f"Attention gets inputs of rank {rank}", supported="rank 3 or 4")
    if rank == 4:
        return str(build.Transpose(name, perm=order)) if order else name
    heads = node.attributes.get(HEADS[index], 0)
    if not heads:
        raise CannotConvert(
            node,
            f"the inputs have rank 3, and the attribute {HEADS[index]} is missing",
            supported="inputs of rank 4, or that attribute",
        )
    size = share_along(node, name, 2, heads)
    if masks.dim_of(node, index, -2) == 1:
        return reshape_behind(node, name, 1, [heads, size, 1] if order else [heads, 1, size])
    axes = [0, 2, 1, 3]
    apart = reshape_behind(node, name, 2, [heads, size])
    return str(build.Transpose(apart, perm=[axes[axis] for axis in order] if order else axes))


def _are_alike(node: Node) -> bool:
    """Whether query, key and value are taken apart as one, which copies them once more.

    Only the calls with most nodes, with a mask and a past, are worth it: what follows a past is short.
    """
    if not node.input(MASK) or not node.input(PAST_KEY) or node.rank(QUERY) != 3 or masks.dim_of(node, QUERY, -2) == 1:
        return False
    shapes = {
        (_heads(node, index), masks.dim_of(node, index, -2), masks.dim_of(node, index, -1))
        for index in (QUERY, KEY, VALUE)
    }
    return len(shapes) == 1 and None not in shapes.pop() and node.elem_type(QUERY) == node.elem_type(VALUE)


def _all_heads_apart(node: Node) -> list[str]:
    """The same for query, key and value at once, whose heads lie one behind the other."""
    build, together = node.build, node.build.Concat(*node.inputs[:MASK], axis=2)
    heads = node.attributes[HEADS[QUERY]]
    apart = reshape_behind(node, together, 2, [3 * heads, share_along(node, node.input(QUERY), 2, heads)])
    turned = build.Transpose(apart, perm=[0, 2, 1, 3])
    return list(build.emit("Split", [turned], {"axis": 1, "num_outputs": 3}, outputs=3))


def _heads_together(node: Node, y: str) -> str:
    build, heads = node.build, node.attributes
    each = share_along(node, node.input(VALUE), 2, heads[HEADS[VALUE]])
    size = flat_indices.times(build, each, heads[HEADS[QUERY]])
    if masks.dim_of(node, QUERY, -2) == 1:
        return reshape_behind(node, y, 1, [1, size])
    return reshape_behind(node, build.Transpose(y, perm=[0, 2, 1, 3]), 2, [size])


def _heads(node: Node, index: int) -> Dim:
    return node.attributes.get(HEADS[index]) if node.rank(QUERY) == 3 else masks.dim_of(node, index, 1)


def _groups(node: Node, query: str, key: str) -> tuple[Operand, Operand]:
    """Shapes that make heads of the query which share a head of the key its rows, and that take them apart again."""
    build, heads, groups, rows = node.build, _heads(node, QUERY), _heads(node, KEY), masks.dim_of(node, QUERY, -2)
    if heads == groups is not None:
        return None, None
    length: Operand = [rows] if isinstance(rows, int) else build.Shape(query, start=2, end=3)
    if not isinstance(heads, int) or not isinstance(groups, int):
        many, few = (build.Shape(of, start=1, end=2) for of in (query, key))
        shared = build.Mul(build.Div(many, few), length)
        return build.Concat([0], few, shared, [0], axis=0), build.Concat([0], many, length, [0], axis=0)
    if not groups or heads % groups:
        raise CannotConvert(
            node,
            f"there are {heads} query heads and {groups} key heads",
            supported="a number of key heads that divides that of query heads",
        )
    if isinstance(rows, int):
        return [0, groups, rows * heads // groups, 0], [0, heads, rows, 0]
    shared = build.Mul(length, heads // groups)  # where it is 0, a 0 is copied from the same place
    return build.Concat([0, groups], shared, [0], axis=0), build.Concat([0, heads], length, [0], axis=0)


def _reshape(build: Builder, name: str, shape: Operand) -> str:
    return name if shape is None else str(build.Reshape(name, shape))


def _scale(build: Builder, name: str, root: str) -> str:
    return str(build.Mul(name, root)) if root else name


def _scales(node: Node, query: str, elem_type: int) -> tuple[str, str]:
    """What the query and the key are multiplied by; "" for 1. A large scale is shared, so that no factor overflows."""
    build, size = node.build, masks.dim_of(node, QUERY, -1)
    scale = node.attributes.get("scale")
    if scale is None and isinstance(size, int):
        heads = node.attributes[HEADS[QUERY]] if node.rank(QUERY) == 3 else 1
        scale = (size // heads) ** -0.5 if size else 1.0
    if scale is None:
        measured = build.Cast(build.Shape(query, start=3), to=elem_type)
        return str(build.Reciprocal(build.Sqrt(measured))), ""
    if scale < 0:
        raise CannotConvert(node, f"scale={scale:g} is negative", supported="a positive scale")
    if scale <= 1:
        return build.constant(scale, elem_type) if scale != 1 else "", ""
    root = build.constant(scale**0.5, elem_type)
    return root, root


def _cap(node: Node, scores: str, elem_type: int) -> str:
    softcap, build = node.attributes.get("softcap", 0.0), node.build
    if softcap <= 0:
        return scores
    cap = build.constant(softcap, elem_type)
    return str(build.Mul(build.Tanh(build.Div(scores, cap)), cap))


def _softmax(node: Node, scores: str, elem_type: int) -> str:
    precision, build = node.attributes.get("softmax_precision", elem_type), node.build
    if precision not in FLOATS:
        raise CannotConvert(node, f"softmax_precision={precision}", supported="a floating-point type")
    if precision == elem_type:
        return str(build.Softmax(scores, axis=-1))
    return str(build.Cast(build.Softmax(build.Cast(scores, to=precision), axis=-1), to=elem_type))


def _product(node: Node, shares: str, value: str, elem_type: int) -> str:
    """Values of another type than the query meet the shares in a type that holds both."""
    build, other = node.build, node.elem_type(VALUE)
    if other == elem_type:
        return str(build.MatMul(shares, value))
    wide = T.DOUBLE if T.DOUBLE in (elem_type, other) else T.FLOAT
    factors = (build.Cast(name, to=wide) if of != wide else name for name, of in ((shares, elem_type), (value, other)))
    product = build.MatMul(*factors)
    return str(build.Cast(product, to=elem_type) if elem_type != wide else product)


changed("Attention", 23, Pair(down=products_and_softmax))
changed("Attention", 24, Pair(up=expand_mask, down=pad_mask))
changed("Attention", 25, Pair(up=heads_of_axes, down=window_in_mask))
