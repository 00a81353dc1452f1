"""The engines that judge: onnxruntime, the same rounding as the model says, onnx.reference, and for the oldest opsets
onnxruntime after onnx's own converter."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import onnx
import onnx.defs
import onnx.helper
import onnx.parser
import onnx.version_converter
from onnx import ModelProto, NodeProto
from opshift.passes.model.traversal import subgraphs

from opshift.verification.engines import EngineError, Reference
from tests import quirks
from tests.runtime import Runtime, opset

NO_JUDGE = "no judge"
LACKING = (  # what an engine says of its own limits
    NO_JUDGE, "NOT_IMPLEMENTED", "is under development", "Unsupported model IR version", "is computed as opset",
    "not enough memory", "Missing Input: ", "but got: (null)",  # in a subgraph that reads a Cast of a Cast: onnxruntime takes the latter out, optimizations or not
    "is not implemented for", "No registered implementation", "is the newest it loads", "must have the shape set for all outputs",
    "Issues with types [<class 'NoneType'>", "can't be converted to MLDataType", "it exchanges no tensor(", "No corresponding Numpy type",
    "data type is not supported with", "No implementation for operator", "there is no trip, and nothing tells",
    "exceeds the supported maximum of",
    "class 'BatchNormalization_6' is a tuple",  # it looks for is_test, which 7 and 8 have not
)  # fmt: skip
OLDEST_WITH_KERNELS = 7  # of onnxruntime: it loads older opsets, but has no Add, no Cast there


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
        for _, _, graph in subgraphs(node):
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

    own: tuple[str, ...] = ()

    def __init__(self, model: ModelProto):
        if why := quirks.excuse(self.engine, model):
            raise EngineError(why)
        super().__init__(model)


Judge = type[Runtime] | type[Evaluator]
JUDGES: tuple[Judge, ...] = (Runtime, AsWritten, Raised, Evaluator)


def lacks(why: str) -> bool:
    """Whether an engine says that it lacks something, not that a model is wrong."""
    return any(word in why for word in LACKING)
