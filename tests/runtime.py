"""onnxruntime for models of opsets that it does not load yet, and walks over the nodes of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.helper
import onnx.parser
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from opshift.verification.engines import EngineError, OnnxRuntime

DEFAULT = ("", "ai.onnx")


class Runtime(OnnxRuntime):
    """onnxruntime. A model of an opset that it does not load yet is stamped with the newest that it loads, where the
    standard gives every operator the same version at both: then it is the same model."""

    engine = "onnxruntime"
    own: tuple[str, ...] = ()  # operators that a judge computes itself, whatever its engine makes of them

    def __init__(self, model: ModelProto):
        newest = newest_loaded()
        if opset(model) > newest:
            model = restamped(model, newest)
            self.engine = f"onnxruntime at {newest}"
        super().__init__(model)

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """See `Session.run`. It gets copies: BatchNormalization updates the running means that it is given in place."""
        return super().run({name: np.copy(v) if isinstance(v, np.ndarray) else v for name, v in feeds.items()})


def opset(model: ModelProto) -> int:
    """The opset of the default domain; 1 where a model imports none."""
    return next((i.version for i in model.opset_import if i.domain in DEFAULT), 1)


@cache
def newest_loaded() -> int:
    """The newest opset that the installed onnxruntime loads."""
    for candidate in range(onnx.defs.onnx_opset_version(), 0, -1):
        text = f'<ir_version: 8, opset_import: ["": {candidate}]> g (float x) => (float y) {{ y = Abs(x) }}'
        try:
            OnnxRuntime(onnx.parser.parse_model(text))
        except EngineError:
            continue
        return candidate
    raise EngineError("onnxruntime loads no opset")


def restamped(model: ModelProto, to: int) -> ModelProto:
    """A copy that imports opset `to`; raises `EngineError` where an operator has another version there."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for holder in (copy, *copy.functions):
        for entry in (i for i in holder.opset_import if i.domain in DEFAULT and i.version > to):
            body = holder.graph.node if isinstance(holder, ModelProto) else holder.node
            for node in (n for n in every_node(body) if n.domain in DEFAULT):
                since = onnx.defs.get_schema(node.op_type, entry.version, "").since_version
                if since > to:
                    raise EngineError(f"{node.op_type} changed at opset {since}, and opset {to} is the newest it loads")
            entry.version = to
    copy.ir_version = min(copy.ir_version, onnx.helper.OP_SET_ID_VERSION_MAP[("ai.onnx", to)])
    return copy


def every_node(nodes: Any) -> Iterator[NodeProto]:
    """The nodes and, after each, those of its subgraphs."""
    for node in nodes:
        yield node
        for graph in _graphs(node):
            yield from every_node(graph.node)


def _graphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH or attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
