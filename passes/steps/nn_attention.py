"""Attention: windows, padded caches and short masks, all of which an attention mask of full width can say.

A mask is boolean, or of the type of the query and added to the scores; -inf excludes a key.
"""

from __future__ import annotations

from math import inf

from opshift.passes.build import Builder
from opshift.passes.errors import CannotConvert
from opshift.passes.protos import TensorProto
from opshift.passes.registry import Pair, changed
from opshift.passes.scope import Dim
from opshift.passes.view import Node

T = TensorProto
QUERY, KEY, MASK, PAST_KEY, FILLED = 0, 1, 3, 4, 6  # inputs; FILLED is nonpad_kv_seqlen
FLOATS = (T.FLOAT, T.FLOAT16, T.BFLOAT16, T.DOUBLE)
Length = str | int  # known, or the name of a vector with one element


def expand_mask(node: Node) -> None:
    """A mask of width 1 stood for every key and would be padded: it is expanded to the number of keys."""
    if not node.input(MASK) or _is_full(node):
        return
    if isinstance(_width(node), int) and _width(node) != 1:
        return
    keys = _keys(node)
    node.set_input(MASK, node.build.Expand(node.input(MASK), [keys] if isinstance(keys, int) else keys))


def pad_mask(node: Node) -> None:
    """nonpad_kv_seqlen did not exist, nor a mask shorter than the keys: one mask of full width says both."""
    if node.input(MASK) and not _is_full(node):
        node.set_input(MASK, _padded(node))
    if not node.input(FILLED):
        return
    build, key = node.build, _range(node.build, _keys(node))
    allowed = build.Less(key, build.Reshape(node.input(FILLED), [-1, 1, 1, 1]))
    if node.attributes.pop("is_causal", 0):
        allowed = build.And(allowed, build.LessOrEqual(key, _positions(node)))
    node.set_input(MASK, _masked(node, allowed))
    node.set_input(FILLED, "")


def window_in_mask(node: Node) -> None:
    """left_window_size and right_window_size did not exist: the mask says which keys lie in the window."""
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
    bias = build.Where(allowed, build.constant(0.0, elem_type), build.constant(-inf, elem_type))
    return str(build.Add(mask, bias))


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
    new, past = _dim(node, KEY, -2), _dim(node, PAST_KEY, -2)
    keys = new if not node.input(PAST_KEY) else None
    if isinstance(new, int) and isinstance(past, int):
        keys = new + past
    return keys is not None and keys == _width(node)


def _width(node: Node) -> Dim:
    return _dim(node, MASK, -1)


def _dim(node: Node, index: int, axis: int) -> Dim:
    dims = node.scope.shape(node.input(index)) if node.input(index) else None
    return dims[axis] if dims is not None and len(dims) >= -axis else None


changed("Attention", 24, Pair(up=expand_mask, down=pad_mask))
changed("Attention", 25, Pair(down=window_in_mask))
