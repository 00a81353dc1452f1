"""Reduces a freshly stamped body to the nodes that this call needs: what is known of types and constants is
used up here. Only nodes that an expansion made are ever touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opshift.passes.analysis import evaluate
from opshift.passes.model import tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.editing import branches, dead_code
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto

if TYPE_CHECKING:
    from opshift.passes.rewrite.node import Node


def specialize_stamped(nodes: list[NodeProto], node: Node, opset: int) -> list[NodeProto]:
    """The nodes that are left of `nodes`, which took the place of `node` and are written at `opset`."""
    scope, kept = node.scope, list[NodeProto]()
    results = {name for name in node.outputs if name}
    pending = list(reversed(nodes))
    while pending:
        made = pending.pop()
        scope.record(made, opset)
        branch = _find_taken_branch(made, node)
        if branch is not None:
            pending += reversed(branches.splice(made, branch))
            continue
        _resolve_cast_like(made, node)
        value = _find_known_value(made, node)
        if value is not None and made.output[0] not in results:
            rename(pending, {made.output[0]: value})
            continue
        if value is not None and made.op_type != "Identity":
            made.CopyFrom(NodeProto(op_type="Identity", input=[value], output=made.output))
        kept.append(made)
    return [made for made, keep in zip(kept, dead_code.live(kept, results), strict=True) if keep]


def _find_taken_branch(made: NodeProto, node: Node) -> GraphProto | None:
    if made.op_type != "If" or made.domain:
        return None
    held = node.scope.array(made.input[0])
    return None if held is None else branches.branch_of(made, held.reshape(-1)[0])


def _resolve_cast_like(made: NodeProto, node: Node) -> None:
    """CastLike with a known type is a Cast."""
    if made.op_type == "CastLike" and not made.domain and (to := node.scope.elem_type(made.input[1])):
        made.op_type = "Cast"
        del made.input[1:]
        made.attribute.append(make_attribute("to", to))


def _to(cast: NodeProto) -> int:
    return next((a.i for a in cast.attribute if a.name == "to"), 0)


def _find_known_value(made: NodeProto, node: Node) -> str | None:
    """The name of a value that `made` merely repeats or that can be computed now."""
    scope = node.scope
    if made.domain:
        return None
    if made.op_type == "Identity":
        return made.input[0]
    if made.op_type == "Cast" and _to(made) == scope.elem_type(made.input[0]) != 0:
        return made.input[0]
    held: TensorProto | None = None
    if made.op_type == "Constant":
        held = tensors.of_constant(made)
    elif len(made.output) == 1:
        held = evaluate.constant(made, scope)
    return None if held is None or scope.graph is None else scope.constant(held, "const")
