"""What a converted model still declares, though inference at its opset says otherwise.

A newer operator's inference finds out more. What a model always declared wrongly then stands in its way: `onnx.checker`
took the source, and would not take the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opshift.passes.analysis import claims
from opshift.passes.analysis.type_inference import Inference, contradiction
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import ModelProto
from opshift.passes.model.traversal import Op, bodies

_TELL_MORE = {
    ("", "ThresholdedRelu"): 10,
    ("", "Slice"): 10,
    ("", "Compress"): 11,
    ("", "NonMaxSuppression"): 11,
    ("", "Reshape"): 14,
}
"""Operators, and the version from which on inference tells shapes of them that it did not tell before."""


def mended(
    model: ModelProto, source: ModelProto, calls: Iterable[Op], targets: Mapping[str, int], inference: Inference
) -> bool:
    """Mend in `model` what is declared of shapes that are otherwise, if the checker would refuse it for that."""
    own, target = opsets(source).get("", 0), targets.get("", 0)
    tells_more = any(own < _TELL_MORE.get(op, 0) <= target for op in calls) and _is_computed(source)
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
