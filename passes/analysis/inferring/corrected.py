"""ONNX's inference with what it gets wrong set right.

Axes and steps of Slice whose shape it does not know it takes for left out, of unknown sizes of Attention it makes 0, of
pools it counts windows behind the data, and of GroupNormalization it knows nothing from opset 21 on.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from opshift.passes.analysis.inferring import attention_sizes, later_versions, open_slices, pool_windows
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import FunctionProto, GraphProto, ModelProto, NodeProto, default_domain
from opshift.passes.model.traversal import Op, bodies, declarations, with_nested

_ASIDE = ".opshift"
_GROUPS, _LIKE_GROUPS = "GroupNormalization", "InstanceNormalization"
"""Both make what is of the type and the shape of their first input."""


def inferred(model: ModelProto, ops: Container[Op] | None = None) -> ModelProto:
    """A copy with the types and shapes that follow from those of the inputs and of constants.

    Of a call of Attention whose values have an unknown size, ONNX infers one of 0, and of pools windows that there are
    not: nothing is asked of it then, nor of scores that it makes as many as there are not. `ops` are those that the
    model calls, if they are known, by the empty name of the default domain. Lists of unknown shape are stated in
    `model` itself.
    """
    if ops is not None and ("", _GROUPS) not in ops:
        return _inferred(model, ops)
    groups = [node for body in bodies(model) for node in body.node if node.op_type == _GROUPS and not node.domain]
    for node in groups:
        node.op_type = _LIKE_GROUPS
    try:
        made = _inferred(model, ops)
    finally:
        for node in groups:
            node.op_type = _GROUPS
    for body, other in zip(bodies(model), bodies(made), strict=True):
        for node, copy in zip(body.node, other.node, strict=True):
            copy.op_type = node.op_type
    return made


def _inferred(model: ModelProto, ops: Container[Op] | None) -> ModelProto:
    made = later_versions.inferred(model, ops)
    slices = ops is None or ("", "Slice") in ops
    if slices and open_slices.state_lists(model, made):
        made = later_versions.inferred(model, ops)
    if ops is not None and all(("", op) not in ops for op in ("Attention", *pool_windows.POOLS)):
        return made
    wrong, scored = _wrong(model, made)
    if not wrong and not scored:
        return made
    kept = [(node, node.op_type, node.output[:]) for node in (*wrong, *scored)]
    for node in wrong:
        node.op_type += _ASIDE
    for node in scored:
        del node.output[attention_sizes.SCORES :]
    try:
        made = later_versions.inferred(model, ops)
    finally:
        for node, op, outputs in kept:
            _rename(node, op, outputs)
    for body, other in zip(bodies(model), bodies(made), strict=True):
        for node, copy in zip(body.node, other.node, strict=True):
            if (copy.op_type, len(copy.output)) != (node.op_type, len(node.output)):
                _rename(copy, node.op_type, node.output)
    return made


def _rename(node: NodeProto, op: str, outputs: Iterable[str]) -> None:
    node.op_type = op
    del node.output[:]
    node.output.extend(outputs)


def _wrong(model: ModelProto, made: ModelProto) -> tuple[list[NodeProto], list[NodeProto]]:
    """The nodes of which inference, which `made` is, tells what is not so, and those where it does of scores alone."""
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    held = [
        (node, holder)
        for holder in holders
        for body in with_nested([holder.graph if isinstance(holder, ModelProto) else holder])
        for node in body.node
        if not default_domain(node.domain)
    ]
    pools = [
        (node, holder)
        for node, holder in held
        if pool_windows.may_begin_behind(node, opsets(holder).get("", pool_windows.LEFT_OUT))
    ]
    attentions = [(node, holder) for node, holder in held if attention_sizes.is_attention(node)]
    if not pools and not attentions:
        return [], []
    values = [value for body in bodies(made) if isinstance(body, GraphProto) for value in body.input]
    kinds = {value.name: value.type for value in (*values, *declarations(made))}
    wrong = [node for node, holder in pools if holder is not model or pool_windows.begins_behind(node, kinds)]
    scored = []
    for node, holder in attentions:
        mistaken = attention_sizes.mistaken(node, kinds if holder is model else {})
        if node.output[0] in mistaken:
            wrong.append(node)
        elif mistaken:
            scored.append(node)
    return wrong, scored
