"""Places of elements in flattened data: numbers where sizes are known, computed where they are not."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from opshift.passes.analysis.scope import Scope
from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import NodeProto, TensorProto, normalize_domain
from opshift.passes.model.types import tensor_type
from opshift.passes.operators.shared.recipes import FLOAT8
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node

T = TensorProto
Size = int | str
"""A number that is known, or the value that holds it at run time as an int64 scalar."""

WRITTEN_OUT = 2**16  # places that are written out as one constant


def sizes(node: Node, name: str) -> list[Size]:
    """The size of each axis of a value; raises `CannotConvert` where not even the rank is known."""
    dims = node.scope.shape(name)
    if dims is None:
        raise node.unknown("rank", name)
    shape = "" if all(isinstance(dim, int) for dim in dims) else node.build.Shape(name)
    return [dim if isinstance(dim, int) else node.build.Gather(shape, axis) for axis, dim in enumerate(dims)]


def times(build: Builder, a: Size, b: Size) -> Size:
    """a * b"""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if 1 in (a, b):
        return b if a == 1 else a
    return str(build.Mul(a, b))


def minus(build: Builder, a: Size, b: Size) -> Size:
    """a - b"""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    if b == 0:
        return a
    return 0 if a == b else str(build.Sub(a, b))


def product(build: Builder, factors: list[Size]) -> Size:
    """The product of all, 1 of none."""
    total: Size = prod(factor for factor in factors if isinstance(factor, int))
    for factor in factors:
        if not isinstance(factor, int):
            total = times(build, total, factor)
    return total


def strides(build: Builder, dims: list[Size]) -> list[Size]:
    """How far apart two neighbours on each axis lie in the flattened data."""
    found: list[Size] = [1]
    for size in reversed(dims[1:]):
        found.append(times(build, found[-1], size))
    return found[::-1][: len(dims)]


def vector(build: Builder, numbers: list[Size]) -> str:
    """The numbers as one int64 vector."""
    if all(isinstance(number, int) for number in numbers):
        return build.constant(tensors.int64s([n for n in numbers if isinstance(n, int)]))
    parts = [build.constant(tensors.int64s([n])) if isinstance(n, int) else build.Reshape(n, [1]) for n in numbers]
    return parts[0] if len(parts) == 1 else str(build.Concat(*parts, axis=0))


def count(build: Builder, n: Size) -> str:
    """0, 1, ... n - 1"""
    if isinstance(n, int):
        return build.constant(tensors.int64s(range(n)))
    if build.opset >= 11:
        return str(build.Range(0, n, 1))
    if build.opset >= 9:
        ones = build.ConstantOfShape(build.Reshape(n, [1]), value=tensors.int64s([1]))
        return str(build.Squeeze(build.NonZero(ones), axes=[0]))
    zero = (build.constant(0, T.INT64), tensor_type(T.INT64, []))  # loops had to carry a value
    return build.loop(n, [zero], lambda inner, at, kept: [*kept, at])[1]


def where_true(build: Builder, mask: str) -> str:
    """The places at which a vector of bools is true, found one after the other: for opsets before NonZero."""
    import numpy as np

    chosen, dims = build.Cast(mask, to=T.DOUBLE), build.scope.shape(mask) or [None]
    if isinstance(size := dims[0], int):
        left = build.constant(np.arange(size, 0, -1), T.DOUBLE)
    else:
        size = build.Size(mask)
        left = build.Cast(build.Sub(size, count(build, size)), to=T.DOUBLE)
    left = build.Mul(chosen, left)  # how many elements there are from each chosen one on

    def next_one(inner: Builder, at: str, last: list[str]) -> list[str]:
        further = inner.Cast(inner.Less(left, *last), to=T.DOUBLE)
        return [found := inner.ReduceMax(inner.Mul(left, further), axes=[0], keepdims=0), found]

    found = build.Cast(build.ReduceSum(chosen, axes=[0], keepdims=0), to=T.INT64)
    start = (build.constant(float("inf"), T.DOUBLE), tensor_type(T.DOUBLE, []))
    left_there = build.loop(found, [start], next_one)[1]
    return str(build.Sub(size, build.Cast(left_there, to=T.INT64)))


def always(build: Builder, values: str, elem_type: int) -> str:
    """True for each of some floats, NaN included."""
    return str(build.Not(build.Less(values, build.constant(float("-inf"), elem_type))))


def first_greatest(build: Builder, values: str, left: str, numbers: str, axis: int, elem_type: int) -> str:
    """The number of the first of the greatest floats on an axis that are left, 0 where none is; the axis is kept.

    `numbers` tells how many elements there are from each one on, so that the first of equals has the greatest.
    """
    bound = build.Gather(build.constant([float("-inf"), float("inf")], elem_type), build.Cast(left, to=T.INT32))
    within = build.Min(values, bound)
    best = build.And(left, build.Not(build.Less(within, build.ReduceMax(within, axes=[axis], keepdims=1))))
    return str(build.ReduceMax(build.Mul(numbers, build.Cast(best, to=T.INT64)), axes=[axis], keepdims=1))


def places(build: Builder, dims: list[Size], steps: list[Size], start: Size = 0) -> Size:
    """start + the sum over all axes of count(dims[k]) * steps[k], each along its own axis."""
    import numpy as np

    if 0 in dims:  # there are no places, but each axis has its size, whatever the steps
        steps = [1] * len(dims)
    rank, total, terms = len(dims), np.array(start if isinstance(start, int) else 0), list[str]()
    for axis, (size, step) in enumerate(zip(dims, steps, strict=True)):
        if step == 0 or size == 1:
            continue
        aside = [-1] + [1] * (rank - 1 - axis)
        if isinstance(size, int) and isinstance(step, int):
            line = (np.arange(size) * step).reshape(aside)
            if np.broadcast(total, line).size <= WRITTEN_OUT:
                total = total + line
                continue
            terms.append(build.constant(line, T.INT64))
            continue
        along = build.Mul(count(build, size), step) if step != 1 else count(build, size)
        terms.append(build.Reshape(along, aside) if axis < rank - 1 else along)
    if isinstance(start, str):
        terms.append(start)
    if not terms and not total.shape:
        return int(total)
    if total.any() or not terms or total.ndim:
        terms.append(build.constant(total, T.INT64))
    result = terms[0]
    for term in terms[1:]:
        result = build.Add(result, term)
    return result


def rows(build: Builder, places: str, size: Size) -> str:
    """places // size, a size of 0 included, which has no places but is no divisor to runtimes either"""
    if isinstance(size, int):
        return str(build.Div(places, size)) if size > 1 else places
    return str(build.Div(places, build.Add(build.Sub(places, places), size)))


def plus(build: Builder, value: str, offset: Size) -> str:
    """value + offset"""
    return value if offset == 0 else str(build.Add(value, offset))


def nonnegative(node: Node, index: int, size: Any) -> str:
    """An input of indices as int64, negative ones counted from the end; `size` is a number or a value."""
    name, build = node.input(index), node.build
    held, as_int64 = node.scope.array(name), node.elem_type(index) == T.INT64
    known = size if isinstance(size, int) else node.scope.array(size)
    if held is not None and known is not None:
        check_within(node, held, known)
    if held is not None and not (held < 0).any():
        return name if as_int64 else build.constant(held, T.INT64)
    if held is not None and known is not None:
        return build.constant(held + (held < 0) * known, T.INT64)
    found = name if as_int64 else str(build.Cast(name, to=T.INT64))
    if never_negative(node.scope, name):
        return found
    return str(build.Where(build.Less(found, 0), build.Add(found, size), found))


def check_within(node: Node, indices: Any, sizes: Any) -> None:
    """Refuse indices that no data of these sizes have: counted from the front, they would name other elements."""
    outside = (indices < -sizes) | (indices >= sizes)
    if outside.any():
        raise CannotConvert(node, f"the index {indices[outside][0]} is out of range")


def check_ranks(node: Node) -> None:
    """Raise `CannotConvert` where indices of single elements are known not to have the rank of the data."""
    data, indices = (node.scope.rank(name) for name in node.inputs[:2])
    if data is not None and indices is not None and data != indices:
        raise CannotConvert(
            node, f"the indices have rank {indices}, and the data has rank {data}", supported="equal ranks"
        )


def merge_axes(node: Node, name: str, dims: list[Size], axes: int) -> str:
    """The data with the first `axes` axes made one."""
    build, rest = node.build, dims[axes:]
    if axes == 1:
        return name
    if is_never_empty(rest):
        return str(build.Reshape(name, vector(build, [-1, *rest])))
    if len(rest) == 1:
        return str(build.Flatten(name, axis=axes))
    return in_sizes(node, name, [product(build, dims[:axes]), *rest])


def is_never_empty(dims: Sequence[Size]) -> bool:
    """Whether all sizes are constant and none is 0."""
    return all(isinstance(dim, int) and dim for dim in dims)


def in_sizes(node: Node, name: str, dims: list[Size], elem_type: int = 0) -> str:
    """A value of some type, else that of the data, reshaped.

    A 0 would copy a size, and beside one nothing tells what a -1 is: what is empty is made anew below opset 14.
    """
    build, known = node.build, [dim if isinstance(dim, int) else -1 for dim in dims]
    if 0 not in known and known.count(-1) <= 1:
        return str(build.Reshape(name, known))
    shape = vector(build, dims)
    if build.opset >= 14:
        return str(build.Reshape(name, shape, allowzero=1))
    elem_type = elem_type or node.elem_type()
    return empty(build, shape, elem_type) if 0 in dims else reshape_or_empty(build, name, shape, elem_type)


# Operators that make no negative number, and those that make none of numbers that are not negative.
NONNEGATIVE = {"Shape", "Size", "NonZero", "ArgMax", "ArgMin"}


TRANSPARENT = {"Expand", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}


UNSIGNED = {T.BOOL, T.UINT8, T.UINT16}


def never_negative(scope: Scope, name: str) -> bool:
    """Whether the operators that make a value tell that no element of it is negative."""
    while name:
        node = scope.producer(name)
        if node is None or normalize_domain(node.domain):
            return False
        if node.op_type in NONNEGATIVE or (node.op_type == "Cast" and _cast_from_unsigned(scope, node)):
            return True
        if node.op_type not in TRANSPARENT:
            return False
        name = node.input[0]
    return False


def _cast_from_unsigned(scope: Scope, node: NodeProto) -> bool:
    to = next((a.i for a in node.attribute if a.name == "to"), 0)
    return to in (T.INT32, T.INT64) and scope.elem_type(node.input[0]) in UNSIGNED


# Types that ConstantOfShape does not make; an empty tensor of another type is cast to them.
CAST_FROM_BOOL: set[int] = {T.STRING, T.BFLOAT16, *FLOAT8}


def reshape_or_empty(build: Builder, x: str, shape: str, elem_type: int) -> str:
    """A value in a shape in which a 0 is an empty dimension."""
    zeros = build.ReduceSum(build.Cast(build.Equal(shape, 0), to=T.INT64), keepdims=0)
    result = build.If(
        build.Cast(zeros, to=T.BOOL),
        then_branch=build.branch(lambda inner: empty(inner, shape, elem_type), "empty", elem_type),
        else_branch=build.branch(lambda inner: str(inner.Reshape(x, shape)), "reshaped", elem_type),
    )
    return build.set_type(result, elem_type)


def empty(build: Builder, shape: str, elem_type: int) -> str:
    """What has no element, in a shape with a 0 in it."""
    if elem_type in CAST_FROM_BOOL:
        return str(build.Cast(empty(build, shape, T.BOOL), to=elem_type))
    return str(build.ConstantOfShape(shape, value=tensors.tensor([0], elem_type)))
