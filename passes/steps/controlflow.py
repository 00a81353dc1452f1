"""If, Loop and Scan. What their graphs hold is converted before they are."""

from __future__ import annotations

from opshift.passes import constants
from opshift.passes.errors import CannotConvert
from opshift.passes.names import subgraphs
from opshift.passes.protos import GraphProto, NodeProto, TensorProto
from opshift.passes.registry import Pair, Replacement, changed, same
from opshift.passes.scope import Dim, Scope, tensor_type
from opshift.passes.view import Node

T = TensorProto


def branches_of_one_shape(node: Node) -> Replacement:
    """Both branches must yield the same shapes; where they may not, each becomes a loop of one trip or none."""
    then, other = _branches(node)
    if _shapes(node, then) == _shapes(node, other):
        return None
    chosen = node.input(0)
    values = [node.build.constant(_zero(node, name), hint="nothing_yet") for name in node.outputs]
    values = _repeat(node, other, node.build.Cast(node.build.Not(chosen), to=T.INT64), values)
    results = _repeat(node, then, node.build.Cast(chosen, to=T.INT64), values)
    types = [(node.scope.elem_type(name), node.scope.shape(name)) for name in node.outputs]
    return [node.build.typed(name, *kind) for name, kind in zip(results, types, strict=True)]


def _branches(node: Node) -> tuple[GraphProto, GraphProto]:
    found = {name: graph for name, _, graph in subgraphs(node.proto)}
    return found["then_branch"], found["else_branch"]


def _shapes(node: Node, graph: GraphProto) -> list[list[Dim]]:
    """The shapes that a branch yields; what is unknown equals nothing, not even itself."""
    inside = Scope(graph, node.scope.context, node.build.opset, node.scope)
    shapes = [inside.shape(value.name) for value in graph.output]
    return [[object()] if s is None or None in s else s for s in shapes]  # type: ignore[list-item]


def _zero(node: Node, name: str) -> TensorProto:
    elem_type = node.scope.elem_type(name)
    if not elem_type:
        raise CannotConvert(node, f'the type of "{name}" is unknown; a typed value_info helps')
    return constants.tensor("" if elem_type == T.STRING else 0, elem_type)


def _repeat(node: Node, branch: GraphProto, trips: str, values: list[str]) -> list[str]:
    """A branch as the body of a loop whose carried values it replaces."""
    fresh, body = node.scope.context.names.fresh, GraphProto(name=branch.name)
    body.node.extend(branch.node)
    body.initializer.extend(branch.initializer)
    trip, going, still = fresh("trip"), fresh("going"), fresh("still_going")
    body.input.add(name=trip).type.CopyFrom(tensor_type(T.INT64, []))
    body.input.add(name=going).type.CopyFrom(tensor_type(T.BOOL, []))
    body.node.append(NodeProto(op_type="Identity", input=[going], output=[still]))
    body.output.add(name=still).type.CopyFrom(tensor_type(T.BOOL, []))
    for value, output in zip(branch.output, node.outputs, strict=True):
        kind = tensor_type(node.scope.elem_type(output))
        body.input.add(name=fresh("before")).type.CopyFrom(kind)
        yielded = fresh("yielded")
        body.node.append(NodeProto(op_type="Identity", input=[value.name], output=[yielded]))
        body.output.add(name=yielded).type.CopyFrom(kind)
    go_on = node.build.constant(True, T.BOOL, hint="go_on")
    made = node.build.emit("Loop", [trips, go_on, *values], {"body": body}, outputs=len(values))
    node.build.copies.append(node.build.nodes[-1])  # what the branch held is converted already
    made = [made] if isinstance(made, str) else made
    return [node.build.typed(name, node.scope.elem_type(o)) for name, o in zip(made, node.outputs, strict=True)]


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
