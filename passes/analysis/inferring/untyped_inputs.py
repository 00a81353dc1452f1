"""Infer types by onnx without the nodes that would crash it: some operators whose input has no known type."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto
from opshift.passes.model.traversal import Op, declarations, with_nested

_CRASHING: set[Op] = {("ai.onnx.ml", "LabelEncoder"), ("ai.onnx.ml", "DictVectorizer")}
"""Operators whose inference in onnx 1.23.2 crashes the process if the type of an input is unknown."""

_HIDDEN = ".untyped"


def infer_shapes(model: ModelProto, **options: Any) -> ModelProto:
    """Infer types and shapes by onnx, and hide nodes that would crash it; `options` are onnx's own."""
    import onnx.shape_inference

    ops = _find_ops(model)
    waiting = _find_untyped(model, model, ops)
    while True:
        for node in waiting:
            node.op_type += _HIDDEN
        try:
            inferred = onnx.shape_inference.infer_shapes(model, **options)
        finally:
            for node in waiting:
                node.op_type = node.op_type.removesuffix(_HIDDEN)
        # onnx goes in the order of nodes: an input whose type it found has one in the next round, too
        still = _find_untyped(model, inferred, ops) if waiting else []
        if len(still) == len(waiting):
            break
        waiting = still
    if waiting:
        for node in _find_nodes(inferred, {(domain, op + _HIDDEN) for domain, op in ops}):
            node.op_type = node.op_type.removesuffix(_HIDDEN)
    return inferred


def _find_ops(model: ModelProto) -> set[Op]:
    """Find the operators that may crash, and the functions that call them."""
    ops, count = set(_CRASHING), 0
    while len(ops) > count:
        count = len(ops)
        for function in model.functions:
            if any((node.domain, node.op_type) in ops for body in with_nested([function]) for node in body.node):
                ops.add((function.domain, function.name))
    return ops


def _find_untyped(model: ModelProto, known: ModelProto, ops: Container[Op]) -> list[NodeProto]:
    """Find nodes of these operators in `model` that read a value to which `known` gives no type."""
    nodes = _find_nodes(model, ops)
    if not nodes:
        return []
    inputs = [value for body in with_nested([known.graph]) if isinstance(body, GraphProto) for value in body.input]
    typed = {value.name for value in (*inputs, *declarations(known)) if value.type.WhichOneof("value")}
    typed.update(tensor.name for tensor in known.graph.initializer)
    return [node for node in nodes if not typed.issuperset(filter(None, node.input))]


def _find_nodes(model: ModelProto, ops: Container[Op]) -> list[NodeProto]:
    return [node for body in with_nested([model.graph]) for node in body.node if (node.domain, node.op_type) in ops]
