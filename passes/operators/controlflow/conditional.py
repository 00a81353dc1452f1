"""If, whose branches yielded values of the same shapes before 11, and no sequences before 13."""

from __future__ import annotations

from opshift.passes.analysis.scope import Scope
from opshift.passes.model import tensors
from opshift.passes.model.editing.renaming import afresh
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto
from opshift.passes.model.traversal import subgraphs
from opshift.passes.model.types import Dim, tensor_type
from opshift.passes.operators.shared import sequences
from opshift.passes.operators.shared.subgraphs import carry_in_float
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced an If whose branches yield different shapes by two Loops that run once or not at all")
def branches_of_one_shape(node: Node) -> Replacement:
    then, other = _branches(node)
    if _shapes(node, then) == _shapes(node, other):
        return None
    chosen = node.input(0)
    values = [node.build.constant(_zero(node, name), hint="nothing_yet") for name in node.outputs]
    values = _repeat(node, other, node.build.Cast(node.build.Not(chosen), to=T.INT64), values)
    results = _repeat(node, then, node.build.Cast(chosen, to=T.INT64), values)
    types = [(node.scope.elem_type(name), node.scope.shape(name)) for name in node.outputs]
    return [node.build.set_type(name, *kind) for name, kind in zip(results, types, strict=True)]


def _branches(node: Node) -> tuple[GraphProto, GraphProto]:
    found = {name: graph for name, _, graph in subgraphs(node.proto)}
    return found["then_branch"], found["else_branch"]


def _shapes(node: Node, graph: GraphProto) -> list[list[Dim]]:
    """The shapes that a branch yields; what is unknown equals nothing, not even itself."""
    inside = sequences.scope_inside(node, graph)
    shapes = [_shape(inside, value.name) for value in graph.output]
    return [[object()] if s is None or None in s else s for s in shapes]  # type: ignore[list-item]


def _shape(inside: Scope, name: str) -> list[Dim] | None:
    """A shape as the branch computes it: the name of a size that is declared alone stands for any other one, too."""
    declared = inside.shape(name)
    if declared and any(isinstance(dim, str) for dim in declared) and (asked := inside.node_to_ask(name)) is not None:
        inside.context.inference.node(*asked, inside)
        return inside.shape(name) if name in inside.typed else None
    return declared


def _zero(node: Node, name: str) -> TensorProto:
    elem_type = node.scope.elem_type(name)
    if not elem_type:
        raise node.unknown("type", name)
    return tensors.tensor("" if elem_type == T.STRING else 0, elem_type)


def _repeat(node: Node, branch: GraphProto, trips: str, values: list[str]) -> list[str]:
    """A branch as the body of a loop whose carried values it replaces."""
    fresh, body = node.scope.context.names.fresh, GraphProto()
    body.CopyFrom(branch)
    afresh(body, lambda name: fresh(name) if node.scope.owner(name) else name)
    yields = [value.name for value in body.output]
    body.value_info.extend(value for value in body.output if value.HasField("type"))
    del body.output[:]
    trip, going, still = fresh("trip"), fresh("going"), fresh("still_going")
    body.input.add(name=trip).type.CopyFrom(tensor_type(T.INT64, []))
    body.input.add(name=going).type.CopyFrom(tensor_type(T.BOOL, []))
    body.node.append(NodeProto(op_type="Identity", input=[going], output=[still]))
    body.output.add(name=still).type.CopyFrom(tensor_type(T.BOOL, []))
    for name, output in zip(yields, node.outputs, strict=True):
        value_type = tensor_type(node.scope.elem_type(output))
        body.input.add(name=fresh("before")).type.CopyFrom(value_type)
        yielded = fresh("yielded")
        body.node.append(NodeProto(op_type="Identity", input=[name], output=[yielded]))
        body.output.add(name=yielded).type.CopyFrom(value_type)
    go_on = node.build.constant(True, T.BOOL, hint="go_on")
    made = node.build.emit("Loop", [trips, go_on, *values], {"body": body}, outputs=len(values))
    node.build.keep_graphs()
    made = [made] if isinstance(made, str) else made
    return [node.build.set_type(name, node.scope.elem_type(o)) for name, o in zip(made, node.outputs, strict=True)]


@says("Returned a sequence from the branches of If as one tensor of all elements and a tensor of their sizes")
def sequences_yielded_as_tensors(node: Node) -> Replacement:
    places = [k for k, name in enumerate(node.outputs) if sequences.is_sequence(node, name)]
    if not places:
        return None
    branches: dict[str, GraphProto] = {name: graph for name, _, graph in subgraphs(node.proto)}
    insides = {name: sequences.scope_inside(node, graph) for name, graph in branches.items()}
    layouts: dict[int, sequences.SequenceLayout] = {}
    for k in places:
        held = [
            (insides[name], element) for name, graph in branches.items()
            for element in sequences.elements_of(node, insides[name], graph.output[k].name)
        ]  # fmt: skip
        layouts[k] = sequences.layout_of(node, node.outputs[k], held)
    for name, graph in branches.items():
        inner, outputs = Builder(insides[name], node.build.opset, node.proto), list(graph.output)
        del graph.output[:]
        for k, value in enumerate(outputs):
            if k not in layouts:
                graph.output.append(value)
                continue
            elements = sequences.elements_of(node, insides[name], value.name)
            node.scope.context.released.add(value.name)
            pair = sequences.as_one_tensor(inner, layouts[k], elements)
            for made, elem_type in zip(pair, (layouts[k].elem_type, T.INT64), strict=True):
                graph.output.add(name=inner.Identity(made)).type.CopyFrom(tensor_type(elem_type))
        graph.node.extend(inner.nodes)
    return sequences.emit_with_graphs(node, node.inputs, branches, len(node.outputs) + len(places), layouts)


changed("If", 11, Pair(down=branches_of_one_shape))
changed("If", 13, Pair(down=sequences_yielded_as_tensors))
changed("If", 16, Pair(down=carry_in_float(None, 0)))
