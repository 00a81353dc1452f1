"""If, Loop and Scan. What their graphs hold is converted before they are."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.names import subgraphs
from opshift.passes.protos import GraphProto, NodeProto, TensorProto
from opshift.passes.registry import Pair, changed, same
from opshift.passes.scope import Dim, Scope, tensor_type
from opshift.passes.view import Node

T = TensorProto


def branches_of_one_shape(node: Node) -> None:
    """Both branches had to yield the same shapes, which now may differ."""
    then_shapes, else_shapes = (_yielded(node, graph) for _, _, graph in subgraphs(node.proto))
    for output, one, other in zip(node.outputs, then_shapes, else_shapes, strict=True):
        if one is not None and other is not None and _differ(one, other):
            raise CannotConvert(
                node,
                f'"{output}" is {_spelled(one)} or {_spelled(other)}; one shape could be expressed',
            )


def _yielded(node: Node, graph: GraphProto) -> list[list[Dim] | None]:
    inside = Scope(graph, node.scope.context, node.build.opset, node.scope)
    return [inside.shape(value.name) for value in graph.output]


def _differ(one: list[Dim], other: list[Dim]) -> bool:
    both = zip(one, other, strict=False)
    return len(one) != len(other) or any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in both
    )


def _spelled(dims: list[Dim]) -> str:
    return f"[{', '.join('?' if dim is None else str(dim) for dim in dims)}]"


def at_least_one_carried_value(node: Node) -> None:
    """A loop had to carry a value: one that carries none is given a scalar that nobody reads."""
    if len(node.inputs) > 2:
        return
    body, fresh = node.attributes["body"], node.scope.context.names.fresh
    arriving, leaving, last = fresh("carried_in"), fresh("carried_out"), fresh("carried")
    node.set_input(2, node.build.constant(0.0, T.FLOAT))
    node.proto.output.insert(0, last)
    body.input.add(name=arriving).type.CopyFrom(tensor_type(T.FLOAT, []))
    body.node.append(NodeProto(op_type="Identity", input=[arriving], output=[leaving]))
    body.output.add(name=leaving).type.CopyFrom(tensor_type(T.FLOAT, []))
    body.output.insert(1, body.output.pop())
    node.build.typed(last, T.FLOAT, [])


changed("If", 11, Pair(down=branches_of_one_shape))
changed("Loop", 11, Pair(down=at_least_one_carried_value))
same(
    "Loop",
    13,
    "sequences may be carried; the text now says that scan outputs are tensors, which they had to be",
)
same("Loop", 16, "optionals and bfloat16 may be carried; values are matched by order, as before")
