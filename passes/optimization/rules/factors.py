"""Two factors that are constants become one."""

from __future__ import annotations

from typing import Any

from opshift.passes.model.lazy_numpy import np
from opshift.passes.rewrite.says import says
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.rules import EDITED, Outcome, rule
from opshift.passes.simplification.rules.identities import keeps_shape, splat


@says("Merged two multiplications by constants")
@rule("Mul", close=True)
def multiply_once(call: Call) -> Outcome:
    if not (call.maker_if("Mul", 0) or call.maker_if("Mul", 1)):
        return None
    outer = _factor(call)
    made = call.maker(outer[0]) if outer is not None else None
    if made is None or outer is None or made.op != "Mul" or not call.alone(outer[0]):
        return None
    for value, other in ((0, 1), (1, 0)):
        held = made.array(other, 1 << 16)
        if held is None or held.dtype.kind != "f" or made.array(value) is not None:
            continue
        with np.errstate(all="ignore"):  # what makes no number is looked at
            product = (held.astype(np.float64) * outer[1]).astype(held.dtype)
        if not np.isfinite(product).all() or (np.abs(product) < np.finfo(held.dtype).tiny)[held != 0].any():
            return None
        call.read(made.input(value), call.constant(_tensor(product), made.input(other)))
        call.close("multiplies the constants first")
        return EDITED
    return None


def _factor(call: Call) -> tuple[int, Any] | None:
    """Which input a multiplication by one number has that is not that number, and the number."""
    for value, other in ((0, 1), (1, 0)):
        held = splat(call, other)
        if held is not None and held.dtype.kind == "f" and held != 0 and keeps_shape(call, value, other):
            return value, held.astype(np.float64)
    return None


def _tensor(array: Any) -> Any:
    import onnx.numpy_helper

    return onnx.numpy_helper.from_array(array)
