"""Pools: the largest elements of windows, and their means."""

from __future__ import annotations

from dataclasses import dataclass, replace

from opshift.passes.model.messages import TensorProto
from opshift.passes.openvino import sizes
from opshift.passes.openvino.layer import FLOATS, Layer, Made, Unmapped, layer
from opshift.passes.openvino.nn import AUTO, same_pads

T = TensorProto


@dataclass(frozen=True)
class Windows:
    """Where the windows of a pool lie. With `auto`, the sizes of the data tell the pads."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    begin: list[int]
    end: list[int]
    auto: str | None = None
    rounds_up: bool = False

    @property
    def attributes(self) -> dict[str, object]:
        return {
            "kernel_shape": self.kernel,
            "strides": self.strides,
            "dilations": self.dilations if max(self.dilations) > 1 else None,
            "pads": None if self.auto else [*self.begin, *self.end],
            "auto_pad": self.auto,
            "ceil_mode": 1 if self.rounds_up else None,
        }

    @property
    def spans(self) -> list[int]:
        """How far a window reaches."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    @property
    def wide(self) -> bool:
        """Whether a pad is wider than runtimes take."""
        return any(pad >= k for pads in (self.begin, self.end) for pad, k in zip(pads, self.kernel, strict=True))

    @property
    def may_drop(self) -> bool:
        """Whether a window that begins behind the data is one that rounding up leaves out."""
        ends = zip(self.end, self.strides, self.spans, strict=True)
        return self.rounds_up and any(after + stride > span for after, stride, span in ends)


@layer("MaxPool")
def max_pool(of: Layer) -> Made:
    """The places are counted through all axes in ONNX, and from one on in OpenVINO."""
    windows = _windows(of)
    if windows.wide and windows.may_drop:
        raise Unmapped("rounding_type=ceil_torch, pads as wide as the window, and dynamic sizes", fix="--fix-shape")
    if len(of.entry.outputs) == 1 or not of.is_read(1):
        value, windows = _pad(of, windows, float("-inf")) if windows.wide else (of.input(0), windows)
        return [str(of.build.MaxPool(value, **windows.attributes))]
    if windows.wide:
        raise Unmapped("indices, and pads as wide as the window", supported="narrower pads")
    values, places = of.build.emit("MaxPool", [of.input(0)], windows.attributes, outputs=2)
    dims = sizes.dims(of)
    axis = of.normal(of.integer("axis", 0), len(dims))
    if axis:
        size = sizes.larger(of, sizes.times(of, *dims[axis:]), 1)
        places = of.build.Mod(places, sizes.one(of, size))
    return [values, of.cast(places, of.element_type("index_element_type", "i64"))]


def _pad(of: Layer, windows: Windows, value: float) -> tuple[str, Windows]:
    """The data with their padding."""
    if of.elem_type() not in FLOATS:
        raise Unmapped("pads as wide as the window", supported="narrower pads")
    pads = of.build.constant([0, 0, *windows.begin, 0, 0, *windows.end], T.INT64)
    none = [0] * len(windows.kernel)
    padded = of.build.Pad(of.input(0), pads, of.build.constant(value, of.elem_type()))
    return str(padded), replace(windows, begin=none, end=none)


@layer("AvgPool")
def average_pool(of: Layer) -> Made:
    """Where padding counts, and there is any, windows count whole, with what rounding up adds behind the data."""
    include = not of.flag("exclude-pad" if "exclude-pad" in of.entry.attributes else "exclude_pad")
    given, value = _windows(of, include=include, asked=True), of.input(0)
    include = include and any((*given.begin, *given.end))
    windows = _windows(of, include=include)
    if include and (windows.wide or windows.end != given.end):
        value, windows = _pad(of, windows, 0.0)
    if windows.wide:
        raise Unmapped("pads as wide as the window", supported="narrower pads")
    return str(of.build.AveragePool(value, count_include_pad=int(include), **windows.attributes))


def _windows(of: Layer, *, include: bool = False, asked: bool = False) -> Windows:
    """The windows as ONNX takes them; `asked` for them before any size is rounded up."""
    kernel, strides = of.ints("kernel"), of.ints("strides")
    none = [0] * len(kernel)
    found = Windows(
        kernel, strides, of.ints("dilations", [1] * len(kernel)), of.ints("pads_begin", none), of.ints("pads_end", none)
    )
    auto = of.choice("auto_pad", ("explicit", "notset", *AUTO), "explicit")
    rounding = of.choice("rounding_type", ("floor", "ceil", "ceil_torch"), "floor")
    if auto == "valid":
        found = replace(found, begin=none, end=none)
    elif auto in AUTO:
        found = _same(of, found, auto, include=include)
    if any(pad >= span for pads in (found.begin, found.end) for pad, span in zip(pads, found.spans, strict=True)):
        raise Unmapped("a window lies in the padding alone", supported="narrower pads")
    if not include:
        _check_steps(of, found, rounds_up=rounding != "floor")
    if found.auto and rounding != "floor":
        raise Unmapped(
            f"auto_pad={auto} with rounding_type={rounding}, and the size of the data is unknown", supported="floor"
        )
    return found if asked or rounding == "floor" else _round_up(of, found, include, rounding == "ceil_torch")


def _check_steps(of: Layer, found: Windows, *, rounds_up: bool) -> None:
    """Of fewer elements than its steps are wide, a window may read none between two of them."""
    ways = zip(found.begin, found.end, found.spans, found.strides, found.dilations, strict=True)
    for size, (before, after, span, stride, step) in zip((of.dims() or [])[2:], ways, strict=False):
        room = size + before + after - span + (stride - 1 if rounds_up else 0)
        starts = range(-before, size, stride)[: max(room // stride + 1, 0)]
        taken = (range(start, start + span, step) for start in starts)
        if size >= 0 and not all(any(0 <= place < size for place in places) for places in taken):
            raise Unmapped("a dilated window covers padding only", supported=f"a dilation below {step}")


def _same(of: Layer, found: Windows, auto: str, *, include: bool) -> Windows:
    """As many windows as strides begin in the data; a size is rounded up after that."""
    pads = same_pads(of, auto, found.kernel, found.strides, found.dilations)
    if pads is not None:
        half = len(found.kernel)
        return replace(found, begin=pads[:half], end=pads[half:])
    if include or max(found.dilations) > 1 or any(k < s for k, s in zip(found.kernel, found.strides, strict=True)):
        raise Unmapped(
            f"auto_pad={auto} with dilations, strides or counted padding, and the size of the data is unknown"
        )
    return replace(found, auto=AUTO[auto])


def _round_up(of: Layer, found: Windows, include: bool, drops: bool) -> Windows:
    """A last window that is not whole is as whole as padding makes it.

    One behind the data is dropped by ceil_torch, is a mean of padding that counts, or has none and is refused.
    """
    dims = (of.dims() or [-1] * (len(found.kernel) + 2))[2:]
    ends, dropped = list[int](), False
    for size, before, after, span, stride in zip(dims, found.begin, found.end, found.spans, found.strides, strict=True):
        if size < 0:
            if after + stride > span and include is drops:
                raise Unmapped(
                    "rounding_type=ceil, and the size of the data is unknown", supported="floor, or a fixed size"
                )
            if include:
                ends.append(after + stride - 1)  # which adds a window exactly where a size is rounded up
            continue
        last = -(-(size + before + after - span) // stride)
        if last * stride >= size + before:
            if not drops and not include:
                raise Unmapped("rounding_type=ceil adds a window behind the data", supported="ceil_torch")
            last, dropped = last - drops, drops
        ends.append(max(last * stride + span - size - before, 0))
    if len(ends) == len(dims):
        return replace(found, end=ends)
    if dropped:
        raise Unmapped("rounding_type=ceil_torch drops a window, and a size is unknown")
    return replace(found, rounds_up=True)


@layer("AdaptiveAvgPool", "AdaptiveMaxPool")
def adaptive_pool(of: Layer) -> Made:
    """One element for all, or as many as divide the data."""
    wanted, rank = of.require_constant(1), of.rank()
    largest = of.type == "AdaptiveMaxPool"
    if largest:
        of.element_type("index_element_type", "i64")
        if of.is_read(1):
            raise Unmapped("the indices output is used", supported="the values only")
    if all(size == 1 for size in wanted):
        return [str(of.build.emit("GlobalMaxPool" if largest else "GlobalAveragePool", [of.input(0)]))]
    found = of.dims() or []
    data = found[2:]
    if len(data) != rank - 2 or any(
        size != want and (size < 0 or size % want) for size, want in zip(data, wanted, strict=True)
    ):
        return _unequal_parts(of, wanted, largest=largest)
    kernel = [size // want for size, want in zip(data, wanted, strict=True)]
    return [
        str(
            of.build.emit(
                "MaxPool" if largest else "AveragePool", [of.input(0)], {"kernel_shape": kernel, "strides": kernel}
            )
        )
    ]


def _unequal_parts(of: Layer, wanted: list[int], *, largest: bool) -> Made:
    """Each part by itself, axis by axis: from the floor of its begin to the ceiling of its end."""
    if max(wanted) > 16:
        raise Unmapped(f"{max(wanted)} unequal parts", supported="at most 16")
    value, b = of.input(0), of.build
    for axis, (size, want) in enumerate(zip(sizes.dims(of)[2:], wanted, strict=True), 2):
        parts = []
        for place in range(want):
            start = sizes.over(of, sizes.times(of, size, place), want) if place else 0
            stop = sizes.over(of, sizes.plus(of, sizes.times(of, size, place + 1), want - 1), want)
            part = b.Slice(value, sizes.one(of, start), sizes.one(of, stop), [axis])
            parts.append(b.emit("ReduceMax" if largest else "ReduceMean", [part, [axis]], {"keepdims": 1}))
        value = b.Concat(*parts, axis=axis) if len(parts) > 1 else parts[0]
    return [str(value)]
