"""Reductions over several axes as reductions over one axis after the other, for backends that mix axes up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Change
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto
from opshift.trying.ways.rewriting import Rewriting

SPLIT = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"})
"""What is the same in several steps, but for rounding."""
_HOW = "Reduced one axis at a time"


def split(model: ModelProto, op: str) -> tuple[ModelProto, list[Change]]:
    """The model whose main graph reduces by `op` along one axis at a time; itself where it does so already."""
    work = Rewriting(model, op, _HOW)
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        parts = list(_parts(node, work))
        nodes += parts
        if len(parts) > 1:
            work.did(node, "close")
    return work.write(nodes)


def _parts(node: NodeProto, work: Rewriting) -> Iterator[NodeProto]:
    scope, fresh = work.scope, work.fresh
    axes = _axes(node, scope) if work.calls(node) else []
    keeps = next((attribute.i for attribute in node.attribute if attribute.name == "keepdims"), 1)
    order = _order(axes, scope.shape(node.input[0]) if axes else None, keeps=bool(keeps))
    if len(order) < 2:
        yield node
        return
    value = node.input[0]
    for place, axis in enumerate(order):
        part = NodeProto()
        part.CopyFrom(node)
        last = place == len(order) - 1
        part.name = node.name if last else f"{node.name}/{axis}" if node.name else ""
        part.input[0] = value
        value = node.output[0] if last else fresh(f"{node.output[0]}/{axis}")
        part.output[0] = value
        if len(node.input) > 1:
            name = fresh(f"{node.output[0]}/axis")
            held = TensorProto(name=name, data_type=TensorProto.INT64, dims=[1], int64_data=[axis])
            work.made.graph.initializer.append(held)
            part.input[1] = name
        for attribute in part.attribute:
            if attribute.name == "axes":
                del attribute.ints[:]
                attribute.ints.append(axis)
        yield part


def _axes(node: NodeProto, scope: Scope) -> list[int]:
    """The axes, as far as they are constants; none where they are not, or all are meant."""
    if len(node.input) > 1 and node.input[1]:
        held = scope.array(node.input[1])
        return [] if held is None else [int(axis) for axis in held.reshape(-1)]
    return next((list(attribute_value(a)) for a in node.attribute if a.name == "axes"), [])


def _order(axes: Sequence[int], shape: Sequence[object] | None, *, keeps: bool) -> list[int]:
    """The axes in an order in which a step makes no other axis of one that is left; none where there is no such."""
    distinct = sorted(set(axes))
    if keeps:
        return distinct
    if shape is not None:
        return sorted({axis % len(shape) for axis in axes}, reverse=True)
    if all(axis < 0 for axis in distinct):
        return distinct
    return distinct[::-1] if all(axis >= 0 for axis in distinct) else []
