"""Bounds: what two nodes keep within them, one does."""

from __future__ import annotations

from typing import Any

from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.says import says
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.rules import EDITED, Outcome, rule
from opshift.passes.simplification.rules.identities import keeps_shape, splat

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
_CLIP_OF_DOUBLES = 12  # the opset from which on onnxruntime has it


def _find_bound(call: Call) -> tuple[str, Any] | None:
    """Find the input that a Max or Min bounds, and the constant bound."""
    elem_type = call.elem_type(0)
    if (
        len(call.inputs) != 2
        or elem_type not in _FLOATS
        or (elem_type == TensorProto.DOUBLE and call.opset < _CLIP_OF_DOUBLES)
    ):
        return None
    for value, other in ((0, 1), (1, 0)):
        bound = splat(call, other)
        if bound is not None and not np.isnan(bound) and keeps_shape(call, value, other):
            return call.input(value), bound
    return None


@says("Merged Max and Min into Clip")
@rule("Min", "Max", since=11)
def clip_at_once(call: Call) -> Outcome:
    made, outer = call.maker(0) or call.maker(1), _find_bound(call)
    made = call.maker(list(call.inputs).index(outer[0])) if outer is not None else made
    if made is None or outer is None or made.op != {"Min": "Max", "Max": "Min"}[call.op]:
        return None
    inner = _find_bound(made)
    if inner is None:
        return None
    low, high = (inner[1], outer[1]) if call.op == "Min" else (outer[1], inner[1])
    if low > high or (low == high and np.signbit(low) != np.signbit(high)):
        return None
    call.proto.op_type = "Clip"
    call.read(inner[0], _scalar(call, low), _scalar(call, high))
    return EDITED


def _scalar(call: Call, bound: Any) -> str:
    import onnx.numpy_helper

    return call.constant(onnx.numpy_helper.from_array(np.asarray(bound)))


def _is_natural(bound: Any) -> Any:
    """Whether a bound is 0.0 or more: beside -0.0, a Relu tells which zero comes out."""
    return (bound >= 0) & ~np.signbit(bound)


@says("Removed a Relu before a Clip at 0 or more")
@rule("Clip", since=11)
def clip_before_relu(call: Call) -> Outcome:
    made, low = call.maker(), call.array(1) if call.input(1) else None
    if made is None or made.op != "Relu" or low is None or low.size != 1 or not _is_natural(low).all():
        return None
    call.read(made.input(0), *list(call.inputs)[1:])
    return EDITED


@says("Merged Relu and Min into Clip")
@rule("Min", since=11)
def clip_relu(call: Call) -> Outcome:
    bounded = _find_bound(call)
    made = call.maker(list(call.inputs).index(bounded[0])) if bounded is not None else None
    if made is None or bounded is None or made.op != "Relu" or not _is_natural(bounded[1]):
        return None
    call.proto.op_type = "Clip"
    call.read(made.input(0), _scalar(call, np.zeros((), bounded[1].dtype)), _scalar(call, bounded[1]))
    return EDITED
