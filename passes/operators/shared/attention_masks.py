"""The masks of Attention: which keys each query may attend, by a mask, by its place, and by how full a cache is.

A mask is boolean, or of the type of the query and added to the scores; -inf excludes a key. A query whose keys
are all excluded gets zeros.
"""

from __future__ import annotations

from math import inf
from typing import Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import Dim
from opshift.passes.records import dataclass
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node

T = TensorProto
QUERY, KEY, VALUE, MASK, PAST_KEY, PAST_VALUE, FILLED = range(7)  # inputs; FILLED is nonpad_kv_seqlen
FLOATS = (T.FLOAT, T.FLOAT16, T.BFLOAT16, T.DOUBLE)
WORTH_HOLDING = 2**18  # elements of a mask that is computed now and kept in the file
Length = str | int  # known, or the name of a vector with one element
Allowed = str | np.ndarray[Any, Any]  # which keys each query may attend: a boolean value, or one known now


@dataclass(frozen=True)
class _Mask:
    """What excludes keys: a bias that is added to the scores, or a boolean value of those that are allowed.

    `some` is a boolean constant that says which may be attended, where it is known that a query may attend none.
    """

    bias: tuple[str, ...] = ()
    allowed: str = ""
    may_exclude_all: bool = False
    some: str = ""

    def apply(self, build: Builder, scores: str, elem_type: int) -> str:
        if self.allowed:
            return str(build.Where(self.allowed, scores, build.constant(-inf, elem_type)))
        if len(self.bias) > 1:  # the scores come last: they are large, and sums are taken from left to right
            return str(build.Sum(*self.bias, scores))
        return str(build.Add(scores, *self.bias)) if self.bias else scores

    def zero_without_keys(self, build: Builder, biased: str, shares: str, elem_type: int) -> str:
        """Shares of a query without keys are 0, not NaN."""
        if not self.may_exclude_all:
            return shares
        zero = build.constant(0.0, elem_type)
        if self.allowed or self.some:
            return str(build.Where(self.allowed or self.some, shares, zero))
        return str(build.Where(build.Equal(biased, build.constant(-inf, elem_type)), zero, shares))


def mask_of(node: Node, data_type: int) -> _Mask:
    build, mask, causal = node.build, node.input(MASK), _causal(node)
    if not mask:
        return _Mask(() if causal is None else (_excluding(build, causal, data_type),))
    elem_type, held = _mask_type(node), node.scope.array(mask)
    if node.scope.shape(mask) == []:
        mask = build.Reshape(mask, [1])
    if held is not None and held.size <= WORTH_HOLDING and not isinstance(causal, str):
        known = np.where(held, 0.0, -inf) if elem_type == T.BOOL else held.astype(np.float64)
        with np.errstate(invalid="ignore"):  # infinity where none is to be: NaN, as the sum is
            known = np.atleast_1d(known if causal is None else known + np.where(causal, 0.0, -inf))
        bias = mask if elem_type == data_type and causal is None else build.constant(known, data_type)
        excludes_all = bool(np.isneginf(known.max(axis=-1, initial=-inf)).any())
        some = build.constant(~np.isneginf(known), T.BOOL) if excludes_all else ""
        return _Mask((bias,), may_exclude_all=excludes_all, some=some)
    if elem_type == T.BOOL:
        allowed = mask if causal is None else str(build.And(mask, _as_value(build, causal)))
        return _Mask(allowed=allowed, may_exclude_all=True)
    bias = mask if elem_type == data_type else str(build.Cast(mask, to=data_type))
    return _Mask((bias,) if causal is None else (bias, _excluding(build, causal, data_type)), may_exclude_all=True)


def _causal(node: Node) -> Allowed | None:
    """Which keys lie no later than each query, where only those count: computed now if that is little."""
    if not node.attributes.get("is_causal", 0):
        return None
    build, queries, keys = node.build, dim_of(node, QUERY, -2), known_keys(node)
    if isinstance(queries, int) and isinstance(keys, int) and queries * keys <= WORTH_HOLDING:
        return np.tri(queries, keys, keys - int(dim_of(node, KEY, -2) or 0), dtype=bool)
    return str(build.LessOrEqual(count_up(build, key_count(node)), positions(node)))


def _excluding(build: Builder, allowed: Allowed, elem_type: int) -> str:
    """The bias that excludes all other keys."""
    if not isinstance(allowed, str):
        return build.constant(np.where(allowed, 0.0, -inf), elem_type)
    return str(build.Where(allowed, build.constant(0.0, elem_type), build.constant(-inf, elem_type)))


def _as_value(build: Builder, allowed: Allowed) -> str:
    return allowed if isinstance(allowed, str) else build.constant(allowed, T.BOOL)


def positions(node: Node) -> str:
    """The position of each query among the keys, as a column: its index plus what precedes the queries."""
    build, queries = node.build, length_of(node, QUERY)
    column = str(build.Unsqueeze(count_up(build, queries), [1]))
    if node.input(PAST_KEY):
        return str(build.Add(column, length_of(node, PAST_KEY)))
    if not node.input(FILLED):
        return column
    return str(build.Add(column, build.Sub(build.Reshape(node.input(FILLED), [-1, 1, 1, 1]), queries)))


def combine_mask(node: Node, allowed: str) -> str:
    """The mask with the keys that are not allowed excluded as well."""
    build, mask = node.build, node.input(MASK)
    if not mask:
        return allowed
    elem_type = _mask_type(node)
    if elem_type == T.BOOL:
        return str(build.And(mask, allowed))
    return str(build.Add(mask, _excluding(build, allowed, elem_type)))


def widen_mask(node: Node) -> str:
    """The mask as wide as there are keys: those that it does not speak of are excluded."""
    build, mask, elem_type = node.build, node.input(MASK), _mask_type(node)
    missing = build.Sub(key_count(node), build.Shape(mask, start=-1))
    excluded = build.constant(False if elem_type == T.BOOL else -inf, elem_type)
    return str(build.Pad(mask, build.Concat([0], missing, axis=0), excluded, [-1]))


def _mask_type(node: Node) -> int:
    elem_type = node.elem_type(MASK)
    if elem_type != T.BOOL and elem_type not in FLOATS:
        raise CannotConvert(node, "the mask holds integers", supported="bool, or the type of the query")
    return elem_type


def key_count(node: Node) -> Length:
    """How many keys there are, those of the past included."""
    new = length_of(node, KEY)
    if not node.input(PAST_KEY):
        return new
    past = length_of(node, PAST_KEY)
    return past + new if isinstance(past, int) and isinstance(new, int) else str(node.build.Add(past, new))


def length_of(node: Node, index: int) -> Length:
    """The length of a sequence, which is the last but one axis in every layout."""
    dim = dim_of(node, index, -2)
    return dim if isinstance(dim, int) else str(node.build.Shape(node.input(index), start=-2, end=-1))


def count_up(build: Builder, length: Length) -> str:
    return str(build.Range(0, length if isinstance(length, int) else build.Squeeze(length), 1))


def is_full(node: Node) -> bool:
    """Whether the mask is known to be as wide as there are keys."""
    keys = known_keys(node)
    return keys is not None and keys == dim_of(node, MASK, -1)


def known_keys(node: Node) -> Dim:
    new, past = dim_of(node, KEY, -2), dim_of(node, PAST_KEY, -2)
    if not node.input(PAST_KEY):
        return new
    return new + past if isinstance(new, int) and isinstance(past, int) else None


def dim_of(node: Node, index: int, axis: int) -> Dim:
    dims = node.scope.shape(node.input(index)) if node.input(index) else None
    return dims[axis] if dims is not None and len(dims) >= -axis else None
