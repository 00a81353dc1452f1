"""Constants without the axes of size 1 that they begin with, for backends that fuse such an Add into another node."""

from __future__ import annotations

from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.changes import Change
from opshift.passes.model import imports, schemas
from opshift.passes.model.editing import dead_code
from opshift.passes.model.editing.names import Names
from opshift.passes.model.messages import ModelProto, TensorProto

BROADCAST = frozenset({"Add", "Div", "Mul", "Pow", "Sub"})
"""What takes operands of different ranks."""
_SINCE = 7
_HOW = "its constants begin with no axes of size 1"


def without_leading(model: ModelProto, op: str) -> tuple[ModelProto, list[Change]]:
    """The model whose main graph calls `op` with constants of no more axes than they need; itself where it does so."""
    opset = imports.opsets(model).get("", 1)
    scope = Scope(model.graph, Context(model, model, None), opset, path=())
    made = ModelProto()
    made.CopyFrom(model)
    fresh = Names(made).fresh
    changes: list[Change] = []
    left: set[str] = set()
    for node in made.graph.node if opset >= _SINCE else ():
        if node.op_type != op or node.domain:
            continue
        for index, name in enumerate(node.input):
            tensor = _shorter(scope, name, node.input[1 - index])
            if tensor is not None:
                tensor.name = node.input[index] = fresh(f"{name}/short")
                made.graph.initializer.append(tensor)
                left.add(name)
                version = schemas.since("", op, opset) or 1
                changes.append(Change(node.name or node.output[0], op, "", version, version, _HOW))
    if not changes:
        return model, changes
    dead_code.drop_unused(made, left)
    return made, changes


def _shorter(scope: Scope, name: str, other: str) -> TensorProto | None:
    """The constant without its first axes, where the other operand has as many as it has, or more."""
    held, rank = scope.tensor(name), scope.rank(other)
    if held is None or rank is None or len(held.dims) < 2 or held.dims[0] != 1 or rank < len(held.dims):
        return None
    dims = list(held.dims)
    while len(dims) > 1 and dims[0] == 1:
        del dims[0]
    made = TensorProto()
    made.CopyFrom(held)
    made.dims[:] = dims
    return made
