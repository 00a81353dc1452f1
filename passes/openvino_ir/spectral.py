"""Fourier transforms."""

from __future__ import annotations

from opshift.passes.openvino_ir.layer import Layer, Made, Unmapped, layer


@layer("DFT", "IDFT")
def transform(of: Layer) -> Made:
    """One axis after the other; the last axis holds real and imaginary parts, and is not counted."""
    rank = of.rank() - 1
    axes = of.axes(1, rank)
    sizes = of.known(2) if of.has(2) else [-1] * len(axes)
    value = of.input(0)
    for axis, size in zip(axes, sizes, strict=True):
        length = None if size == -1 else size
        value = of.build.DFT(value, length, axis, inverse=int(of.type == "IDFT"))
    of.close("the order of its sums is left open")
    return str(value)


@layer("RDFT")
def real_transform(of: Layer) -> Made:
    """The last of the axes comes first and keeps one half."""
    rank = of.rank()
    axes = of.axes(1, rank)
    sizes = of.known(2) if of.has(2) else [-1] * len(axes)
    value = of.build.Unsqueeze(of.input(0), [-1])
    for place, (axis, size) in enumerate(reversed(list(zip(axes, sizes, strict=True)))):
        length = None if size == -1 else size
        value = of.build.DFT(value, length, axis, onesided=int(place == 0))
    if not axes:
        raise Unmapped("no axes")
    of.close("the order of its sums is left open")
    return str(value)
