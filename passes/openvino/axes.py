"""Axes that only the run tells: what lies before one, and behind it, becomes one axis each."""

from __future__ import annotations

from collections.abc import Callable

from opshift.passes.openvino import sizes
from opshift.passes.openvino.layer import Layer
from opshift.passes.openvino.sizes import Size

Axis = Size
"""An axis from the front: a number, or a vector of one where only the run tells."""

END = 2**63 - 1  # beyond every tensor


def axes_of(of: Layer, index: int, rank: int) -> list[Axis]:
    """The axes in an input, of which there is a known number."""
    if of.constant(index) is not None:
        return list(of.axes(index, rank))
    return [sizes.modulo(of, axis, rank) for axis in sizes.elements(of, index)]


def along(
    of: Layer,
    name: str,
    axis: Axis,
    compute: Callable[[str, int], str],
    instead: str | None = None,
    first: int = 0,
    kept: int = 0,
) -> str:
    """What is computed of a value along an axis: it keeps its place with any size, or has the sizes `instead` there.

    So many of the `first` axes are none of those that lie before it, and the last that are `kept` none of those behind.
    """
    if isinstance(axis, int):
        return compute(name, axis)
    b, dims, shape = of.build, of.dims_of(name) or [], of.build.Shape(name)
    before, behind = b.Slice(shape, [first], axis), b.Slice(shape, b.Add(axis, [1]), [-kept or END])
    lead, rest = [b.Slice(shape, [0], [first])] if first else [], [b.Slice(shape, [-kept], [END])] if kept else []
    counts = [b.ReduceProd(before, keepdims=1), b.Gather(shape, axis), b.ReduceProd(behind, keepdims=1)]
    found = compute(b.Reshape(name, b.Concat(*lead, *counts, *rest, axis=0), allowzero=1), first + 1)
    parts = [*lead, before, instead or b.Shape(found, start=first + 1, end=first + 2), behind]
    parts += [b.Shape(found, start=first + 3)] if kept else []
    whole = b.Reshape(found, b.Concat(*parts, axis=0), allowzero=1)
    more = 0 if instead is None else (of.dims_of(instead) or [1])[0] - 1
    return str(b.set_type(whole, of.type_of(name), [None] * (len(dims) + more)))
