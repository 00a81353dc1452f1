"""Infer the types of a model by onnx, and correct its mistakes (see `cases.py`)."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from opshift.passes.analysis.inferring.cases import BY_OP, CASES, Case, Undo
from opshift.passes.analysis.inferring.untyped_inputs import infer_shapes
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, normalize_domain
from opshift.passes.model.traversal import Op, bodies, declarations, with_nested

_NEWEST = 1 << 30  # the opset of a model that imports none
_UNKNOWN = ".opshift"
"""The end of an operator's name that keeps onnx from inferring the node."""


def infer_types(model: ModelProto, ops: Container[Op] | None = None) -> ModelProto:
    """Copy the model with the types and shapes that follow from its inputs and constants.

    `ops` are the operators that the model calls, if known. Some shapes that onnx needs are declared in `model` itself.
    """
    cases = [case for case in CASES if ops is None or any(("", op) in ops for op in case.ops)]
    inferred = _infer(model, cases)
    for case in cases:
        if case.state is not None and case.state(model, inferred):
            inferred = _infer(model, cases)
    if all(case.find_wrong is None for case in cases):
        return inferred
    wrong = _find_wrong(model, inferred)
    if not wrong:
        return inferred
    kept = [(node, node.op_type, node.output[:]) for node, _ in wrong]
    for node, told in wrong:  # onnx infers nothing for an unknown operator
        if told:
            del node.output[told:]
        else:
            node.op_type += _UNKNOWN
    try:
        inferred = _infer(model, cases)
    finally:
        for node, op, outputs in kept:
            node.op_type = op
            node.output[:] = outputs
    for body, other in zip(bodies(model), bodies(inferred), strict=True):
        for node, copy in zip(body.node, other.node, strict=True):
            if (copy.op_type, len(copy.output)) != (node.op_type, len(node.output)):
                copy.op_type = node.op_type
                copy.output[:] = node.output
    return inferred


def _infer(model: ModelProto, cases: Sequence[Case]) -> ModelProto:
    """Rewrite the model by the cases, infer its types, and take the rewrites back in the model and in the copy."""
    undo: list[Undo] = []
    try:
        for case in cases:
            if case.rewrite is not None and (back := case.rewrite(model)) is not None:
                undo.insert(0, back)
        inferred = infer_shapes(model, data_prop=True)
    finally:
        for back in undo:
            back(model)
    for back in undo:
        back(inferred)
    return inferred


def _find_wrong(model: ModelProto, inferred: ModelProto) -> list[tuple[NodeProto, int]]:
    """List the nodes with wrongly inferred outputs, and how many outputs before these are inferred correctly."""
    wrong: list[tuple[NodeProto, int]] = []
    value_types: dict[str, TypeProto] = {}
    for node, holder, opset in _nodes(model):
        for case in BY_OP[node.op_type]:
            if case.find_wrong is None or case.may_be_wrong is None or not case.may_be_wrong(node, opset):
                continue
            if not value_types:
                values = [value for body in bodies(inferred) if isinstance(body, GraphProto) for value in body.input]
                value_types = {value.name: value.type for value in (*values, *declarations(inferred))}
            called = holder is not model
            found = case.find_wrong(node, {} if called else value_types, called)
            if found:
                wrong.append((node, min(place for place, name in enumerate(node.output) if name in found)))
    return wrong


def _nodes(model: ModelProto) -> Iterator[tuple[NodeProto, ModelProto | FunctionProto, int]]:
    """Yield the nodes of operators in the table, with the model or function around them, and its opset."""
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    for holder in holders:
        opset = opsets(holder).get("", _NEWEST)
        for body in with_nested([holder.graph if isinstance(holder, ModelProto) else holder]):
            for node in body.node:
                if node.op_type in BY_OP and not normalize_domain(node.domain):
                    yield node, holder, opset
