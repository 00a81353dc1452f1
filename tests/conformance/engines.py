"""The engines that judge: onnxruntime, the same rounding as the model says, onnx.reference, and for the oldest opsets
onnxruntime after onnx's own converter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.helper
import onnx.parser
import onnx.version_converter
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from opshift.verification.engines import EngineError, OnnxRuntime, Reference
from tests import quirks

DEFAULT = ("", "ai.onnx")
NO_JUDGE = "no judge"
LACKING = (  # what an engine says of its own limits
    NO_JUDGE, "NOT_IMPLEMENTED", "is under development", "Unsupported model IR version", "is computed as opset",
    "the memory does not suffice", "Missing Input: ", "but got: (null)",  # in a subgraph that reads a Cast of a Cast: onnxruntime takes the latter out, optimizations or not
    "is not implemented for", "No registered implementation", "is the newest it loads", "must have the shape set for all outputs",
    "Issues with types [<class 'NoneType'>", "can't be converted to MLDataType", "No corresponding Numpy type",
    "data type is not supported with",
)  # fmt: skip
OLDEST_WITH_KERNELS = 7  # of onnxruntime: it loads older opsets, but has no Add, no Cast there


class Runtime(OnnxRuntime):
    """onnxruntime. A model of an opset that it does not load yet is stamped with the newest that it loads, where the
    standard gives every operator the same version at both: then it is the same model."""

    engine = "onnxruntime"

    def __init__(self, model: ModelProto):
        newest = newest_loaded()
        if opset(model) > newest:
            model = restamped(model, newest)
            self.engine = f"onnxruntime at {newest}"
        super().__init__(model)

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """See `Session.run`. It gets copies: BatchNormalization updates the running means that it is given in place."""
        return super().run({name: np.copy(v) if isinstance(v, np.ndarray) else v for name, v in feeds.items()})


class AsWritten(Runtime):
    """onnxruntime with two Identity nodes behind every node, so that each value is rounded to its type.

    Where it computes float16 in float32, it leaves out the rounding between two such nodes; which roundings are left
    depends on the neighbours of a node, and so differs between two forms of one model. Identity has a float16 kernel,
    which a single one between nodes of float32 does not use.
    """

    engine = "onnxruntime, rounding as written"

    def __init__(self, model: ModelProto):
        held = ModelProto()
        held.CopyFrom(model)
        for body in (held.graph, *held.functions):
            _hold(body)
        super().__init__(held)


def _hold(body: Any) -> None:
    nodes = list(body.node)
    del body.node[:]
    for node in nodes:
        for graph in _graphs(node):
            _hold(graph)
        made = [name for name in node.output if name]
        node.output[:] = [f"{name}/free" if name else "" for name in node.output]
        body.node.append(node)
        for name in made:
            for before, after in pairwise((f"{name}/free", f"{name}/held", name)):
                body.node.append(NodeProto(op_type="Identity", input=[before], output=[after]))


class Raised(Runtime):
    """onnxruntime for a model below the opsets that it has kernels for, which onnx's own converter takes up to them."""

    engine = "onnxruntime after onnx's converter"

    def __init__(self, model: ModelProto):
        if opset(model) >= OLDEST_WITH_KERNELS:
            raise EngineError(f"opset {opset(model)} is run as it is")
        try:
            raised = onnx.version_converter.convert_version(model, OLDEST_WITH_KERNELS)
        except Exception as error:
            raise EngineError(" ".join(str(error).split())[:200]) from None
        super().__init__(raised)


class Evaluator(Reference):
    """onnx.reference, but not where it does not look at the version of an operator: what it says would prove nothing."""

    def __init__(self, model: ModelProto):
        if why := quirks.excuse(self.engine, model):
            raise EngineError(why)
        super().__init__(model)


Judge = type[Runtime] | type[Evaluator]
JUDGES: tuple[Judge, ...] = (Runtime, AsWritten, Raised, Evaluator)


def lacks(why: str) -> bool:
    """Whether an engine says that it lacks something, not that a model is wrong."""
    return any(word in why for word in LACKING)


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
