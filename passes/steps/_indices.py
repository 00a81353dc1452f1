"""Places of elements in flattened data: numbers where sizes are known, computed where they are not."""

from __future__ import annotations

from math import prod
from typing import Any

from opshift.passes import constants
from opshift.passes.build import Builder
from opshift.passes.errors import CannotConvert
from opshift.passes.protos import GraphProto, NodeProto, TensorProto
from opshift.passes.scope import tensor_type
from opshift.passes.steps.tensor_gather import never_negative
from opshift.passes.view import Node

T = TensorProto
Size = int | str
"""A number that is known, or the value that holds it at run time as an int64 scalar."""

WRITTEN_OUT = 2**16  # places that are written out as one constant


def sizes(node: Node, name: str) -> list[Size]:
    """The size of each axis of a value; raises `CannotConvert` where not even the rank is known."""
    dims = node.scope.shape(name)
    if dims is None:
        raise CannotConvert(node, f'the rank of "{name}" is unknown; a known rank could be expressed')
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
        return build.constant(constants.int64s([n for n in numbers if isinstance(n, int)]))
    parts = [build.constant(constants.int64s([n])) if isinstance(n, int) else build.Reshape(n, [1]) for n in numbers]
    return parts[0] if len(parts) == 1 else str(build.Concat(*parts, axis=0))


def count(build: Builder, n: Size) -> str:
    """0, 1, ... n - 1"""
    if isinstance(n, int):
        return build.constant(constants.int64s(range(n)))
    if build.opset >= 11:
        return str(build.Range(0, n, 1))
    if build.opset >= 9:
        ones = build.ConstantOfShape(build.Reshape(n, [1]), value=constants.int64s([1]))
        return str(build.Squeeze(build.NonZero(ones), axes=[0]))
    return _rounds(build, n)


def _rounds(build: Builder, n: str) -> str:
    """The same from a loop that yields the number of each round; it carries a scalar, as loops had to."""
    fresh = build.scope.context.names.fresh
    at, go, going, held, kept, yielded = (fresh(f"{n}/{part}") for part in ("at", "go", "going", "in", "out", "round"))
    graph = GraphProto(name="rounds")
    for names, results in (((at, go, held), graph.input), ((going, kept, yielded), graph.output)):
        for name in names:
            kind = T.BOOL if name in (go, going) else T.INT64
            results.add(name=name).type.CopyFrom(tensor_type(kind, []))
    for name, result in ((go, going), (held, kept), (at, yielded)):
        graph.node.append(NodeProto(op_type="Identity", input=[name], output=[result]))
    made = build.emit("Loop", [n, None, 0], {"body": graph}, outputs=2)
    return build.typed(made[1], T.INT64, [None])


def places(build: Builder, dims: list[Size], steps: list[Size], start: Size = 0) -> Size:
    """start + the sum over all axes of count(dims[k]) * steps[k], each along its own axis."""
    import numpy as np

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


def plus(build: Builder, value: str, offset: Size) -> str:
    """value + offset"""
    return value if offset == 0 else str(build.Add(value, offset))


def nonnegative(node: Node, index: int, size: Any) -> str:
    """An input of indices as int64, negative ones counted from the end; `size` is a number or a value."""
    name, build = node.input(index), node.build
    held, as_int64 = node.scope.array(name), node.elem_type(index) == T.INT64
    known = size if isinstance(size, int) else node.scope.array(size)
    if held is not None and not (held < 0).any():
        return name if as_int64 else build.constant(held, T.INT64)
    if held is not None and known is not None:
        return build.constant(held + (held < 0) * known, T.INT64)
    found = name if as_int64 else str(build.Cast(name, to=T.INT64))
    if never_negative(node.scope, name):
        return found
    return str(build.Where(build.Less(found, 0), build.Add(found, size), found))


def merged(node: Node, name: str, dims: list[Size], axes: int) -> str:
    """The data with the first `axes` axes made one."""
    if axes == 1:
        return name
    build = node.build
    if axes == len(dims):
        return str(build.Reshape(name, [-1]))
    return str(build.Reshape(name, rows_of(build, product(build, dims[:axes]), dims[axes:])))


def rows_of(build: Builder, count: Size, dims: list[Size]) -> str:
    """The shape of so many rows of these sizes; they need not be counted unless they might be empty."""
    filled = all(isinstance(dim, int) and dim for dim in dims)
    return vector(build, [-1 if filled else count, *dims])
