"""Pooling: rounding up, dilations, padding that counts, p as a float, and over whole channels.

Three rewrites carry the downgrades. `rounded_down` reaches the size of ceil_mode=1 with more padding at the
end; `_undilated` reduces a dilated axis over shifted slices; `_pad_data` makes padding part of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, prod

from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.carriers import bfloat16_in_float
from opshift.passes.operators.shared.pooling.maxima import maxima_and_places
from opshift.passes.operators.shared.pooling.padded import Window, windows
from opshift.passes.operators.shared.recipes import BFLOAT16, behind_channels, carrier_casts, recast, wider
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined, same
from opshift.passes.rewrite.says import says

T = TensorProto
INT64_MAX = 2**63 - 1
IN_FLOAT = dict.fromkeys(["AveragePool", "LpPool"], "bfloat16 is computed in float32")


@says("Replaced ceil_mode by padding at the end, which the average does not count")
def rounded_down(node: Node) -> None:
    if not node.attributes.pop("ceil_mode", 0):
        return
    if node.attributes.get("auto_pad", "NOTSET").startswith("SAME"):
        node.attributes.pop("pads", None)  # which runtimes do not read beside it, but inference, that would round down
        return
    before = windows(node)
    after = [replace(window, end=window.end + _missing(node, window)) for window in before]
    if before == after:
        return
    if node.attributes.get("auto_pad", "NOTSET") == "VALID":
        raise CannotConvert(
            node,
            "runtimes disagree on the result of auto_pad=VALID with ceil_mode=1",
            supported="explicit pads",
        )
    if node.attributes.pop("count_include_pad", 0):
        _pad_data(node, [replace(b, end=min(b.end, a.end)) for a, b in zip(after, before, strict=True)])
        after = [replace(b, begin=0, end=max(0, a.end - b.end)) for a, b in zip(after, before, strict=True)]
    _set_pads(node, after)


def _missing(node: Node, window: Window) -> int:
    """The padding that a size rounded up takes; no window starts in the padding at the end."""
    stride, extent = window.stride, window.extent
    if window.size is None:
        if stride > 1 and window.end + stride - 1 >= extent:
            raise CannotConvert(node, f"ceil_mode=1 needs the size of axis {window.axis}, which is unknown")
        return stride - 1  # ceil(a / stride) = floor((a + stride - 1) / stride)
    data = window.size + window.begin
    spare = data + window.end - extent
    count = -(-spare // stride) + (0 if drops_a_window(window) else 1)
    if count == spare // stride + 1:
        return 0
    return max((count - 1) * stride - spare, -window.end)


def drops_a_window(window: Window) -> bool:
    """Whether rounding up counts a window that starts in the padding at the end."""
    if window.size is None:
        return False
    data = window.size + window.begin
    return -(-(data + window.end - window.extent) // window.stride) * window.stride >= data


def counts_padding_windows(node: Node) -> bool:
    """Whether rounding up is known to count a window that starts in explicit padding."""
    explicit = node.attributes.get("auto_pad", "NOTSET") == "NOTSET"
    return bool(node.attributes.get("ceil_mode", 0)) and explicit and any(map(drops_a_window, windows(node)))


def _infers_from_pads(node: Node) -> bool:
    """Whether inference rounds up what pads make of a size, which runtimes do not read beside auto_pad."""
    own = node.attributes
    return bool(own.get("ceil_mode", 0)) and own.get("auto_pad", "NOTSET") != "NOTSET" and "pads" in own


def _rounds_for_nothing(node: Node) -> bool:
    """Whether inference counts windows behind the data that auto_pad leaves out, and rounding up makes no others."""
    auto = node.attributes.get("auto_pad", "NOTSET")
    if auto == "NOTSET" or not node.attributes.get("ceil_mode", 0):
        return False
    every = windows(node, auto="VALID")
    if auto != "VALID":
        return any(window.stride > window.extent for window in every)
    made = any(window.size is None or _missing(node, window) for window in every)
    return not made and any(map(drops_a_window, every))


@says("Dropped ceil_mode of pooling with auto_pad SAME, where it has no effect")
def no_windows_of_no_data(node: Node) -> None:
    dims = node.scope.shape(node.input(0)) or []
    if node.attributes.get("auto_pad", "").startswith("SAME") and 0 in dims[2:]:
        node.attributes.pop("ceil_mode", None)


def has_dilation(node: Node) -> bool:
    """Whether any window has gaps."""
    pairs = zip(node.attributes["kernel_shape"], node.attributes.get("dilations") or (), strict=False)
    return any(dilation != 1 and kernel > 1 for kernel, dilation in pairs)


@says("Dropped windows that lie in the padding at the end; cast bfloat16 to float32 and back")
def windows_on_data(node: Node) -> Replacement:
    if counts_padding_windows(node) and all(w.end + _missing(node, w) < w.kernel for w in windows(node)):
        rounded_down(node)
    if _infers_from_pads(node) and any(map(drops_a_window, windows(node, auto="NOTSET"))):
        del node.attributes["pads"]
    if _rounds_for_nothing(node):
        del node.attributes["ceil_mode"]
    return carrier_casts(dict.fromkeys([T.BFLOAT16], T.FLOAT), why=IN_FLOAT.get(node.op_type, ""))(node)


def _set_pads(node: Node, moved: Sequence[Window]) -> None:
    node.attributes.pop("auto_pad", None)
    node.attributes["pads"] = [w.begin for w in moved] + [w.end for w in moved]


def _pad_data(node: Node, moved: Sequence[Window], value: float = 0.0) -> None:
    """The padding of `moved` becomes part of the data."""
    if not any(w.begin or w.end for w in moved):
        return
    pads = [0, 0, *(w.begin for w in moved), 0, 0, *(w.end for w in moved)]
    build, x = node.build, node.input(0)
    if build.opset < 11:
        node.set_input(0, build.Pad(x, pads=pads, value=value))
    else:
        node.set_input(0, build.Pad(x, pads, build.constant(value, node.elem_type())))


Reduce = Callable[[Node, list[str], Window], str]


def _undo_dilation(node: Node, reduce: Reduce, filling: float = 0.0) -> Replacement:
    """A dilated axis is reduced over one slice for each element of the window; the rest is pooled."""
    if not has_dilation(node):
        node.attributes.pop("dilations", None)
        return None
    build, every = node.build, windows(node)
    del node.attributes["dilations"]
    dilated = [w for w in every if w.is_dilated]
    for w in dilated:
        if w.size is not None and w.size + w.begin + w.end < w.extent:
            raise CannotConvert(node, f"the pooling window is larger than axis {w.axis}", supported="a smaller window")
    _pad_data(node, [w if w.is_dilated else replace(w, begin=0, end=0) for w in every], filling)
    x = node.input(0)
    for w in dilated:
        x = reduce(node, _shift(build, x, w.axis, w), w)
    rest = [replace(w, kernel=1, begin=0, end=0) if w.is_dilated else w for w in every]
    if all(w.kernel == w.stride == 1 for w in rest):
        return x
    pads = [w.begin for w in rest] + [w.end for w in rest]
    return str(build.again(node.proto, [x], kernel_shape=[w.kernel for w in rest], pads=pads, auto_pad=None))


def _shift(build: Builder, x: str, axis: int, window: Window) -> list[str]:
    starts = [k * window.dilation for k in range(window.kernel)]
    bounds = [(start, start - starts[-1] or INT64_MAX) for start in starts]
    if build.opset < 10:
        return [build.Slice(x, axes=[axis], starts=[start], ends=[end]) for start, end in bounds]
    return [build.Slice(x, [start], [end], [axis]) for start, end in bounds]


# --- MaxPool --------------------------------------------------------------------------------------------


@says("Computed the indices of MaxPool by comparing the elements of each window")
def drop_indices(node: Node) -> Replacement:
    if node.is_used(1):
        return maxima_and_places(node)
    node.attributes.pop("storage_order", None)
    node.outputs = node.outputs[:1]
    return None


@says("Replaced ceil_mode of MaxPool by padding, and dilations by Max of shifted slices")
def largest(node: Node) -> Replacement:
    rounded_down(node)
    if has_dilation(node):
        if node.is_used(1):
            return maxima_and_places(node)
        node.outputs = node.outputs[:1]
    return _undo_dilation(node, _largest, filling=-inf)


def _largest(node: Node, slices: list[str], window: Window) -> str:
    return str(node.build.Max(*slices))


# --- AveragePool ----------------------------------------------------------------------------------------


@says("Replaced dilations of AveragePool by the average of shifted slices")
def average(node: Node) -> Replacement:
    if has_dilation(node):
        node.close("dilated averages are computed over slices")
        rounded_down(node)
    return _undo_dilation(node, _average)


def _average(node: Node, slices: list[str], window: Window) -> str:
    build, elem_type = node.build, node.elem_type()
    if node.attributes.get("count_include_pad", 0) or not (window.begin or window.end):
        count = build.constant(window.kernel, elem_type)
    elif window.size is not None:
        count = _known_counts(node, window, window.size)
    else:
        count = _counts(node, window)
    return str(build.Div(build.Sum(*slices), count))


def _known_counts(node: Node, window: Window, size: int) -> str:
    """How many elements of the data, without padding, each window holds."""
    offsets = [k * window.dilation - window.begin for k in range(window.kernel)]
    places = range(size + window.begin + window.end - window.extent + 1)
    counts = [sum(0 <= place + offset < size for offset in offsets) for place in places]
    held = tensors.tensor(counts, node.elem_type())
    held.dims[:] = [len(counts)] + [1] * (node.rank() - window.axis - 1)
    return node.build.constant(held)


def _counts(node: Node, window: Window) -> str:
    """The same at run time: a vector of ones takes the way of the data."""
    build, elem_type, last = node.build, node.elem_type(), node.rank() - window.axis - 1
    size = build.Shape(node.input(0), start=window.axis, end=window.axis + 1)
    padded = build.Sub(size, [window.begin + window.end])
    ones = build.Expand(build.constant(1, elem_type), build.Concat(padded, [1] * last, axis=0))
    pads = [window.begin, *[0] * last, window.end, *[0] * last]
    return str(build.Sum(*_shift(build, build.Pad(ones, pads), 0, window)))


@says("Padded the data itself before AveragePool, as count_include_pad did not exist")
def count_padding_as_data(node: Node) -> None:
    if node.attributes.pop("count_include_pad", 0):
        every = windows(node)
        if any(w.begin or w.end for w in every):
            _pad_data(node, every)
            _set_pads(node, [replace(w, begin=0, end=0) for w in every])


# --- LpPool ---------------------------------------------------------------------------------------------


@says("Replaced ceil_mode of LpPool by padding, and dilations by the norm of shifted slices")
def norm(node: Node) -> Replacement:
    rounded_down(node)
    if has_dilation(node):
        node.close("dilated norms are computed over slices")
    return _undo_dilation(node, _norm)


def _norm(node: Node, slices: list[str], window: Window) -> str:
    build, p = node.build, node.attributes.get("p", 2)
    powers = [_power(node, x, p) for x in slices]
    total = build.Sum(*powers)
    if p == 1:
        return str(total)
    return str(build.Sqrt(total) if p == 2 else build.Pow(total, build.constant(1 / p, node.elem_type())))


def _power(node: Node, x: str, p: int) -> str:
    build = node.build
    if p == 2:
        return str(build.Mul(x, x))
    x = build.Abs(x)
    return x if p == 1 else str(build.Pow(x, build.constant(float(p), node.elem_type())))


@says("Made the attribute p an integer; replaced a fractional p by the definition")
def whole_p(node: Node) -> Replacement:
    if node.attributes.get("auto_pad", "NOTSET") != "NOTSET":
        node.attributes.pop("pads", None)  # which runtimes do not read, but inference, which begins here
    if "kernel_shape" not in node.attributes and node.op_type == "LpPool":
        raise CannotConvert(node, "attribute kernel_shape is missing")
    for name in ("kernel_shape", "strides"):
        if any(size < 1 for size in node.attributes.get(name, ())):
            raise CannotConvert(node, f"{name}={list(node.attributes[name])}", supported="sizes of 1 or more")
    if "p" not in node.attributes:
        return None
    p = node.attributes["p"]
    if p != int(p):
        return _fractional(node, p)
    node.attributes["p"] = int(p)
    return None


def _fractional(node: Node, p: float) -> str:
    node.close("the norm is computed from its definition")
    build, elem_type = node.build, node.elem_type()
    if node.op_type == "LpPool":
        every = windows(node)
        _pad_data(node, every)
    x = build.Pow(build.Abs(node.input(0)), build.constant(p, elem_type), broadcast=1)
    if node.op_type == "LpPool":
        kernel = node.attributes["kernel_shape"]
        mean = build.AveragePool(x, kernel_shape=kernel, strides=node.attributes.get("strides"))
        total = build.Mul(mean, build.constant(float(prod(kernel)), elem_type), broadcast=1)
    else:
        total = build.ReduceSum(x, axes=list(range(2, node.rank())), keepdims=1)
    return str(build.Pow(total, build.constant(1 / p, elem_type), broadcast=1))


@says("Made the attribute p a float")
def p_as_float(node: Node) -> None:
    if "p" in node.attributes:
        node.attributes["p"] = float(node.attributes["p"])


# --- over everything behind the channels, which a reduction says as well -------------------------------------


@says("Replaced GlobalAveragePool by ReduceMean over the axes after the channels")
def mean_of_each_channel(node: Node) -> str:
    node.close("sums in another order")
    build, elem_type = node.build, node.elem_type()
    x = recast(build, node.input(0), elem_type, wider(elem_type))
    return recast(build, build.ReduceMean(x, axes=behind_channels(node)), wider(elem_type), elem_type)


@says("Replaced GlobalMaxPool by ReduceMax over the axes after the channels")
def maximum_of_each_channel(node: Node) -> str:
    return str(node.build.ReduceMax(node.input(0), axes=behind_channels(node)))


@says("Replaced GlobalLpPool by sum(|X| ** p) ** (1 / p) over the axes after the channels")
def norm_of_each_channel(node: Node) -> str:
    build, elem_type, axes, p = node.build, node.elem_type(), behind_channels(node), node.attributes.get("p", 2)
    if not p:
        raise CannotConvert(node, "p=0", supported="p=1 or more")
    node.close("sums in another order")
    x = recast(build, node.input(0), elem_type, wider(elem_type))
    if p in (1, 2):
        norm = build.emit(f"ReduceL{p}", [x], {"axes": axes})
    else:
        powers = build.Pow(build.Abs(x), build.constant(float(p), wider(elem_type)))
        norm = build.Pow(build.ReduceSum(powers, axes), build.constant(1 / p, wider(elem_type)))
    return recast(build, norm, wider(elem_type), elem_type)


changed("AveragePool", 7, Pair(down=count_padding_as_data))
changed("AveragePool", 10, Pair(down=rounded_down))
same("AveragePool", 11, "only the text changed")
changed("AveragePool", 19, Pair(down=average))
changed(["AveragePool", "LpPool", "MaxPool"], 22, Pair(up=no_windows_of_no_data, down=windows_on_data))
changed("MaxPool", 8, Pair(down=drop_indices))
changed("MaxPool", 10, Pair(down=largest))
same("MaxPool", 11, "only the text changed: it states defaults")
changed("MaxPool", 12, Pair(down=carrier_casts({T.INT8: T.FLOAT, T.UINT8: T.FLOAT})))
changed(["LpPool", "GlobalLpPool"], 2, Pair(up=whole_p, down=p_as_float))
same("LpPool", 11, "only the text changed: it states defaults and SAME padding")
changed("LpPool", 18, Pair(down=norm))

changed(["GlobalAveragePool", "GlobalLpPool"], 22, Pair(down=bfloat16_in_float))
changed("GlobalMaxPool", 22, Pair(down=carrier_casts(BFLOAT16)))
defined("GlobalAveragePool", mean_of_each_channel, opset=13)
defined("GlobalMaxPool", maximum_of_each_channel, opset=13)
defined("GlobalLpPool", norm_of_each_channel, opset=13)

changed("MaxRoiPool", 22, Pair(down=carrier_casts(BFLOAT16, why="regions of bfloat16 are scaled in float32")))
