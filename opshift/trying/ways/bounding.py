"""Inputs kept where exponentials do not overflow, for backends whose Tanh is NaN at large numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Change
from opshift.passes.model import tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto
from opshift.passes.model.types import ELEMENTS
from opshift.trying.ways.rewriting import Rewriting

BOUNDED: dict[str, tuple[float, float]] = {
    "Erf": (-8.0, 8.0),
    "Sigmoid": (-800.0, 40.0),
    "Softplus": (-800.0, 40.0),
    "Tanh": (-20.0, 20.0),
}
"""Beyond these numbers the function is flat, or is its input, to the last place of a double."""
_PASSING = frozenset({"Softplus"})
"""What is its input beyond the upper one."""
_HOW = "Clipped its input where exponentials overflow"
_AS_ATTRIBUTES, _AS_INPUTS = 6, 11
"""Since these opsets, Clip takes its limits in these ways."""


def bound(model: ModelProto, op: str) -> tuple[ModelProto, list[Change]]:
    """The model whose graphs compute `op` of bounded numbers; itself where none has it, or of unknown types only."""
    work = Rewriting(model, op, _HOW)
    return work.everywhere(partial(_parts, work.fresh), "close")


def _parts(fresh: Callable[[str], str], graph: GraphProto, node: NodeProto, scope: Scope) -> list[NodeProto]:
    elem_type = scope.elem_type(node.input[0])
    if scope.opset < _AS_ATTRIBUTES or elem_type not in ELEMENTS:
        return []
    given, made = node.input[0], node.output[0]
    clip = NodeProto(op_type="Clip", input=[given], output=[fresh(f"{made}/bounded")])
    for name, limit in zip(("min", "max"), BOUNDED[node.op_type], strict=True):
        if scope.opset < _AS_INPUTS:
            clip.attribute.append(make_attribute(name, limit))
            continue
        held = tensors.tensor(limit, elem_type)
        held.name = fresh(f"{made}/{name}")
        graph.initializer.append(held)
        clip.input.append(held.name)
    call = NodeProto()
    call.CopyFrom(node)
    call.input[0] = clip.output[0]
    if node.op_type not in _PASSING:
        return [clip, call]
    call.output[0] = fresh(f"{made}/least")
    return [clip, call, NodeProto(op_type="Max", input=[call.output[0], given], output=[made])]
