"""What attention operators of onnxruntime have in common.

To their scores they add what its CPU kernels add: a finite mask_filter_value where a mask excludes a key, so that a
query without keys attends to all of them alike, and the least number where the causal mask does.
"""

from __future__ import annotations

from math import inf

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.operators.shared.shapes import regroup, share_along
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node

T = TensorProto
WITH_MASK = 2  # of what Attention yields of the scores
LEAST: dict[int, float] = {T.FLOAT: -3.4028234663852886e38, T.FLOAT16: -65504.0, T.BFLOAT16: -3.3895313892515355e38}
FINITE: dict[int, float] = {T.FLOAT: -3.4028232635611926e38, T.FLOAT16: -65472.0, T.BFLOAT16: -3.376256e38}
"""What comes next to those: onnxruntime's kernel of Attention takes the least number for -inf."""


def allowed_keys(node: Node, index: int, batch: Size, keys: Size, *, starts: bool = False) -> str:
    """Which keys the integer mask at an input allows, to be broadcast to (batch, heads, queries, keys).

    One dimension holds the lengths of the sequences, and then, if there are as many again, where they start.
    """
    build, mask, rank = node.build, node.input(index), node.rank(index)
    if rank in (2, 3):
        return str(build.Unsqueeze(build.Greater(mask, build.constant(0, T.INT32)), [1] if rank == 3 else [1, 2]))
    if rank != 1:
        raise CannotConvert(node, f"{node.op_type} gets a mask of rank {rank}", supported="rank 1, 2 or 3")
    key, mask = flat_indices.count(build, keys), build.Cast(mask, to=T.INT64)
    allowed = build.Less(key, _column(build, build.Slice(mask, [0], flat_indices.vector(build, [batch]))))
    if not starts or (known := _has_starts(node, index, batch)) is False:
        return str(build.Unsqueeze(allowed, [1, 2]))
    twice = flat_indices.times(build, batch, 2)
    bounds = [flat_indices.vector(build, [size]) for size in (batch, twice)]
    begun = _column(build, build.Slice(mask if known else build.Concat(mask, mask, axis=0), *bounds))
    if known is None:
        begun = build.Where(build.Equal(build.Size(mask), _as_value(build, twice)), begun, 0)
    return str(build.Unsqueeze(build.And(allowed, build.GreaterOrEqual(key, begun)), [1, 2]))


def _has_starts(node: Node, index: int, batch: Size) -> bool | None:
    (length,) = node.scope.shape(node.input(index)) or [None]
    return length == 2 * batch if isinstance(length, int) and isinstance(batch, int) else None


def _column(build: Builder, vector: str) -> str:
    return str(build.Unsqueeze(vector, [1]))


def _as_value(build: Builder, size: Size) -> str:
    return build.constant(size, T.INT64) if isinstance(size, int) else size


def earlier_keys(build: Builder, queries: Size, past: Size, keys: Size) -> str:
    """Which keys lie no later than each query; those of the past lie before all of them."""
    query = _column(build, flat_indices.count(build, queries))
    query = flat_indices.plus(build, query, past)
    return str(build.LessOrEqual(flat_indices.count(build, keys), query))


def elem_type_of_scores(node: Node, elem_type: int, masked: bool) -> int:
    """The type to compute in: that of the data, or float32 where it has no such number as what a mask adds."""
    if masked and elem_type == T.FLOAT16 and _filter(node) < LEAST[elem_type]:
        return T.FLOAT
    return elem_type


def _filter(node: Node) -> float:
    return float(node.attributes.get("mask_filter_value", -10000.0))


def addend(node: Node, allowed: str, causal: str, bias: str, elem_type: int, queries: Size) -> str:
    """The sum of what is added to the scores, in their type; "" for nothing.

    It has a row for each query, as onnxruntime's kernel of Attention asks.
    """
    build, mask = node.build, ""
    if allowed:
        filtered, nothing = (
            build.constant(max(_filter(node), FINITE[elem_type]), elem_type),
            build.constant(0.0, elem_type),
        )
        if not causal and not bias and queries != 1:
            nothing = build.Expand(nothing, flat_indices.vector(build, [queries, 1]))
        mask = build.Where(allowed, nothing, filtered)
    if causal:  # no number of 16 bits is as little as the kernel's, which computes in float32
        least = build.constant(FINITE[elem_type] if elem_type == T.FLOAT else -inf, elem_type)
        mask = build.Where(causal, mask or build.constant(0.0, elem_type), least)
    if not bias:
        return mask
    bias = recast(build, bias, build.scope.elem_type(bias), elem_type)
    return str(build.Add(bias, mask)) if mask else bias


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


def attend(
    node: Node,
    values: list[str],
    mask: str,
    past: list[str],
    elem_type: int,
    *,
    apart: bool = False,
    causal: bool = False,
    outputs: int = 1,
) -> list[str]:
    """Attention-23 of query, key and value, computed in a type; where those two are (batch, heads, length, size), which
    is `apart`, the query is made so."""
    build, heads, of = node.build, node.attributes["num_heads"], node.build.scope.elem_type(values[0])
    query, key, value, *past = (recast(build, name, of, elem_type) for name in (*values, *past))
    scale = node.attributes.get("scale", 0.0)
    if apart:
        query = build.Transpose(regroup(node, query, 2, [heads, None]), perm=[0, 2, 1, 3])
    if scale < 0:  # of which Attention takes the root
        query = build.Neg(query)
    attributes = {
        "q_num_heads": None if apart else heads,
        "kv_num_heads": None if apart else heads,
        "scale": abs(scale) or None,
        "is_causal": 1 if causal else None,
        "qk_matmul_output_mode": WITH_MASK if outputs > 3 else None,
    }
    asked = max(outputs, 3) if past else outputs  # onnxruntime runs no past without present
    made = build.emit("Attention", [query, key, value, mask, *past], attributes, outputs=asked)
    y, *rest = [recast(build, name, elem_type, of) for name in ([made] if isinstance(made, str) else made)[:outputs]]
    if apart:
        y = regroup(node, build.Transpose(y, perm=[0, 2, 1, 3]), 2, [None])
    return [y, *rest]


def scores_as_declared(node: Node, scores: str) -> str:
    """The scores in their type, of which no input tells."""
    elem_type = node.elem_type()
    return recast(node.build, scores, elem_type, node.scope.elem_type(node.outputs[3]) or elem_type)
