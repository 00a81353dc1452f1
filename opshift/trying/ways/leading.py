"""Constants without the axes of size 1 that they begin with, for backends that fuse such an Add into another node."""

from __future__ import annotations

from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Change
from opshift.passes.model.editing import dead_code
from opshift.passes.model.messages import ModelProto, TensorProto
from opshift.trying.ways.rewriting import Rewriting

BROADCAST = frozenset({"Add", "Div", "Mul", "Pow", "Sub"})
"""What takes operands of different ranks."""
_SINCE = 7
_HOW = "Removed leading axes of size 1 from constants"


def without_leading(model: ModelProto, op: str) -> tuple[ModelProto, list[Change]]:
    """The model whose main graph calls `op` with constants of no more axes than they need; itself where it does so."""
    work = Rewriting(model, op, _HOW)
    left: set[str] = set()
    for node in filter(work.calls, work.made.graph.node if work.scope.opset >= _SINCE else ()):
        for index, name in enumerate(node.input):
            tensor = _shorter(work.scope, name, node.input[1 - index])
            if tensor is not None:
                tensor.name = node.input[index] = work.fresh(f"{name}/short")
                work.made.graph.initializer.append(tensor)
                left.add(name)
                work.did(node)
    if left:
        dead_code.drop_unused(work.made, left)
    return work.write()


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
