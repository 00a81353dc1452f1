"""What a converted model still declares, though inference at its opset says otherwise.

A newer operator's inference finds out more. What a model always declared wrongly then stands in its way: `onnx.checker`
took the source, and would not take the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opshift.passes.analysis import claims, ranks, sizes
from opshift.passes.analysis.scope import of_model
from opshift.passes.analysis.type_inference import Inference, contradiction
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.traversal import Op, bodies, holding
from opshift.passes.model.types import dims_of, has_shape

_TELL_MORE = {
    ("", "ThresholdedRelu"): 10,
    ("", "Slice"): 10,
    ("", "Compress"): 11,
    ("", "NonMaxSuppression"): 11,
    ("", "Reshape"): 14,
}
"""Operators, and the version from which on inference tells shapes of them that it did not tell before."""

_FEW = 8  # shapes that are looked up one by one, which takes less than inference does


def mended(
    model: ModelProto, source: ModelProto, calls: Iterable[Op], targets: Mapping[str, int], inference: Inference
) -> bool:
    """Mend in `model` what is declared of shapes that are otherwise, if the checker would refuse it for that."""
    own, target = opsets(source).get("", 0), targets.get("", 0)
    tells_more = any(own < _TELL_MORE.get(op, 0) <= target for op in calls) and _is_computed(source)
    tells_more = tells_more and not _is_told(source, own)
    if not (tells_more or inference.contradictions()) or not contradiction(model):
        return False
    inference.now()
    if not inference.contradictions() or contradiction(source):
        return False
    claims.mend(model, source, inference.type)
    return True


def _is_computed(source: ModelProto) -> bool:
    """Whether any of these operators takes what is not constant where inference looks for numbers."""
    for body in bodies(source):
        held = {tensor.name for tensor in getattr(body, "initializer", ())}
        for node in body.node:
            if node.op_type == "Constant":
                held.update(node.output)
            elif (node.domain, node.op_type) in _TELL_MORE and not held.issuperset(node.input[1:2]):
                return True
    return False


def _is_told(source: ModelProto, opset: int) -> bool:
    """Whether the nodes near each value tell the very shape that is declared of it, so that no inference denies it."""
    graph = source.graph
    declared = [value for value in (*graph.value_info, *graph.output) if has_shape(value.type)]
    if len(declared) > _FEW or holding(graph):
        return False
    scope = of_model(source, opset)
    for value in declared:
        dims = dims_of(value.type)
        if ranks.rank(scope, value.name) != len(dims):
            return False
        if any(isinstance(dim, int) and sizes.size(scope, value.name, k) != dim for k, dim in enumerate(dims)):
            return False
    return True
