"""Fourier transforms."""

from __future__ import annotations

from opshift.passes.openvino import sizes
from opshift.passes.openvino.axes import Axis, along, axes_of
from opshift.passes.openvino.layer import Layer, Made, Unmapped, layer
from opshift.passes.openvino.sizes import Size


@layer("DFT", "IDFT")
def transform(of: Layer) -> Made:
    """One axis after the other; the last axis holds real and imaginary parts, and is not counted."""
    inverse, value = int(of.type == "IDFT"), of.input(0)
    for axis, size in _signals(of, of.rank() - 1):
        _check_signal(of, axis, size != -1)

        def one(x: str, at: int, size: Size = size) -> str:
            return str(of.build.DFT(x, _length(of, x, at, size), at, inverse=inverse))

        value = along(of, value, axis, one, kept=1)
    of.close("sums in another order")
    return str(value)


def _signals(of: Layer, rank: int) -> list[tuple[Axis, Size]]:
    """The axes, and how long the signal along each of them becomes; -1 is as long as it is."""
    named = axes_of(of, 1, rank)
    return list(zip(named, sizes.elements(of, 2) if of.has(2) else [-1] * len(named), strict=True))


def _length(of: Layer, name: str, axis: int, size: Size) -> str | int | None:
    """How long a signal becomes, as a scalar; nothing where it is as long as it is."""
    if isinstance(size, int):
        return None if size == -1 else size
    wanted = of.build.Where(of.build.Equal(size, [-1]), of.build.Shape(name, start=axis, end=axis + 1), size)
    return str(of.build.Squeeze(wanted, [0]))


def _check_signal(of: Layer, axis: Axis, becomes_more: bool) -> None:
    """Of no element, which become some, nothing is told."""
    if isinstance(axis, int) and becomes_more and (of.dims() or [-1] * (axis + 1))[axis] == 0:
        raise Unmapped("an empty signal", supported="one element or more")


@layer("RDFT")
def real_transform(of: Layer) -> Made:
    """The last of the axes comes first and keeps one half."""
    value = of.build.Unsqueeze(of.input(0), [-1])
    signals = _signals(of, of.rank())
    if not signals:
        raise Unmapped("no axes")
    for place, (axis, size) in enumerate(reversed(signals)):
        _check_signal(of, axis, size != -1 or place == 0)

        def one(x: str, at: int, size: Size = size, half: int = int(place == 0)) -> str:
            return str(of.build.DFT(x, _length(of, x, at, size), at, onesided=half))

        value = along(of, value, axis, one, kept=1)
    of.close("sums in another order")
    return str(value)


@layer("IRDFT")
def inverse_real_transform(of: Layer) -> Made:
    """The last of the axes comes last: the half that is missing is the other one turned around, with the other sign."""
    b, rank, value = of.build, of.rank() - 1, of.input(0)
    signals = _signals(of, rank)
    if not signals:
        raise Unmapped("no axes")
    dims = sizes.dims(of)
    for axis, size in signals[:-1]:
        if size not in (-1, dims[axis] if isinstance(axis, int) else -1):
            raise Unmapped(f"signal_size={size} for axis {axis}", supported="signal_size for the last axis only")
        value = along(of, value, axis, lambda x, at: b.DFT(x, None, at, inverse=1), kept=1)
    axis, size = signals[-1]
    found = along(of, value, axis, lambda x, at: _real(of, x, at, size), kept=1)
    of.close("sums in another order")
    return str(b.Squeeze(found, [-1]))


def _real(of: Layer, value: str, axis: int, size: Size) -> str:
    """The numbers along an axis of which there is one half of a spectrum: `size`, or twice the steps in that half."""
    b, held = of.build, sizes.size(of, value, axis)
    whole: Size = sizes.times(of, sizes.minus(of, held, 1), 2) if size == -1 else size
    if isinstance(size, str):
        whole = b.Where(b.Equal(size, [-1]), sizes.one(of, sizes.times(of, sizes.minus(of, held, 1), 2)), size)
    half = sizes.plus(of, sizes.over(of, whole, 2), 1)
    if whole == 0 or (isinstance(held, int) and isinstance(half, int) and half > held):
        raise Unmapped(f"the last axis has {held} elements, {half} are needed")
    rank = len(of.dims_of(value) or ())
    pads: list[Size] = [0] * (2 * rank)
    pads[rank + axis] = sizes.larger(of, sizes.minus(of, half, held), 0)
    if pads[rank + axis] != 0:
        value = b.Pad(value, sizes.vector(of, pads))
    first = b.Slice(value, [0], sizes.one(of, half), [axis])
    other = b.Slice(value, sizes.one(of, sizes.minus(of, whole, half)), [0], [axis], [-1])
    other = b.Mul(other, b.constant([1.0, -1.0], of.elem_type()))
    made = b.DFT(b.Concat(first, other, axis=axis), None, axis, inverse=1)
    return str(b.Slice(made, [0], [1], [-1]))


@layer("STFT")
def short_time(of: Layer) -> Made:
    """A window that is shorter than a frame stands in its middle."""
    b, rank, (window,) = of.build, of.rank(), of.static(1)
    (size,) = of.require_constant(2)
    if window > size or rank not in (1, 2):
        raise Unmapped(f"the window is longer than the frames ({window}, {size})")
    ahead = (size - window) // 2
    framed = of.input(1) if window == size else b.Pad(of.input(1), [ahead, size - window - ahead])
    signal = b.Unsqueeze(of.input(0), [0] if rank == 1 else [2])
    signal = b.Unsqueeze(signal, [2]) if rank == 1 else signal
    found = b.STFT(signal, of.int64(3), framed, onesided=1)
    of.close("sums in another order")
    if of.flag("transpose_frames", False):
        found = b.Transpose(found, perm=[0, 2, 1, 3])
    return str(b.Squeeze(found, [0]) if rank == 1 else found)


@layer("ISTFT")
def inverse_short_time(of: Layer) -> Made:
    """Frames are put where they come from, and what they sum to is divided by the squares of the windows there."""
    b, rank, elem_type, (window,) = of.build, of.rank(), of.elem_type(), of.static(1)
    (size,), (step,) = of.require_constant(2), of.require_constant(3)
    if window > size or step < 1 or rank not in (3, 4):
        raise Unmapped(
            f"a window of {window}, frames of {size} and steps of {step} leave gaps", supported="overlapping frames"
        )
    ahead = (size - window) // 2
    framed = of.input(1) if window == size else b.Pad(of.input(1), [ahead, size - window - ahead])
    frames = b.Transpose(b.Unsqueeze(of.input(0), [0]) if rank == 3 else of.input(0), perm=[0, 2, 1, 3])
    half = size // 2 + 1
    other = b.Slice(frames, [size - half], [0], [2], [-1])
    other = b.Mul(other, b.constant([1.0, -1.0], elem_type))
    whole = b.Concat(b.Slice(frames, [0], [half], [2]), other, axis=2)
    parts = b.Squeeze(b.Slice(b.DFT(whole, None, 2, inverse=1), [0], [1], [3]), [3])
    if of.flag("normalized", False):
        parts = b.Mul(parts, of.like(size**0.5))
    count = b.Shape(frames, start=1, end=2)
    starts = b.Mul(b.Range(0, b.Squeeze(count, [0]), 1), step)
    places = b.Reshape(b.Add(b.Unsqueeze(starts, [1]), b.Unsqueeze(b.Range(0, size, 1), [0])), [1, -1])
    length = b.Add(b.Mul(b.Sub(count, [1]), [step]), [size])

    def add_overlapping(values: str) -> str:
        flat = b.Reshape(values, [0, -1])
        rows = b.Shape(flat, start=0, end=1)
        none = b.Expand(of.like(0), b.Concat(rows, length, axis=0))
        return str(b.ScatterElements(none, b.Expand(places, b.Shape(flat)), flat, axis=1, reduction="add"))

    signal = add_overlapping(b.Mul(parts, framed))
    weight = add_overlapping(b.Expand(b.Mul(framed, framed), b.Concat([1], count, [size], axis=0)))
    signal = b.Div(signal, b.Where(b.Greater(weight, of.like(0)), weight, of.like(1)))
    begin = size // 2 if of.flag("center", False) else 0
    if of.has(4):
        end = b.Add(of.vector(4), [begin])
        more = b.Max(b.Sub(end, length), [0])
        signal = b.Slice(b.Pad(signal, b.Concat([0, 0, 0], more, axis=0)), [begin], end, [1])
    elif begin:
        signal = b.Slice(signal, [begin], [-begin], [1])
    of.close("sums in another order")
    return str(b.Squeeze(signal, [0]) if rank == 3 else signal)
