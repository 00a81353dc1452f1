"""A call in a graph, as a step sees it."""

from __future__ import annotations

from onnx import ModelProto
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node


def call(source: ModelProto, opset: int, *, index: int = 0, folder: str | None = None) -> Node:
    """A node of the main graph, to be written anew at the same opset."""
    scope = Scope(source.graph, Context(source, source, folder), opset, path=())
    proto = source.graph.node[index]
    return Node(proto, scope, opset, Builder(scope, opset, proto))
