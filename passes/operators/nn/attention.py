"""Attention: windows, padded caches and short masks, all of which an attention mask of full width can say, and
the products and the Softmax that the operator stands for.

A mask is boolean, or of the type of the query and added to the scores; -inf excludes a key. A query whose keys
are all excluded gets zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import Dim
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.shapes import reshaped_behind, share_along
from opshift.passes.rewrite.builder import Builder, Operand
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto
QUERY, KEY, VALUE, MASK, PAST_KEY, PAST_VALUE, FILLED = range(7)  # inputs; FILLED is nonpad_kv_seqlen
SCORES = 3  # an output, qk_matmul_output
HEADS = ("q_num_heads", "kv_num_heads", "kv_num_heads")  # of QUERY, KEY and VALUE
FLOATS = (T.FLOAT, T.FLOAT16, T.BFLOAT16, T.DOUBLE)
WORTH_HOLDING = 2**18  # elements of a mask that is computed now and kept in the file
Length = str | int  # known, or the name of a vector with one element
Allowed = str | np.ndarray[Any, Any]  # which keys each query may attend: a boolean value, or one known now


@says("A mask of width 1 stood for every key and would be padded: it is expanded to the number of keys.")
def expand_mask(node: Node) -> None:
    width = _dim(node, MASK, -1) if node.input(MASK) else 0
    if _is_full(node) or (isinstance(width, int) and width != 1):
        return
    keys = _keys(node)
    node.set_input(MASK, node.build.Expand(node.input(MASK), [keys] if isinstance(keys, int) else keys))


@says("nonpad_kv_seqlen did not exist, nor a mask shorter than the keys: one mask of full width says both.")
def pad_mask(node: Node) -> None:
    _say_all_in_mask(node)


def _say_all_in_mask(node: Node) -> None:
    if node.input(MASK) and not _is_full(node):
        node.set_input(MASK, _padded(node))
    if not node.input(FILLED):
        return
    build, key = node.build, _range(node.build, _keys(node))
    filled, causal = build.Reshape(node.input(FILLED), [-1, 1, 1, 1]), node.attributes.pop("is_causal", 0)
    if not causal and not node.input(MASK) and (queries := _length(node, QUERY)) != 1:
        filled = build.Expand(filled, flat_indices.vector(build, [queries, 1]))  # as onnxruntime asks
    allowed = build.Less(key, filled)
    if causal:
        allowed = build.And(allowed, build.LessOrEqual(key, _positions(node)))
    node.set_input(MASK, _masked(node, allowed))
    node.set_input(FILLED, "")


@says(
    "Inputs of rank 4 have an axis of heads; the numbers of heads that attributes told beside it go. "
    "Of the caches both are yielded or none, and beside them the mask says what nonpad_kv_seqlen did."
)
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


@says("left_window_size and right_window_size did not exist: the mask says which keys lie in the window.")
def window_in_mask(node: Node) -> None:
    left, right = (node.attributes.pop(f"{side}_window_size", -1) for side in ("left", "right"))
    if left < 0 and right < 0:
        return
    build, query, key = node.build, _positions(node), _range(node.build, _keys(node))
    bounds = [build.LessOrEqual(build.Sub(query, left), key)] if left >= 0 else []
    bounds += [build.LessOrEqual(key, build.Add(query, right))] if right >= 0 else []
    allowed = bounds[0] if len(bounds) == 1 else build.And(*bounds)
    if node.input(MASK) and not _is_full(node):
        allowed = build.Slice(allowed, [0], build.Shape(node.input(MASK), start=-1), [-1])
    node.set_input(MASK, _masked(node, allowed))


@says("The operator becomes Softmax(Q * K + mask) * V for each head, with Q and K scaled.")
def products_and_softmax(node: Node) -> list[str]:
    mode = node.attributes.get("qk_matmul_output_mode", 0)
    if mode not in range(4):
        raise CannotConvert(node, f"qk_matmul_output_mode={mode}; 0, 1, 2 and 3 could be expressed")
    node.close("attention is computed from its definition")
    build, kind = node.build, node.elem_type(QUERY)
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
    scale, root = _scales(node, query, kind)
    rows = _reshaped(build, _scaled(build, query, scale), joined)
    columns = _scaled(build, key if turned else build.Transpose(key, perm=[0, 1, 3, 2]), root)
    scores = _reshaped(build, build.MatMul(rows, columns), split)
    capped = _capped(node, scores, kind)
    mask = _mask(node, kind)
    biased = mask.applied(build, capped, kind)
    shares = mask.zeroed(build, biased, _softmax(node, biased, kind), kind)
    y = _reshaped(build, _product(node, _reshaped(build, shares, joined), value, kind), split)
    y = _heads_together(node, y) if node.rank(QUERY) == 3 else y
    saved = (scores, capped, biased, shares)[mode]
    if len(node.outputs) > SCORES:  # of which inference claims that there are 0 keys if it cannot count them
        build.typed(saved, kind, [_dim(node, QUERY, 0), _heads(node, QUERY), _dim(node, QUERY, -2), _known_keys(node)])
    return [y, key, value, saved][: len(node.outputs)]


def _heads_apart(node: Node, index: int, order: list[int] | None = None) -> str:
    """(batch, heads, length, size), from (batch, length, heads * size) where the rank is 3; then in `order`."""
    rank, build, name = node.rank(QUERY), node.build, node.input(index)
    if rank not in (3, 4):
        raise CannotConvert(node, f"inputs of rank {rank}; 3 and 4 could be expressed")
    if rank == 4:
        return str(build.Transpose(name, perm=order)) if order else name
    heads = node.attributes.get(HEADS[index], 0)
    if not heads:
        raise CannotConvert(node, f"inputs of rank 3 without {HEADS[index]}; with it could be expressed")
    size = share_along(node, name, 2, heads)
    if _dim(node, index, -2) == 1:
        return reshaped_behind(node, name, 1, [heads, size, 1] if order else [heads, 1, size])
    axes = [0, 2, 1, 3]
    apart = reshaped_behind(node, name, 2, [heads, size])
    return str(build.Transpose(apart, perm=[axes[axis] for axis in order] if order else axes))


def _are_alike(node: Node) -> bool:
    """Whether query, key and value are taken apart as one, which copies them once more.

    Only the calls with most nodes, with a mask and a past, are worth it: what follows a past is short.
    """
    if not node.input(MASK) or not node.input(PAST_KEY) or node.rank(QUERY) != 3 or _dim(node, QUERY, -2) == 1:
        return False
    shapes = {(_heads(node, index), _dim(node, index, -2), _dim(node, index, -1)) for index in (QUERY, KEY, VALUE)}
    return len(shapes) == 1 and None not in shapes.pop() and node.elem_type(QUERY) == node.elem_type(VALUE)


def _all_heads_apart(node: Node) -> list[str]:
    """The same for query, key and value at once, whose heads lie one behind the other."""
    build, together = node.build, node.build.Concat(*node.inputs[:MASK], axis=2)
    heads = node.attributes[HEADS[QUERY]]
    apart = reshaped_behind(node, together, 2, [3 * heads, share_along(node, node.input(QUERY), 2, heads)])
    turned = build.Transpose(apart, perm=[0, 2, 1, 3])
    return list(build.emit("Split", [turned], {"axis": 1, "num_outputs": 3}, outputs=3))


def _heads_together(node: Node, y: str) -> str:
    build, heads = node.build, node.attributes
    each = share_along(node, node.input(VALUE), 2, heads[HEADS[VALUE]])
    size = flat_indices.times(build, each, heads[HEADS[QUERY]])
    if _dim(node, QUERY, -2) == 1:
        return reshaped_behind(node, y, 1, [1, size])
    return reshaped_behind(node, build.Transpose(y, perm=[0, 2, 1, 3]), 2, [size])


def _heads(node: Node, index: int) -> Dim:
    return node.attributes.get(HEADS[index]) if node.rank(QUERY) == 3 else _dim(node, index, 1)


def _groups(node: Node, query: str, key: str) -> tuple[Operand, Operand]:
    """Shapes that make heads of the query which share a head of the key its rows, and that take them apart again."""
    build, heads, groups, rows = node.build, _heads(node, QUERY), _heads(node, KEY), _dim(node, QUERY, -2)
    if heads == groups is not None:
        return None, None
    length: Operand = [rows] if isinstance(rows, int) else build.Shape(query, start=2, end=3)
    if not isinstance(heads, int) or not isinstance(groups, int):
        many, few = (build.Shape(of, start=1, end=2) for of in (query, key))
        shared = build.Mul(build.Div(many, few), length)
        return build.Concat([0], few, shared, [0], axis=0), build.Concat([0], many, length, [0], axis=0)
    if not groups or heads % groups:
        raise CannotConvert(node, f"{heads} heads cannot share {groups}; a divisor of them could be expressed")
    if isinstance(rows, int):
        return [0, groups, rows * heads // groups, 0], [0, heads, rows, 0]
    shared = build.Mul(length, heads // groups)  # where it is 0, a 0 is copied from the same place
    return build.Concat([0, groups], shared, [0], axis=0), build.Concat([0, heads], length, [0], axis=0)


def _reshaped(build: Builder, name: str, shape: Operand) -> str:
    return name if shape is None else str(build.Reshape(name, shape))


def _scaled(build: Builder, name: str, root: str) -> str:
    return str(build.Mul(name, root)) if root else name


def _scales(node: Node, query: str, kind: int) -> tuple[str, str]:
    """What the query and the key are multiplied by; "" for 1. A large scale is shared, so that no factor overflows."""
    build, size = node.build, _dim(node, QUERY, -1)
    scale = node.attributes.get("scale")
    if scale is None and isinstance(size, int):
        heads = node.attributes[HEADS[QUERY]] if node.rank(QUERY) == 3 else 1
        scale = (size // heads) ** -0.5 if size else 1.0
    if scale is None:
        measured = build.Cast(build.Shape(query, start=3), to=kind)
        return str(build.Reciprocal(build.Sqrt(measured))), ""
    if scale < 0:
        raise CannotConvert(node, f"scale={scale:g} has no square root; a positive one could be expressed")
    if scale <= 1:
        return build.constant(scale, kind) if scale != 1 else "", ""
    root = build.constant(scale**0.5, kind)
    return root, root


def _capped(node: Node, scores: str, kind: int) -> str:
    softcap, build = node.attributes.get("softcap", 0.0), node.build
    if softcap <= 0:
        return scores
    cap = build.constant(softcap, kind)
    return str(build.Mul(build.Tanh(build.Div(scores, cap)), cap))


def _softmax(node: Node, scores: str, kind: int) -> str:
    precision, build = node.attributes.get("softmax_precision", kind), node.build
    if precision not in FLOATS:
        raise CannotConvert(node, f"softmax_precision={precision}; a floating-point type could be expressed")
    if precision == kind:
        return str(build.Softmax(scores, axis=-1))
    return str(build.Cast(build.Softmax(build.Cast(scores, to=precision), axis=-1), to=kind))


def _product(node: Node, shares: str, value: str, kind: int) -> str:
    """Values of another type than the query meet the shares in a type that holds both."""
    build, other = node.build, node.elem_type(VALUE)
    if other == kind:
        return str(build.MatMul(shares, value))
    wide = T.DOUBLE if T.DOUBLE in (kind, other) else T.FLOAT
    factors = (build.Cast(name, to=wide) if of != wide else name for name, of in ((shares, kind), (value, other)))
    product = build.MatMul(*factors)
    return str(build.Cast(product, to=kind) if kind != wide else product)


@dataclass(frozen=True)
class _Mask:
    """What excludes keys: a bias that is added to the scores, or a boolean value of those that are allowed.

    `some` is a boolean constant that says which may be attended, where it is known that a query may attend none.
    """

    bias: tuple[str, ...] = ()
    allowed: str = ""
    may_exclude_all: bool = False
    some: str = ""

    def applied(self, build: Builder, scores: str, kind: int) -> str:
        if self.allowed:
            return str(build.Where(self.allowed, scores, build.constant(-inf, kind)))
        if len(self.bias) > 1:  # the scores come last: they are large, and sums are taken from left to right
            return str(build.Sum(*self.bias, scores))
        return str(build.Add(scores, *self.bias)) if self.bias else scores

    def zeroed(self, build: Builder, biased: str, shares: str, kind: int) -> str:
        """Shares of a query without keys are 0, not NaN."""
        if not self.may_exclude_all:
            return shares
        zero = build.constant(0.0, kind)
        if self.allowed or self.some:
            return str(build.Where(self.allowed or self.some, shares, zero))
        return str(build.Where(build.Equal(biased, build.constant(-inf, kind)), zero, shares))


def _mask(node: Node, kind: int) -> _Mask:
    build, mask, causal = node.build, node.input(MASK), _causal(node)
    if not mask:
        return _Mask(() if causal is None else (_excluding(build, causal, kind),))
    elem_type, held = _mask_type(node), node.scope.array(mask)
    if node.scope.shape(mask) == []:
        mask = build.Reshape(mask, [1])
    if held is not None and held.size <= WORTH_HOLDING and not isinstance(causal, str):
        known = np.where(held, 0.0, -inf) if elem_type == T.BOOL else held.astype(np.float64)
        known = np.atleast_1d(known if causal is None else known + np.where(causal, 0.0, -inf))
        bias = mask if elem_type == kind and causal is None else build.constant(known, kind)
        excludes_all = bool(np.isneginf(known.max(axis=-1, initial=-inf)).any())
        some = build.constant(~np.isneginf(known), T.BOOL) if excludes_all else ""
        return _Mask((bias,), may_exclude_all=excludes_all, some=some)
    if elem_type == T.BOOL:
        allowed = mask if causal is None else str(build.And(mask, _named(build, causal)))
        return _Mask(allowed=allowed, may_exclude_all=True)
    bias = mask if elem_type == kind else str(build.Cast(mask, to=kind))
    return _Mask((bias,) if causal is None else (bias, _excluding(build, causal, kind)), may_exclude_all=True)


def _causal(node: Node) -> Allowed | None:
    """Which keys lie no later than each query, where only those count: computed now if that is little."""
    if not node.attributes.get("is_causal", 0):
        return None
    build, queries, keys = node.build, _dim(node, QUERY, -2), _known_keys(node)
    if isinstance(queries, int) and isinstance(keys, int) and queries * keys <= WORTH_HOLDING:
        return np.tri(queries, keys, keys - int(_dim(node, KEY, -2) or 0), dtype=bool)
    return str(build.LessOrEqual(_range(build, _keys(node)), _positions(node)))


def _excluding(build: Builder, allowed: Allowed, elem_type: int) -> str:
    """The bias that excludes all other keys."""
    if not isinstance(allowed, str):
        return build.constant(np.where(allowed, 0.0, -inf), elem_type)
    return str(build.Where(allowed, build.constant(0.0, elem_type), build.constant(-inf, elem_type)))


def _named(build: Builder, allowed: Allowed) -> str:
    return allowed if isinstance(allowed, str) else build.constant(allowed, T.BOOL)


def _positions(node: Node) -> str:
    """The position of each query among the keys, as a column: its index plus what precedes the queries."""
    build, queries = node.build, _length(node, QUERY)
    column = str(build.Unsqueeze(_range(build, queries), [1]))
    if node.input(PAST_KEY):
        return str(build.Add(column, _length(node, PAST_KEY)))
    if not node.input(FILLED):
        return column
    return str(build.Add(column, build.Sub(build.Reshape(node.input(FILLED), [-1, 1, 1, 1]), queries)))


def _masked(node: Node, allowed: str) -> str:
    """The mask with the keys that are not allowed excluded as well."""
    build, mask = node.build, node.input(MASK)
    if not mask:
        return allowed
    elem_type = _mask_type(node)
    if elem_type == T.BOOL:
        return str(build.And(mask, allowed))
    return str(build.Add(mask, _excluding(build, allowed, elem_type)))


def _padded(node: Node) -> str:
    """The mask as wide as there are keys: those that it does not speak of are excluded."""
    build, mask, elem_type = node.build, node.input(MASK), _mask_type(node)
    missing = build.Sub(_keys(node), build.Shape(mask, start=-1))
    excluded = build.constant(False if elem_type == T.BOOL else -inf, elem_type)
    return str(build.Pad(mask, build.Concat([0], missing, axis=0), excluded, [-1]))


def _mask_type(node: Node) -> int:
    elem_type = node.elem_type(MASK)
    if elem_type != T.BOOL and elem_type not in FLOATS:
        raise CannotConvert(node, "the mask holds integers; bool or the type of the query could be expressed")
    return elem_type


def _keys(node: Node) -> Length:
    """How many keys there are, those of the past included."""
    new = _length(node, KEY)
    if not node.input(PAST_KEY):
        return new
    past = _length(node, PAST_KEY)
    return past + new if isinstance(past, int) and isinstance(new, int) else str(node.build.Add(past, new))


def _length(node: Node, index: int) -> Length:
    """The length of a sequence, which is the last but one axis in every layout."""
    dim = _dim(node, index, -2)
    return dim if isinstance(dim, int) else str(node.build.Shape(node.input(index), start=-2, end=-1))


def _range(build: Builder, length: Length) -> str:
    return str(build.Range(0, length if isinstance(length, int) else build.Squeeze(length), 1))


def _is_full(node: Node) -> bool:
    """Whether the mask is known to be as wide as there are keys."""
    keys = _known_keys(node)
    return keys is not None and keys == _dim(node, MASK, -1)


def _known_keys(node: Node) -> Dim:
    new, past = _dim(node, KEY, -2), _dim(node, PAST_KEY, -2)
    if not node.input(PAST_KEY):
        return new
    return new + past if isinstance(new, int) and isinstance(past, int) else None


def _dim(node: Node, index: int, axis: int) -> Dim:
    dims = node.scope.shape(node.input(index)) if node.input(index) else None
    return dims[axis] if dims is not None and len(dims) >= -axis else None


changed("Attention", 23, Pair(down=products_and_softmax))
changed("Attention", 24, Pair(up=expand_mask, down=pad_mask))
changed("Attention", 25, Pair(up=heads_of_axes, down=window_in_mask))
