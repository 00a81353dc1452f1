"""Arithmetic on sizes: integers where they are known, and vectors of one element where only the run tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino.layer import Layer

Size = int | str

OPERATORS: dict[str, Callable[[int, int], int]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: a // b,  # of what is not negative
    "Mod": lambda a, b: a % b,
    "Max": max,
    "Min": min,
}


def dims(of: Layer, index: int = 0) -> list[Size]:
    """The dimensions of an input, whose rank has to be known."""
    of.rank(index)
    found = of.dims(index) or []
    shape = ""
    sizes: list[Size] = list(found)
    for axis, dim in enumerate(found):
        if dim < 0:
            shape = shape or of.build.Shape(of.input(index))
            sizes[axis] = str(of.build.Slice(shape, [axis], [axis + 1]))
    return sizes


def size(of: Layer, name: str, axis: int) -> Size:
    """The size of a value along one of its axes."""
    held = (of.dims_of(name) or [-1] * (axis + 1))[axis]
    return held if held >= 0 else str(of.build.Shape(name, start=axis, end=axis + 1))


def elements(of: Layer, index: int, count: int | None = None) -> list[Size]:
    """The elements of an integer vector, whose length is `count` or known."""
    held = of.constant(index)
    if held is not None:
        return list(held)
    whole = of.vector(index)
    return [
        str(of.build.Slice(whole, [place], [place + 1]))
        for place in range(of.length(index) if count is None else count)
    ]


def _compute(of: Layer, op: str, a: Size, b: Size) -> Size:
    if isinstance(a, int) and isinstance(b, int):
        return int(OPERATORS[op](a, b))
    return str(of.build.emit(op, [one(of, a), one(of, b)]))


def one(of: Layer, size: Size) -> str:
    """A size as a vector."""
    return size if isinstance(size, str) else str(of.build.constant([size], TensorProto.INT64))


def plus(of: Layer, a: Size, b: Size) -> Size:
    return a if b == 0 else b if a == 0 else _compute(of, "Add", a, b)


def minus(of: Layer, a: Size, b: Size) -> Size:
    return a if b == 0 else _compute(of, "Sub", a, b)


def times(of: Layer, *sizes: Size) -> Size:
    made: Size = 1
    for size in sizes:
        made = size if made == 1 else made if size == 1 else _compute(of, "Mul", made, size)
    return made


def over(of: Layer, a: Size, b: Size) -> Size:
    return a if b == 1 else _compute(of, "Div", a, b)


def modulo(of: Layer, a: Size, b: Size) -> Size:
    """With the sign of `b`."""
    return _compute(of, "Mod", a, b)


def larger(of: Layer, a: Size, b: Size) -> Size:
    return _compute(of, "Max", a, b)


def smaller(of: Layer, a: Size, b: Size) -> Size:
    return _compute(of, "Min", a, b)


def vector(of: Layer, sizes: Sequence[Size]) -> str:
    """All of them in one vector, neighbours that are known as one constant."""
    parts: list[list[int] | str] = []
    for size in sizes:
        if isinstance(size, str):
            parts.append(size)
        elif parts and isinstance(parts[-1], list):
            parts[-1].append(size)
        else:
            parts.append([size])
    names = [
        part if isinstance(part, str) else str(of.build.constant(part, TensorProto.INT64)) for part in parts or [[]]
    ]
    return names[0] if len(names) == 1 else str(of.build.Concat(*names, axis=0))


def reshape(of: Layer, name: str, sizes: Sequence[Size]) -> str:
    """Reshape a value; a dimension may be 0."""
    empty = any(size == 0 for size in sizes) or any(isinstance(size, str) for size in sizes)
    return str(of.build.Reshape(name, vector(of, sizes), allowzero=1 if empty else None))
