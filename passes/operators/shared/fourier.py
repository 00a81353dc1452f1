"""Fourier transforms before they existed: products with matrices of cosines and sines.

Products of frequency and time are reduced modulo the length as integers, before they become an angle.
"""

from __future__ import annotations

from math import pi

from opshift.passes.errors import CannotConvert
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.node import Node

T = TensorProto
CONSTANT = 2**16
"""The largest matrix that is written as a constant; others are computed."""


def parts_of(node: Node) -> int:
    """How many numbers each element of the signal has: a real one, or two for a complex number."""
    found = (node.scope.shape(node.input(0)) or [None])[-1]
    if not isinstance(found, int) or found not in (1, 2):
        raise CannotConvert(node, "the last dimension of the signal is unknown", supported="1 or 2")
    return found


def transform(
    node: Node, x: str, rank: int, axis: int, length: int | str | None, parts: int, *, inverse: bool, onesided: bool
) -> str:
    """`x` along `axis`, its last axis holding the parts of numbers; `length` None means all of the axis."""
    node.close("sums products with cosines and sines")
    build, elem_type = node.build, node.elem_type()
    half = inverse and onesided  # half a spectrum, of which the other half is the mirror image, back to real numbers
    size = size_of(node, x, axis)
    if length is None:
        length = _double(node, size) if half else size
    if length == 0:
        if onesided and not half:
            raise CannotConvert(node, "the Fourier transform has length 0", supported="1 or more")
        return _of_no_point(node, x, rank, axis, parts, 1 if half else 2)
    wide = T.DOUBLE if elem_type == T.DOUBLE else T.FLOAT
    x = x if wide == elem_type else build.Cast(x, to=wide)
    to_end = [*(k for k in range(rank - 1) if k != axis), axis]
    components = [build.Transpose(build.Gather(x, part, axis=rank - 1), perm=to_end) for part in range(parts)]
    used = _half(node, length) if half else length
    if used != size:
        components = [build.Slice(c, [0], _vector(node, used), [rank - 2]) for c in components]
    sizes = (size, used, length)
    if all(isinstance(n, int) for n in sizes):
        rows: int | str = min(n for n in (size, used) if isinstance(n, int))
    else:
        rows = size_of(node, components[0], rank - 2)
    columns = length if half or not onesided else _half(node, length)
    cosine, sine = _matrices(node, rows, columns, length, wide, inverse=inverse, mirrored=half)
    results = _products(node, components, cosine, sine, inverse=inverse, real=half)
    back = sorted(range(rank - 1), key=to_end.__getitem__)
    merged = build.Concat(*(build.Unsqueeze(build.Transpose(r, perm=back), [-1]) for r in results), axis=-1)
    return merged if wide == elem_type else str(build.Cast(merged, to=elem_type))


def _of_no_point(node: Node, x: str, rank: int, axis: int, parts: int, wanted: int) -> str:
    """Nothing along `axis`, and numbers of as many parts as are wanted."""
    empty = node.build.Slice(x, [0, 0], [0, wanted], [axis, rank - 1])
    return str(empty if parts >= wanted else node.build.Concat(empty, empty, axis=rank - 1))


def _products(node: Node, x: list[str], cosine: str, sine: str, *, inverse: bool, real: bool) -> list[str]:
    """(re + i * im) * (cos - i * sin), or + for the inverse."""
    build = node.build
    first = build.MatMul(x[0], cosine)
    second = build.MatMul(x[0], sine)
    second = second if inverse else build.Neg(second)
    if len(x) > 1:
        first = build.emit("Sub" if inverse else "Add", [first, build.MatMul(x[1], sine)])
        second = build.Add(second, build.MatMul(x[1], cosine))
    return [first] if real else [first, second]


def _matrices(
    node: Node, rows: int | str, columns: int | str, length: int | str, elem_type: int, *, inverse: bool, mirrored: bool
) -> tuple[str, str]:
    """cos and sin of 2 * pi * row * column / length; for the inverse divided by the length."""
    build = node.build
    known = isinstance(rows, int) and isinstance(columns, int) and isinstance(length, int)
    if known and rows * columns <= CONSTANT:  # type: ignore[operator]
        at = np.arange(rows).reshape(-1, 1)
        angles = (2 * pi / length) * (at * np.arange(columns) % length)  # type: ignore[operator]
        weight = (2.0 - (at == 0) - (2 * at == length)) if mirrored else 1.0
        weight = weight / length if inverse else weight  # type: ignore[operator]
        return build.constant(np.cos(angles) * weight, elem_type), build.constant(np.sin(angles) * weight, elem_type)
    count = as_scalar(node, length)
    row, column = (build.Range(0, as_scalar(node, n), 1) for n in (rows, columns))
    row = build.Unsqueeze(row, [1])
    around = count  # at least 1: of no point nothing is divided, but runtimes look at what by
    if not isinstance(length, int):
        around = build.Add(count, build.Cast(build.Equal(count, 0), to=T.INT64))
    turns = build.Cast(build.Mod(build.Mul(row, column), around), to=T.DOUBLE)
    total = build.Cast(count, to=T.DOUBLE)
    angle = build.Mul(turns, build.Div(build.constant(2 * pi, T.DOUBLE), total))
    matrices = [build.Cos(angle), build.Sin(angle)]
    if mirrored:
        ends = [build.Cast(build.Equal(*pair), to=T.DOUBLE) for pair in ((row, 0), (build.Add(row, row), count))]
        weight = build.Sub(build.constant(2.0, T.DOUBLE), build.Add(*ends))
        matrices = [build.Mul(matrix, weight) for matrix in matrices]
    if inverse:
        matrices = [build.Div(matrix, total) for matrix in matrices]
    if elem_type != T.DOUBLE:
        matrices = [build.Cast(matrix, to=elem_type) for matrix in matrices]
    return matrices[0], matrices[1]


def given_length(node: Node, index: int) -> int | str | None:
    if not node.input(index):
        return None
    held = node.scope.array(node.input(index))
    if held is not None and held.size == 1:
        length = int(held.reshape(-1)[0])
        if length < 1:
            raise CannotConvert(node, f"the Fourier transform has length {length}", supported="1 or more")
        return length
    return str(node.build.Cast(node.input(index), to=T.INT64))


def size_of(node: Node, value: str, axis: int) -> int | str:
    dims = node.scope.shape(value)
    found = dims[axis] if dims and axis < len(dims) else None
    return found if isinstance(found, int) else str(node.build.Gather(node.build.Shape(value), axis))


def _half(node: Node, length: int | str) -> int | str:
    """How many frequencies a real signal has."""
    if isinstance(length, int):
        return length // 2 + 1
    return str(node.build.Add(node.build.Div(as_scalar(node, length), 2), 1))


def _double(node: Node, size: int | str) -> int | str:
    """How long a real signal of so many frequencies is, if its length is even: that of one frequency is empty."""
    if isinstance(size, int):
        return max(2 * (size - 1), 0)
    return str(node.build.Mul(node.build.Sub(size, 1), 2))


def as_scalar(node: Node, value: int | str) -> str:
    if isinstance(value, int):
        return str(node.build.constant(value, T.INT64))
    return str(node.build.Reshape(value, node.build.constant([], T.INT64)))


def _vector(node: Node, value: int | str) -> str:
    if isinstance(value, int):
        return str(node.build.constant([value], T.INT64))
    return str(node.build.Reshape(value, [1]))
