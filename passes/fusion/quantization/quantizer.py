"""QDQ as QOperator: DequantizeLinear, an operator on floats and QuantizeLinear are the operator on integers.

The scales stay what they are: one for a tensor, or one for each channel of the weights where the operator has that.
A bias is taken where it is held in int32 in the scale of the products, or can be with next to no difference. Nothing
else is quantized that was not. What stays, though it is computed of dequantized values, is said, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Allowance, Change
from opshift.passes.errors import Refusal
from opshift.passes.fusion.group import Uses
from opshift.passes.fusion.quantization.calls import (
    FloatCall,
    IntegerOperands,
    QuantizedKind,
    output_elem_type,
    try_make,
)
from opshift.passes.fusion.quantization.dynamic import dynamic
from opshift.passes.fusion.quantization.forms import DYNAMIC, MOVED
from opshift.passes.fusion.quantization.integer_operators import FLOATS, INTEGERS, KINDS
from opshift.passes.fusion.quantization.operands import FIRST, LAST, Operands, Stays, input_at, value_of
from opshift.passes.fusion.quantization.stays import reason
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import NodeProto, TensorProto, normalize_domain
from opshift.passes.model.traversal import Op
from opshift.passes.rewrite.builder import Builder

T = TensorProto
_RANGE: dict[int, tuple[int, int]] = {T.UINT8: (0, 255), T.INT8: (-128, 127)}
_REMARK = "computes in integers and rounds once, which may differ by a step"
_OF_ZEROS = "for all zeros, the scale is 1 in onnxruntime and 0 in ONNX"
_REMARKS = {"MatMulNBits": "sums in another order"}
_EXACT = frozenset(("QLinearConcat", "QLinearLeakyRelu", "QLinearSigmoid", "QLinearWhere"))
"""Operators that are tables of what is computed in floats, or copies."""


@dataclass(frozen=True)
class Quantizer:
    """Finds the calls of quantized operators in one body."""

    scope: Scope
    uses: Uses
    allowance: Allowance
    where: str = ""
    """The function that the body is of, or in."""
    stays: list[Refusal] = field(default_factory=list)
    """The calls that are computed of dequantized values and stay on floats."""

    def find_replacements(self, ops: Sequence[Op]) -> dict[int, list[NodeProto]]:
        """The nodes that take the places of others, by index."""
        found: dict[int, list[NodeProto]] = {}
        nodes = self.scope.body.node
        wanted: dict[str, list[Op]] = {}
        for op in ops:
            if op in KINDS:
                wanted.setdefault(KINDS[op].of, []).append(op)
        for index, node in enumerate(nodes):
            if node.op_type == "QuantizeLinear" and not normalize_domain(node.domain):
                found |= self._quantize(index, node, wanted)
        roots = [(op, root) for op in FLOATS if op in ops for root in FLOATS[op]]
        for op, root in roots:
            for index, node in enumerate(nodes):
                if node.op_type == root.of and not normalize_domain(node.domain) and index not in found:
                    found |= self._in_floats(index, node, op, root, found)
        if DYNAMIC in ops:
            for index, node in enumerate(nodes):
                if node.op_type == "QuantizeLinear" and not normalize_domain(node.domain) and index not in found:
                    found |= self._dynamic(index, node, found)
        self._account(found, wanted, whole=MOVED in ops)
        return found

    def _quantize(self, index: int, node: NodeProto, wanted: Mapping[str, Sequence[Op]]) -> dict[int, list[NodeProto]]:
        operands = Operands(self.scope, self.uses)
        elem_type = output_elem_type(operands, node)
        call = _before(operands, node, elem_type) if elem_type else None
        why = ""
        for op in wanted.get(call.node.op_type, ()) if call is not None else ():
            assert call is not None, "it is looked for above"
            build = Builder(self.scope, self.scope.opset, node)
            operands = replace(operands, scalars=bool(op[0]))
            try:
                made = KINDS[op].make(operands, build, call, elem_type)
            except Stays as stays:
                made, why = None, why or str(stays)
            if made is None:
                continue
            zero = operands.one(build, input_at(node, 2)) or build.constant(0, elem_type)
            at = KINDS[op].result
            inputs = [*made.inputs[:at], operands.one(build, node.input[1]), zero, *made.inputs[at:]]
            how = f"Folded DequantizeLinear, {call.node.op_type}, QuantizeLinear into {op[1]}"
            return self._replace(index, node, op, how, made._replace(inputs=inputs), build, call)
        if call is not None and why:
            self._stay(call.node, why)
        return {}

    def _account(self, found: Mapping[int, Any], wanted: Mapping[str, Sequence[Op]], *, whole: bool) -> None:
        """Say why calls stay that are computed of dequantized values; all calls if a `whole` model is rewritten."""
        operands, said = Operands(self.scope, self.uses), {refusal.node for refusal in self.stays}
        for index, node in enumerate(self.scope.body.node):
            if index in found or normalize_domain(node.domain) or (node.op_type not in wanted and not whole):
                continue
            if name_of(node) in said or not any(operands.maker_if(name, "DequantizeLinear") for name in node.input):
                continue
            if why := reason(operands, node, is_wanted=node.op_type in wanted):
                self._stay(node, why)

    def _stay(self, node: NodeProto, why: str) -> None:
        self.stays.append(Refusal(name_of(node), node.op_type, "", 0, False, why, self.where))

    def _in_floats(
        self, index: int, node: NodeProto, op: Op, root: QuantizedKind, found: Mapping[int, Any]
    ) -> dict[int, list[NodeProto]]:
        operands, build = Operands(self.scope, self.uses), Builder(self.scope, self.scope.opset, node)
        call = FloatCall(node, list(node.input), [])
        made = try_make(root.make, operands, build, call, 0)
        if made is None or any(at in found for at in call.inside):
            return {}
        how = made.how or f"Folded {node.op_type} and the nodes before it into {made.op or op[1]}"
        return self._replace(index, node, op, how, made, build, call)

    def _dynamic(self, index: int, node: NodeProto, found: Mapping[int, Any]) -> dict[int, list[NodeProto]]:
        """DynamicQuantizeLinear in the place of what makes the scale, before anything reads one of its results."""
        of = dynamic(Operands(self.scope, self.uses), node)
        places = [index, *(self.uses.makers[name] for name in of[1:])] if of is not None else []
        if of is None or any(at in found for at in places):
            return {}
        how, name, opset = (
            f"Folded the nodes that compute the scale, and QuantizeLinear, into {DYNAMIC[1]}",
            name_of(node),
            self.scope.opset,
        )
        if not self.allowance.permits(name, DYNAMIC[1], how):
            return {}
        made = NodeProto(op_type=DYNAMIC[1], name=node.name, doc_string=node.doc_string, input=[of.x])
        made.output.extend([node.output[0], of.scale, of.zero_point])
        gone = [node, *(self.scope.body.node[at] for at in places)]
        self.scope.context.released.update(Operands(self.scope, self.uses).above(*gone))
        self.allowance.made.append(Change(name, DYNAMIC[1], "", opset, opset, how, "close", _OF_ZEROS))
        return {**{at: [] for at in places}, self.uses.makers[of.scale]: [made]}

    def _replace(
        self, index: int, node: NodeProto, op: Op, how: str, made: IntegerOperands, build: Builder, call: FloatCall
    ) -> dict[int, list[NodeProto]]:
        name, exact = name_of(node), op[1] in _EXACT or op in INTEGERS
        op = ("", made.op) if made.op else op
        if not self.allowance.permits(name, op[1], how):
            return {}
        inputs = list(made.inputs)
        while inputs and not inputs[-1]:
            inputs.pop()
        result = NodeProto(op_type=op[1], domain=op[0], name=node.name, doc_string=node.doc_string, input=inputs)
        result.output.append(node.output[0])
        result.attribute.extend(
            make_attribute(key, value) for key, value in made.attributes.items() if value is not None
        )
        operands, opset = Operands(self.scope, self.uses), self.scope.opset
        gone = [self.scope.body.node[at] for at in call.inside]
        self.scope.context.released.update(operands.above(node, call.node, *gone))
        grade, remark = ("exact", "") if exact else ("close", _REMARKS.get(op[1], _REMARK))
        remark = "; ".join(filter(None, [remark, made.remark]))
        self.allowance.made.append(Change(name, op[1], op[0], opset, opset, how, grade, remark))
        return {**{at: [] for at in call.inside}, index: [*build.nodes, result]}


def name_of(node: NodeProto) -> str:
    """The name of a node; that of what it makes where it has none."""
    return node.name or node.output[0]


def _before(of: Operands, node: NodeProto, elem_type: int) -> FloatCall | None:
    """The call whose result is quantized: behind a Relu that the lowest number stands for, and between Transposes."""
    name, inside, levels = node.input[0], list[int](), (node.input[1], input_at(node, 2))

    def step(name: str) -> NodeProto | None:
        at = of.uses.makers.get(name)
        made = None if at is None else of.scope.body.node[at]
        if at is None or made is None or normalize_domain(made.domain) or not of.alone(name):
            return None
        inside.append(at)
        return made

    made = step(name)
    if made is not None and made.op_type in ("Relu", "Clip") and _cuts_nothing(of, made, node, elem_type):
        made = step(made.input[0])
    if made is not None and made.op_type == "Transpose" and of.find_transposed(made.output[0])[1] == LAST:
        made = step(made.input[0])
        x, turned = of.find_transposed(made.input[0]) if made is not None and made.input else ("", "")
        if made is None or turned != FIRST:
            return None
        return FloatCall(made, [x, *made.input[1:]], inside, {"channels_last": 1}, *levels)
    if made is not None and made.op_type == "Reshape":  # Softmax over several axes
        rows = _softmax_of_rows(of, made, step, inside)
        return None if rows is None else replace(rows, scale=levels[0])
    return None if made is None else FloatCall(made, list(made.input), inside, {}, *levels)


def _cuts_nothing(of: Operands, node: NodeProto, quantize: NodeProto, elem_type: int) -> bool:
    """Whether the bounds of a Relu or a Clip lie where numbers of the type end."""
    scale, zero = of.number(quantize.input[1]), of.number(input_at(quantize, 2)) if input_at(quantize, 2) else 0.0
    if zero is None:
        return False
    bounds = (0.0, inf) if node.op_type == "Relu" else _bounds(of, node)
    if bounds is None or not bounds[0] <= bounds[1] or (scale is None and bounds != (0.0, inf)):
        return False
    if scale is not None and scale <= 0:
        return False
    with np.errstate(all="ignore"):
        least, most = np.rint(np.array(bounds, np.float32) / np.float32(scale or 1)) + zero
    return bool(least <= _RANGE[elem_type][0] and most >= _RANGE[elem_type][1])


def _bounds(of: Operands, node: NodeProto) -> tuple[float, float] | None:
    """Those of a Clip; None if only the run tells."""
    held = [
        of.number(input_at(node, place)) if input_at(node, place) else none for place, none in ((1, -inf), (2, inf))
    ]
    least, most = (value_of(node, name, number) for name, number in zip(("min", "max"), held, strict=True))
    return None if least is None or most is None else (least, most)


def _softmax_of_rows(of: Operands, node: NodeProto, step: Callable[[str], Any], inside: list[int]) -> FloatCall | None:
    """Softmax as it was below opset 13: of a matrix that is shaped as the data were."""
    softmax = step(node.input[0])
    flat = of.maker_if(softmax.input[0], "Flatten") if softmax is not None and softmax.op_type == "Softmax" else None
    found = of.find_dequantized(flat.input[0]) if flat is not None else None
    if flat is None or found is None or value_of(softmax, "axis", -1) not in (1, -1):
        return None
    if not _is_shape_of(of, node, flat.input[0], found.values):
        return None
    return FloatCall(softmax, [flat.input[0]], inside, {"opset": 12, "axis": value_of(flat, "axis", 1)})


def _is_shape_of(of: Operands, reshape: NodeProto, *names: str) -> bool:
    """Whether a Reshape is to the shape that these values have: a Shape of one says so, or numbers do."""
    shape = of.maker_if(reshape.input[1], "Shape")
    if shape is not None:
        return not shape.attribute and shape.input[0] in names
    wanted, dims = of.scope.ints(reshape.input[1]) or [], of.scope.shape(names[0]) or []
    kept = all(number == -1 or number == dim != 0 for number, dim in zip(wanted, dims, strict=False))
    return bool(wanted) and kept and len(wanted) == len(dims) and wanted.count(-1) < 2
