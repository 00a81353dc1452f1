"""DynamicQuantizeLinear as it is written out: the scale and the zero point are computed of the range of the data."""

from __future__ import annotations

from typing import NamedTuple

from opshift.passes.fusion.quantization.operands import Operands, input_at, value_of
from opshift.passes.model.messages import NodeProto, TensorProto

T = TensorProto
MOST = 255


class Range(NamedTuple):
    """The data that are quantized, the scale and the zero point."""

    x: str
    scale: str
    zero_point: str


def dynamic(of: Operands, node: NodeProto) -> Range | None:
    """What a QuantizeLinear reads, if its scale and zero point are those that the range of its data gives."""
    x, divisor, zero = (input_at(node, index) for index in range(3))
    if {a.name for a in node.attribute} - {"axis", "saturate"} or of.scope.elem_type(x) != T.FLOAT or not zero:
        return None
    scale = _behind_safety(of, divisor)
    div = of.maker_if(scale, "Div")
    span = of.maker_if(div.input[0], "Sub") if div is not None and of.number(div.input[1]) == MOST else None
    if span is None or not _is_end(of, span.input[0], x, "Max") or not _is_end(of, span.input[1], x, "Min"):
        return None
    made = _is_quantized_zero(of, zero, divisor, x) or _is_rounded_zero(of, zero, scale, x)
    return Range(x, scale, zero) if made else None


def _behind_safety(of: Operands, divisor: str) -> str:
    """The scale to which 1 is added where it is 0."""
    added = of.maker_if(divisor, "Add")
    cast = of.maker_if(added.input[1], "Cast") if added is not None else None
    flat = of.maker_if(cast.input[0], "Not") if cast is not None and value_of(cast, "to", 0) == T.FLOAT else None
    more = of.maker_if(flat.input[0], "Greater") if flat is not None else None
    if added is None or more is None or more.input[0] != added.input[0] or of.number(more.input[1]) != 0:
        return divisor
    return added.input[0]


def _is_end(of: Operands, name: str, x: str, end: str) -> bool:
    """Whether a value is the largest or the least element, or 0 where that lies beyond."""
    node = of.maker_if(name, end)
    if node is None or len(node.input) != 2:
        return False
    for reduced, nought in (node.input, node.input[::-1]):
        reduce = of.maker_if(reduced, f"Reduce{end}")
        if reduce is not None and of.number(nought) == 0 and reduce.input[0] == x:
            bare = not input_at(reduce, 1) and not value_of(reduce, "axes", ()) and not value_of(reduce, "keepdims", 1)
            return bare and not value_of(reduce, "noop_with_empty_axes", 0)
    return False


def _is_quantized_zero(of: Operands, zero: str, divisor: str, x: str) -> bool:
    """Whether a zero point is QuantizeLinear of 0 minus the least element."""
    node = of.maker_if(zero, "QuantizeLinear")
    minus = of.maker_if(node.input[0], "Sub") if node is not None else None
    if node is None or minus is None or node.attribute or input_at(node, 2) or node.input[1] != divisor:
        return False
    return of.number(minus.input[0]) == 0 and _is_end(of, minus.input[1], x, "Min")


def _is_rounded_zero(of: Operands, zero: str, scale: str, x: str) -> bool:
    """Whether a zero point is 0 minus the least element, divided, clipped, rounded and cast, as in ONNX's text."""
    cast = of.maker_if(zero, "Cast")
    round_ = of.maker_if(cast.input[0], "Round") if cast is not None and value_of(cast, "to", 0) == T.UINT8 else None
    clip = of.maker_if(round_.input[0], "Clip") if round_ is not None else None
    minus = of.maker_if(clip.input[0], "Sub") if clip is not None else None
    div = of.maker_if(minus.input[1], "Div") if minus is not None else None
    if clip is None or minus is None or div is None or div.input[1] != scale:
        return False
    bounds = of.number(input_at(clip, 1)), of.number(input_at(clip, 2))
    return bounds == (0, MOST) and of.number(minus.input[0]) == 0 and _is_end(of, div.input[0], x, "Min")
