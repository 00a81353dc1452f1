"""Stamps a function body in the place of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import AttributeProto, FunctionProto, GraphProto, NodeProto
from opshift.passes.model.traversal import subgraphs


def stamp(
    body: FunctionProto,
    inputs: list[str],
    outputs: list[str],
    attributes: Mapping[str, AttributeProto],
    fresh: Callable[[str], str],
) -> list[NodeProto]:
    """The nodes of `body` with its inputs, outputs and attribute references bound to a call.

    Inputs that the call leaves out become empty names; every inner name, of subgraphs too, becomes a fresh one.
    An output that the call does not ask for (an empty name) gets a fresh name as well.
    """
    bound = dict(zip(body.input, [*inputs, *[""] * (len(body.input) - len(inputs))], strict=False))
    defaults = {a.name: a for a in body.attribute_proto}
    values = {**defaults, **attributes}
    names = dict(bound)
    echoes: list[NodeProto] = []
    for formal, actual in zip(body.output, outputs, strict=False):
        if formal in names and actual:  # the function returns one of its inputs, or one value twice
            echoes.append(NodeProto(op_type="Identity", input=[names[formal]], output=[actual]))
        elif actual:
            names[formal] = actual
    nodes = [_bind(node, names, values, fresh) for node in body.node]
    return nodes + echoes


def _bind(
    node: NodeProto,
    names: dict[str, str],
    values: Mapping[str, AttributeProto],
    fresh: Callable[[str], str],
    *,
    inside: bool = False,
) -> NodeProto:
    """A copy of a node of the body; one `inside` of a graph makes other values than what has their names outside."""
    made = NodeProto()
    made.CopyFrom(node)
    made.input[:] = [names.get(name, name) for name in node.input]
    while made.input and not made.input[-1]:
        made.input.pop()
    for name in node.output:
        if name and (inside or name not in names):
            names[name] = fresh(name)
    made.output[:] = [names.get(name, name) for name in node.output]
    if made.name:
        made.name = fresh(made.name)
    if made.attribute:
        bind_attributes(made, values)
        for _, _, graph in subgraphs(made):
            _bind_graph(graph, dict(names), values, fresh)
    return made


def bind_attributes(node: NodeProto, values: Mapping[str, AttributeProto]) -> None:
    """Replace attribute references by their values; a reference without a value is an absent attribute."""
    if not any(a.ref_attr_name for a in node.attribute):
        return
    kept = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            kept.append(attribute)
        elif attribute.ref_attr_name in values:
            kept.append(make_attribute(attribute.name, values[attribute.ref_attr_name]))
    copies = [AttributeProto.FromString(a.SerializeToString()) for a in kept]
    del node.attribute[:]
    node.attribute.extend(copies)


def _bind_graph(
    graph: GraphProto,
    names: dict[str, str],
    values: Mapping[str, AttributeProto],
    fresh: Callable[[str], str],
) -> None:
    for value in graph.input:
        names[value.name] = value.name = fresh(value.name)
    for tensor in graph.initializer:
        if tensor.name in names and any(v.name == names[tensor.name] for v in graph.input):
            tensor.name = names[tensor.name]
        else:
            old, tensor.name = tensor.name, fresh(tensor.name)
            names[old] = tensor.name
    for sparse in graph.sparse_initializer:
        old, sparse.values.name = sparse.values.name, fresh(sparse.values.name)
        names[old] = sparse.values.name
    nodes = [_bind(node, names, values, fresh, inside=True) for node in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    for value in (*graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)
