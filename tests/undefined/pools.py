"""When the text leaves open what a pool makes of its windows."""

from __future__ import annotations

from tests.conditions import encoded
from tests.node_calls import Call


def larger_kernel(call: Call) -> bool:
    x, kernel = call.shape(0), call.attribute("kernel_shape")
    if x is None or kernel is None or encoded(call.attribute("auto_pad", "NOTSET")) not in (b"NOTSET", b"VALID"):
        return False
    sides, count = x[2:], len(kernel)
    pads, dilations = call.attribute("pads", [0] * 2 * count), call.attribute("dilations", [1] * count)
    return len(sides) == count and any(
        size + pads[k] + pads[k + count] < dilations[k] * (kernel[k] - 1) + 1 for k, size in enumerate(sides)
    )


def other_kernel(call: Call) -> bool:
    x, told = call.shape(0), (("kernel_shape", 1), ("strides", 1), ("dilations", 1), ("pads", 2))
    given = [(call.attribute(name), each) for name, each in told]
    return x is not None and any(of is not None and len(of) != each * (len(x) - 2) for of, each in given)


def windows_of_pads(call: Call) -> bool:
    """Whether a window may hold pads alone."""
    x, kernel = call.shape(0), call.attribute("kernel_shape", [])
    if x is None or len(x) - 2 != len(kernel):
        return False
    ones, sides = [1] * len(kernel), x[2:]
    strides, dilations = call.attribute("strides") or ones, call.attribute("dilations") or ones
    pads = call.attribute("pads") or [0] * 2 * len(kernel)
    for k, size in enumerate(sides):
        step, gap, extent = strides[k], dilations[k], dilations[k] * (kernel[k] - 1) + 1
        auto = encoded(call.attribute("auto_pad", "NOTSET"))
        if auto.startswith(b"SAME"):
            count = -(-size // step)
            pad = max((count - 1) * step + extent - size, 0)
            begin = pad // 2 if auto == b"SAME_UPPER" else pad - pad // 2
        else:
            begin, room = pads[k], size + pads[k] + pads[k + len(kernel)] - extent
            count = (-(-room // step) if call.attribute("ceil_mode", 0) else room // step) + 1
        if any(all(not 0 <= at * step - begin + tap * gap < size for tap in range(kernel[k])) for at in range(count)):
            return True
    return False


def padded_twice(call: Call) -> bool:
    """Whether pads are told beside `auto_pad`, which the text forbids: inference may count them, and a kernel not."""
    return encoded(call.attribute("auto_pad", "NOTSET")) != b"NOTSET" and any(call.attribute("pads", ()))
