"""When the text leaves open what scales and zero points are for."""

from __future__ import annotations

import numpy as np

from tests.node_calls import Call


def unscaled(call: Call) -> bool:
    """Whether the sizes of a scale are not those of what it scales, and those of a zero point not those of the scale."""
    x, scale, zero = (call.shape(at) for at in range(3))
    if x is None or scale is None:
        return False
    if zero is not None and zero != scale and not {zero, scale} <= {(), (1,)}:
        return True
    axis, block = call.attribute("axis", 1), call.attribute("block_size", 0)
    if call.opset < 13 or not scale or not x or not -len(x) <= axis < len(x):
        return bool(block) or scale not in ((), (1,))
    if not block:
        return scale not in ((1,), (x[axis],))
    blocks = [*x]
    blocks[axis] = -(-x[axis] // block)
    return list(scale) != blocks or zero not in (None, scale)


def moved_float8(call: Call) -> bool:
    zero = call.given(2)
    return (
        zero is not None
        and zero.dtype.name.startswith(("float8", "float4"))
        and bool((zero.astype(np.float32) != 0).any())
    )


def multiplies_unscaled(call: Call) -> bool:
    """Whether a scale or a zero point is neither one number nor one for each row of the first or column of the second matrix."""
    scaled = call.node.op_type == "QLinearMatMul"
    a, b = call.shape(0), call.shape(3 if scaled else 1)
    groups = ((a, -2, (1, 2) if scaled else (2,)), (b, -1, (4, 5) if scaled else (3,)))
    for of, axis, inputs in groups:
        shapes = [shape for shape in map(call.shape, inputs) if shape is not None]
        if of is None or len(of) < 2:
            allowed = {(), (1,)}
        else:
            allowed = {(), (1,), (of[axis],), (*of[:-2], of[-2], 1) if axis == -2 else (*of[:-2], 1, of[-1])}
        if any(shape not in allowed for shape in shapes) or (len(set(shapes)) > 1 and not set(shapes) <= {(), (1,)}):
            return of is not None
    return False
