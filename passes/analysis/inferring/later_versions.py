"""Infer old Slice, Squeeze and Unsqueeze as version 11, which computes the same: ONNX infers the old ones wrongly.

At opset 10, Slice of a symbolic size is inferred to keep all of it. Below opset 11, Squeeze and Unsqueeze ignore axes
that are negative or not in ascending order, which runtimes accept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import AttributeProto, FunctionProto, ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import bodies, with_nested

RIGHT = 11
"""The version that is inferred in place of older ones."""
ASIDE = "opshift.later"
_OPERANDS = {
    "Slice": (["data", "starts", "ends", "axes", "steps"], []),
    "Squeeze": (["data"], ["axes"]),
    "Unsqueeze": (["data"], ["axes"]),
}
"""The inputs and the attributes of version 11."""
_FIRST = {"Slice": 10}
"""The oldest opset at which an operator is inferred wrongly, if it is not 1."""


def is_inferred_wrong(node: NodeProto, opset: int) -> bool:
    """Tell whether onnx infers a node of the default domain wrongly at an opset."""
    if node.op_type not in _OPERANDS or not _FIRST.get(node.op_type, 1) <= opset < RIGHT:
        return False
    if node.op_type == "Slice":
        return True
    return any(a.name == "axes" and (a.ref_attr_name or not _counts_up(list(a.ints))) for a in node.attribute)


def _counts_up(axes: list[int]) -> bool:
    """Tell whether axes are ascending, and none is negative."""
    return axes == sorted(axes) and min(axes, default=0) >= 0


def right_opset(node: NodeProto, opset: int) -> int:
    """Return the opset at which a node is inferred correctly."""
    return RIGHT if is_inferred_wrong(node, opset) else opset


def rewrite(model: ModelProto) -> Callable[[ModelProto], None] | None:
    """Let wrongly inferred nodes call functions of the later version; returns a function that takes that back."""
    wrong = list(_wrong(model)) if min(_versions(model), default=RIGHT) < RIGHT else []
    if not wrong:
        return None
    spelled, before = [node.domain for node in wrong], len(model.functions)
    for holder in _holders(model):
        holder.opset_import.add(domain=ASIDE, version=1)
    model.functions.extend(_later(op) for op in sorted({node.op_type for node in wrong}))
    for node in wrong:
        node.domain = ASIDE

    def undo(rewritten: ModelProto) -> None:
        nodes = [node for body in bodies(rewritten) for node in body.node if node.domain == ASIDE]
        for node, domain in zip(nodes, spelled, strict=True):
            node.domain = domain
        del rewritten.functions[before:]
        for holder in _holders(rewritten):
            del holder.opset_import[-1]

    return undo


def _holders(model: ModelProto) -> list[ModelProto | FunctionProto]:
    return [model, *model.functions]


def _versions(model: ModelProto) -> Iterator[int]:
    """Yield the opsets of the default domain that the model and its functions import."""
    for holder in _holders(model):
        yield opsets(holder).get("", RIGHT)


def _wrong(model: ModelProto) -> Iterator[NodeProto]:
    for holder, opset in zip(_holders(model), _versions(model), strict=True):
        for body in with_nested([holder.graph if isinstance(holder, ModelProto) else holder]):
            yield from (n for n in body.node if not normalize_domain(n.domain) and is_inferred_wrong(n, opset))


def _later(op: str) -> FunctionProto:
    """Make a function that calls the later version."""
    operands, attributes = _OPERANDS[op]
    made = FunctionProto(domain=ASIDE, name=op, input=operands, output=["output"], attribute=attributes)
    made.opset_import.add(domain="", version=RIGHT)
    called = made.node.add(op_type=op, input=operands, output=["output"])
    for name in attributes:
        called.attribute.add(name=name, ref_attr_name=name, type=AttributeProto.INTS)
    return made
