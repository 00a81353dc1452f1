"""Loop, which had to carry a value before 11, and carried no sequences before 13."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto, TypeProto
from opshift.passes.model.traversal import subgraphs
from opshift.passes.model.types import tensor_type
from opshift.passes.operators.shared import sequences
from opshift.passes.operators.shared.subgraphs import carry_in_float
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Added an unused scalar that Loop carries, as older opsets require one")
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
    node.build.set_type(last, T.FLOAT, [])


@says("Carried a sequence through Loop as one tensor of all elements and a tensor of their sizes")
def sequences_carried_as_tensors(node: Node) -> Replacement:
    carried = node.inputs[2:]
    places = [k for k, name in enumerate(carried) if sequences.is_sequence(node, name)]
    if not places:
        return None
    build, body = node.build, node.attributes["body"]
    inside = sequences.scope_inside(node, body)
    inner = Builder(sequences.scope_inside(node, body), build.opset, node.proto)
    arriving, leaving = list(body.input)[2:], list(body.output)[1:]
    start: list[str] = []
    layouts: dict[int, sequences.SequenceLayout] = {}
    formals: list[tuple[str, TypeProto]] = []
    results: list[tuple[str, TypeProto]] = []
    for k, name in enumerate(carried):
        if k not in places:
            start.append(name)
            formals.append((arriving[k].name, arriving[k].type))
            results.append((leaving[k].name, leaving[k].type))
            continue
        first = sequences.elements_of(node, node.scope, name)
        appended = _append(node, body, arriving[k].name, leaving[k].name)
        held = [(node.scope, element) for element in first] + [(inside, element) for element in appended]
        layout = layouts[k] = sequences.layout_of(node, name, held)
        value_types = [tensor_type(layout.elem_type), tensor_type(T.INT64)]
        start += sequences.as_one_tensor(build, layout, first)
        joined = [node.scope.context.names.fresh(f"{arriving[k].name}/{part}") for part in ("held", "sizes")]
        formals += zip(joined, value_types, strict=True)
        more = sequences.as_one_tensor(inner, layout, appended)
        grown = [inner.Concat(a, b, axis=x) for a, b, x in zip(joined, more, (layout.axis, 0), strict=True)]
        results += zip(grown, value_types, strict=True)
    results += [(value.name, value.type) for value in leaving[len(carried) :]]
    body.node.extend(inner.nodes)
    for values, wanted in ((body.input, formals), (body.output, results)):
        del values[2 if values is body.input else 1 :]
        for name, value_type in wanted:
            values.add(name=name).type.CopyFrom(value_type)
    return sequences.emit_with_graphs(node, [*node.inputs[:2], *start], {"body": body}, len(results), layouts)


def _append(node: Node, body: GraphProto, before: str, after: str) -> list[str]:
    """What a round appends to a sequence, from which the nodes that do so are taken away."""
    appended: list[str] = []
    while after != before:
        index = next((i for i, made in enumerate(body.node) if after in made.output), None)
        made = None if index is None else body.node[index]
        read = any(after in other.input for other in _nodes(body))
        if index is None or made is None or not _appends(made) or read:
            raise CannotConvert(
                node,
                f'the Loop carries the sequence "{before}", whose elements are dynamic',
                supported="a sequence that only grows at its end",
            )
        after = made.input[0]
        appended.insert(0, made.input[1])
        del body.node[index]
    if any(before in made.input for made in _nodes(body)):
        raise CannotConvert(
            node,
            f'the body of the Loop reads the carried sequence "{before}", whose elements are dynamic',
            supported="a sequence that only grows at its end",
        )
    return appended


def _appends(made: NodeProto) -> bool:
    return made.op_type == "SequenceInsert" and not any(made.input[2:])


def _nodes(body: GraphProto) -> list[NodeProto]:
    """Every node of a graph and of the graphs in it."""
    found: list[NodeProto] = []
    pending = [body]
    while pending:
        graph = pending.pop()
        found += graph.node
        pending += [inner for made in graph.node for _, _, inner in subgraphs(made)]
    return found


changed("Loop", 11, Pair(down=at_least_one_carried_value))
changed("Loop", 13, Pair(down=sequences_carried_as_tensors))
changed("Loop", 16, Pair(down=carry_in_float(2, 1)))
