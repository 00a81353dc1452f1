"""If, Loop and Scan. What their graphs hold is converted before they are."""

from __future__ import annotations

from opshift.passes.analysis.scope import Scope
from opshift.passes.errors import CannotConvert
from opshift.passes.model import tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto, ValueInfoProto
from opshift.passes.model.traversal import subgraphs
from opshift.passes.model.types import Dim, tensor_type
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, Step, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Both branches must yield the same shapes; where they may not, each becomes a loop of one trip or none.")
def branches_of_one_shape(node: Node) -> Replacement:
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
    return tensors.tensor("" if elem_type == T.STRING else 0, elem_type)


def _repeat(node: Node, branch: GraphProto, trips: str, values: list[str]) -> list[str]:
    """A branch as the body of a loop whose carried values it replaces."""
    fresh, body = node.scope.context.names.fresh, GraphProto()
    body.CopyFrom(branch)
    body.value_info.extend(value for value in branch.output if value.HasField("type"))
    del body.output[:]
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
    node.build.keep_graphs()
    made = [made] if isinstance(made, str) else made
    return [node.build.typed(name, node.scope.elem_type(o)) for name, o in zip(made, node.outputs, strict=True)]


@says("A loop had to carry a value: one that carries none is given a scalar that nobody reads.")
def at_least_one_carried_value(node: Node) -> None:
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


def carried_in_float(first_in: int | None, first_out: int) -> Step:
    """The inputs from `first_in` on are the graph's own; its outputs from `first_out` on are the node's."""

    @says("bfloat16 could not go in and out of a graph: it does as float32, and is cast on both sides.")
    def bfloat16_in_float(node: Node) -> Replacement:
        inputs = node.inputs
        own = range(len(inputs) if first_in is None else first_in, len(inputs))
        taken = [k for k in own if _is_bfloat16(node, inputs[k])]
        given = [k for k, name in enumerate(node.outputs) if name and _is_bfloat16(node, name)]
        if not taken and not given:
            return None
        for _, _, graph in subgraphs(node.proto):
            for k in taken:
                _cast_on_entry(node, graph, k)
            for k in given:
                _cast_on_leaving(node, graph.output[k + first_out], graph)
        for k in taken:
            inputs[k] = node.build.Cast(inputs[k], to=T.FLOAT)
        results = node.build.again(node.proto, inputs)
        results = [results] if isinstance(results, str) else list(results)
        for k in given:
            node.build.typed(results[k], T.FLOAT)
            results[k] = node.build.Cast(results[k], to=T.BFLOAT16)
        return results

    return bfloat16_in_float


def _is_bfloat16(node: Node, name: str) -> bool:
    return node.scope.elem_type(name) == T.BFLOAT16


def _cast_on_entry(node: Node, graph: GraphProto, index: int) -> None:
    value = graph.input[index]
    inner, value.name = value.name, node.scope.context.names.fresh(value.name)
    value.type.tensor_type.elem_type = T.FLOAT
    graph.node.insert(0, _cast(value.name, inner, T.BFLOAT16))


def _cast_on_leaving(node: Node, value: ValueInfoProto, graph: GraphProto) -> None:
    inner, value.name = value.name, node.scope.context.names.fresh(value.name)
    value.type.tensor_type.elem_type = T.FLOAT
    graph.node.append(_cast(inner, value.name, T.FLOAT))


def _cast(value: str, result: str, to: int) -> NodeProto:
    return NodeProto(op_type="Cast", input=[value], output=[result], attribute=[make_attribute("to", to)])


changed("If", 11, Pair(down=branches_of_one_shape))
changed("If", 16, Pair(down=carried_in_float(None, 0)))
changed("Loop", 11, Pair(down=at_least_one_carried_value))
changed("Loop", 16, Pair(down=carried_in_float(2, 1)))
changed("Scan", 16, Pair(down=carried_in_float(0, 0)))
