"""Conditions without axes, for backends that take no other: ONNX allows any that has one element."""

from __future__ import annotations

from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Change
from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto
from opshift.trying.ways.rewriting import Rewriting

CONDITIONS = {"If": 0, "Loop": 1}
"""The operators that decide, and which input they decide by."""
_HOW = "Made its condition a scalar"


def scalar(model: ModelProto, op: str) -> tuple[ModelProto, list[Change]]:
    """The model whose calls of `op` decide by a scalar; itself where they do so, or nobody knows."""
    work, place = Rewriting(model, op, _HOW), CONDITIONS[op]

    def parts(graph: GraphProto, node: NodeProto, scope: Scope) -> list[NodeProto]:
        name = node.input[place] if len(node.input) > place else ""
        if not name or not scope.rank(name):
            return []
        made = work.fresh(f"{name}/scalar")
        node.input[place] = made
        return [NodeProto(op_type="Squeeze", input=[name], output=[made]), node]

    return work.everywhere(parts, "exact")
