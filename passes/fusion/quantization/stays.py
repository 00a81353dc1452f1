"""Why calls of dequantized values stay on floats, where no operand or result of theirs says so."""

from __future__ import annotations

from opshift.passes.fusion.quantization.calls import output_elem_type
from opshift.passes.fusion.quantization.integer_operators import KINDS
from opshift.passes.fusion.quantization.operands import Operands
from opshift.passes.fusion.quantization.products import MOVING
from opshift.passes.model.messages import NodeProto, normalize_domain


def reason(of: Operands, node: NodeProto, *, is_wanted: bool) -> str:
    """Why a call stays, which is one of the operators that are looked for or any other; empty if it is no such call."""
    why = _why_in_floats(of, node)
    if is_wanted:
        return why or "QLinear operators cannot express it"
    if why or node.op_type in ("DequantizeLinear", "QuantizeLinear"):
        return ""
    if node.op_type in MOVING:
        return "its result has another scale or zero point"
    theirs = [f"; {op[0]}::{op[1]} comes in by its name" for op in KINDS if KINDS[op].of == node.op_type]
    return "".join(["ONNX has no such QLinear operator", *theirs[:1]])


def _why_in_floats(of: Operands, node: NodeProto) -> str:
    """Say why the result of a node stays in floats; empty if it becomes integers."""
    readers = of.uses.users.get(node.output[0], [])
    if not of.alone(node.output[0]):
        count = len(readers)
        return "its result is also used elsewhere" if count < 2 else f"{count} nodes use its result"
    reader = of.scope.body.node[readers[0]]
    if reader.op_type == "QuantizeLinear" and not normalize_domain(reader.domain):
        if output_elem_type(of, reader):
            return ""
        return "its result is quantized to another type, or with several scales; supported: 8 bits with one scale"
    followed = (of.scope.body.node[at].op_type for name in reader.output for at in of.uses.users.get(name, ()))
    between = "stands between it and QuantizeLinear" if "QuantizeLinear" in followed else "reads its result"
    return f"{reader.op_type} {between}"
