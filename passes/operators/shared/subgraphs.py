"""bfloat16 that goes in and out of graphs."""

from __future__ import annotations

from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto, ValueInfoProto
from opshift.passes.model.traversal import subgraphs
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Replacement, Step
from opshift.passes.rewrite.says import says

T = TensorProto


def carry_in_float(first_in: int | None, first_out: int) -> Step:
    """The inputs from `first_in` on are the graph's own; its outputs from `first_out` on are the node's."""

    @says("Passed bfloat16 into and out of subgraphs as float32")
    def bfloat16_in_float(node: Node) -> Replacement:
        inputs = node.inputs
        own = range(len(inputs) if first_in is None else first_in, len(inputs))
        graphs = [graph for _, _, graph in subgraphs(node.proto)]
        taken = [k for k in own if _is_bfloat16(node, inputs[k], *(graph.input[k] for graph in graphs))]
        made = [(k, [graph.output[k + first_out] for graph in graphs]) for k, name in enumerate(node.outputs) if name]
        given = [k for k, yielded in made if _is_bfloat16(node, node.outputs[k], *yielded)]
        if not taken and not given:
            return None
        for graph in graphs:
            for k in taken:
                _cast_on_entry(node, graph, k)
            for k in given:
                _cast_on_leaving(node, graph.output[k + first_out], graph)
        for k in taken:
            inputs[k] = node.build.Cast(inputs[k], to=T.FLOAT)
        results = node.build.again(node.proto, inputs)
        results = [results] if isinstance(results, str) else list(results)
        for k in given:
            node.build.set_type(results[k], T.FLOAT)
            results[k] = node.build.Cast(results[k], to=T.BFLOAT16)
        return results

    return bfloat16_in_float


def _is_bfloat16(node: Node, name: str, *inside: ValueInfoProto) -> bool:
    """Whether a value is known to be so, or, where nothing is known of it, what a graph has for it must be so."""
    known = node.scope.elem_type(name)
    return T.BFLOAT16 in ([known] if known else [value.type.tensor_type.elem_type for value in inside])


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
