"""Operators that ONNX's inference gets wrong at old opsets, taken for their version 11, which computes the same.

At opset 10 it takes what Slice cuts from a size with a name for the whole. Below 11 Squeeze and Unsqueeze pass over
axes that are not in order or are counted from the end, which runtimes take there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import AttributeProto, FunctionProto, ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import bodies, with_nested

RIGHT = 11
"""The version that the operators are taken for."""
ASIDE = "opshift.later"
_OPERANDS = {
    "Slice": (["data", "starts", "ends", "axes", "steps"], []),
    "Squeeze": (["data"], ["axes"]),
    "Unsqueeze": (["data"], ["axes"]),
}
"""The inputs and the attributes of that version."""
_FIRST = {"Slice": 10}
"""The oldest version that is inferred wrong, where it is not the first."""


def is_inferred_wrong(node: NodeProto, opset: int) -> bool:
    """Whether ONNX's inference gets a node of the default domain wrong at an opset."""
    if node.op_type not in _OPERANDS or not _FIRST.get(node.op_type, 1) <= opset < RIGHT:
        return False
    if node.op_type == "Slice":
        return True
    return any(a.name == "axes" and (a.ref_attr_name or not _counts_up(list(a.ints))) for a in node.attribute)


def _counts_up(axes: list[int]) -> bool:
    """Whether axes are in order, from the first axis on."""
    return axes == sorted(axes) and min(axes, default=0) >= 0


def right_opset(node: NodeProto, opset: int) -> int:
    """The opset at which a node is inferred right."""
    return RIGHT if is_inferred_wrong(node, opset) else opset


def rewrite(model: ModelProto) -> Callable[[ModelProto], None] | None:
    """Let nodes that are inferred wrong call functions of the later version; returns what takes that back."""
    turned = list(_wrong(model)) if min(_versions(model), default=RIGHT) < RIGHT else []
    if not turned:
        return None
    spelled, before = [node.domain for node in turned], len(model.functions)
    for holder in _holders(model):
        holder.opset_import.add(domain=ASIDE, version=1)
    model.functions.extend(_later(op) for op in sorted({node.op_type for node in turned}))
    for node in turned:
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
    """The opsets of the default domain that a model, or a function of it, is written at."""
    for holder in _holders(model):
        yield opsets(holder).get("", RIGHT)


def _wrong(model: ModelProto) -> Iterator[NodeProto]:
    for holder, opset in zip(_holders(model), _versions(model), strict=True):
        for body in with_nested([holder.graph if isinstance(holder, ModelProto) else holder]):
            yield from (n for n in body.node if not normalize_domain(n.domain) and is_inferred_wrong(n, opset))


def _later(op: str) -> FunctionProto:
    """A function of the later version, whose last inputs may be left out."""
    operands, attributes = _OPERANDS[op]
    made = FunctionProto(domain=ASIDE, name=op, input=operands, output=["output"], attribute=attributes)
    made.opset_import.add(domain="", version=RIGHT)
    called = made.node.add(op_type=op, input=operands, output=["output"])
    for name in attributes:
        called.attribute.add(name=name, ref_attr_name=name, type=AttributeProto.INTS)
    return made
