"""Unique before it existed: elements are sorted, and each one that differs from the one before is a new value."""

from __future__ import annotations

from math import prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import tensor_type
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.carriers import HELD_BY_FLOATS
from opshift.passes.operators.shared.flat_indices import Size
from opshift.passes.operators.shared.recipes import BFLOAT16, carrier_casts
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto
END = 2**31 - 1

FLOATS = (T.FLOAT16, T.FLOAT, T.DOUBLE)
HELD_BY_DOUBLE = (T.BOOL, *HELD_BY_FLOATS)
WRITTEN_OUT = 3  # columns that are sorted by without a loop


@says("Replaced Unique by sorting and comparing neighbours")
def sorted_and_compared(node: Node) -> list[str]:
    """first[g] is where value g is found first, group[p] which value comes at place p of the sorted ones. Values in the
    order of their first places are found by marking these.
    """
    build, x = node.build, node.input(0)
    rows, count, width = _rows(node)
    keys, width = _keys(node, rows, count, width)
    order = _order(build, keys, width, count)
    new = _differs_from_the_one_before(build, build.Gather(keys, order, axis=0), count)
    starts = build.Squeeze(build.NonZero(new), axes=[0])
    first = build.Gather(order, starts)
    wants_inverse = len(node.outputs) > 2 and bool(node.outputs[2])
    group = _running_count(build, new, count) if wants_inverse else ""
    following = build.Concat(build.Slice(starts, [1], [END], [0]), flat_indices.vector(build, [count]), axis=0)
    counts = build.Sub(following, starts)
    if not node.attributes.get("sorted", 1):
        marked = build.Scatter(build.Sub(order, order), first, counts, axis=0)
        if wants_inverse:
            here = build.Cast(build.Cast(marked, to=T.BOOL), to=T.INT64)
            group = build.Gather(build.Gather(_running_count(build, here, count), first), group)
        first = build.Squeeze(build.NonZero(marked), axes=[0])
        counts = build.Gather(marked, first)
    flat = "axis" not in node.attributes
    values = build.Gather(build.Reshape(x, [-1]) if flat else x, first, axis=node.attributes.get("axis", 0))
    inverse = build.Scatter(order, order, group, axis=0) if wants_inverse else ""
    return [values, first, inverse, counts][: len(node.outputs)]


def _rows(node: Node) -> tuple[str, Size, Size]:
    """What is compared as the rows of a matrix, how many there are, and of how many elements."""
    build, x = node.build, node.input(0)
    if "axis" not in node.attributes:
        dims = node.scope.shape(x) or [None]
        count = prod(n for n in dims if isinstance(n, int)) if all(isinstance(n, int) for n in dims) else build.Size(x)
        return build.Reshape(x, [-1, 1]), count, 1
    sizes = flat_indices.sizes(node, x)
    axis = node.attributes["axis"] % len(sizes)
    others = [k for k in range(len(sizes)) if k != axis]
    count, width = sizes[axis], flat_indices.product(build, [sizes[k] for k in others])
    turned = build.Transpose(x, perm=[axis, *others]) if axis else x
    shape = flat_indices.vector(build, [count, width])
    if len(others) > 1 and width == 0:  # which would copy the second size
        return flat_indices.empty(build, shape, node.elem_type()), count, width
    if len(others) > 1 and not isinstance(width, int):
        return flat_indices.reshape_or_empty(build, turned, shape, node.elem_type()), count, width
    return build.Reshape(turned, shape), count, width


def _keys(node: Node, rows: str, count: Size, width: Size) -> tuple[str, Size]:
    """Rows of doubles that are ordered as the rows are, and how long they are."""
    build, elem_type = node.build, node.elem_type()
    if elem_type in HELD_BY_DOUBLE:
        return build.Cast(rows, to=T.DOUBLE), width
    if elem_type in FLOATS:
        value = rows if elem_type == T.DOUBLE else build.Cast(rows, to=T.DOUBLE)
        zero, one = (build.constant(number, T.DOUBLE) for number in (0, 1))
        number = build.Or(build.Less(value, one), build.Greater(value, zero))
        parts = [build.Cast(build.Not(number), to=T.DOUBLE), build.Where(number, value, zero)]
    elif elem_type in (T.INT64, T.UINT64):
        bits = build.constant(2**32, elem_type)
        high = build.Div(rows, bits)  # rounded towards zero; the rest has the sign of the whole
        parts = [build.Cast(half, to=T.DOUBLE) for half in (high, build.Sub(rows, build.Mul(high, bits)))]
    else:
        raise CannotConvert(node, "no operator of opset 10 sorts strings or complex numbers")
    width = flat_indices.times(build, width, 2)
    side_by_side = build.Concat(*(build.Unsqueeze(part, axes=[2]) for part in parts), axis=2)
    return build.Reshape(side_by_side, flat_indices.vector(build, [count, width])), width


def _order(build: Builder, keys: str, width: Size, count: Size) -> str:
    """The places of the rows in their order: sorted by the last column first, equals staying as they are."""
    length = flat_indices.vector(build, [count])

    def by(build: Builder, column: Size, order: str) -> str:
        values = build.Gather(build.Gather(keys, column, axis=1), order)
        return str(build.Gather(order, build.emit("TopK", [build.Neg(values), length], {"axis": 0}, outputs=2)[1]))

    order = flat_indices.count(build, count)
    if count == 0:
        return order
    if isinstance(width, int) and width <= WRITTEN_OUT:
        for column in reversed(range(width)):
            order = by(build, column, order)
        return order
    last = flat_indices.minus(build, width, 1)
    return build.repeat(width, order, lambda inner, at, order: by(inner, inner.Sub(last, at), order), T.INT64)


def _differs_from_the_one_before(build: Builder, rows: str, count: Size) -> str:
    """1 or more for each row that does, and for the first one; else 0."""
    before, after = build.Slice(rows, [0], [-1], [0]), build.Slice(rows, [1], [END], [0])
    other = build.Cast(build.Or(build.Less(before, after), build.Greater(before, after)), to=T.INT64)
    new = build.Concat([1], build.ReduceSum(other, axes=[1], keepdims=0), axis=0)
    new = build.Cast(build.Cast(new, to=T.BOOL), to=T.INT64)
    return str(
        new if isinstance(count, int) and count else build.Slice(new, [0], flat_indices.vector(build, [count]), [0])
    )


def _running_count(build: Builder, ones: str, count: Size) -> str:
    """For each element how many ones there are up to it, less one."""

    def add(inner: Builder, at: str, so_far: list[str]) -> list[str]:
        return [total := inner.Add(*so_far, inner.Gather(ones, at)), total]

    start = (build.constant(tensors.int64s([-1], [])), tensor_type(T.INT64, []))
    return build.loop(count, [start], add)[1]


changed("Unique", 11, Pair(down=sorted_and_compared))
changed("Unique", 28, Pair(down=carrier_casts(BFLOAT16)))
