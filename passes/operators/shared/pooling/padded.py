"""The windows of a pooling operator, with their padding spelled out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from opshift.passes.errors import CannotConvert
from opshift.passes.rewrite.node import Node


@dataclass(frozen=True)
class Window:
    """How the window moves along one spatial axis; `size` is None where it is known only at run time."""

    axis: int
    size: int | None
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int

    @property
    def extent(self) -> int:
        """How far one window reaches."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def is_dilated(self) -> bool:
        return self.dilation != 1 and self.kernel > 1


def windows(node: Node, auto: str = "") -> list[Window]:
    """The windows with their padding spelled out, whatever auto_pad, or `auto` in its place, says."""
    read, kernel = node.attributes.get, node.attributes["kernel_shape"]
    count = len(kernel)
    strides, dilations = read("strides") or [1] * count, read("dilations") or [1] * count
    pads = read("pads") or [0] * 2 * count
    dims = node.scope.shape(node.input(0)) or [None] * (count + 2)
    if len(dims) != count + 2:
        raise CannotConvert(node, f"kernel_shape={list(kernel)} does not fit data of rank {len(dims)}")
    auto = auto or read("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise CannotConvert(node, f"auto_pad={auto}", supported="NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    found = []
    for i, dim in enumerate(dims[2:]):
        size = dim if isinstance(dim, int) else None
        begin, end = (pads[i], pads[i + count]) if auto == "NOTSET" else (0, 0)
        window = Window(i + 2, size, kernel[i], strides[i], dilations[i], begin, end)
        found.append(window if auto in ("NOTSET", "VALID") else _same(node, window, auto))
    return found


def _same(node: Node, window: Window, auto: str) -> Window:
    """SAME pads so that the output has ceil(size / stride) elements; with stride 1 any size does."""
    if window.is_dilated:
        raise CannotConvert(
            node,
            f"runtimes disagree on the result of auto_pad={auto} with dilations",
            supported="explicit pads",
        )
    if window.size is None and window.stride != 1:
        raise CannotConvert(
            node,
            f"auto_pad={auto} needs the size of axis {window.axis}, which is unknown",
            fix="--fix-shape, or explicit pads",
        )
    size = window.size or 1
    total = max(0, (-(-size // window.stride) - 1) * window.stride + window.extent - size)
    less, more = total // 2, total - total // 2
    return replace(window, begin=less, end=more) if auto == "SAME_UPPER" else replace(window, begin=more, end=less)
