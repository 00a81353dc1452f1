"""Edits of a body as a whole: names that become others, nodes in the place of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opshift.passes.model import tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto
from opshift.passes.model.traversal import Body, subgraphs


def rename_all(node: NodeProto, names: dict[str, str]) -> None:
    """Give values other names, in a node and in the graphs that it holds, except for what those make themselves."""
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for _, _, graph in subgraphs(node):
        for inner in graph.node:
            rename_all(inner, names)
        for value in graph.output:
            value.name = names.get(value.name, value.name)


def rename(nodes: list[NodeProto], old: str, new: str) -> None:
    """Rename one value wherever `nodes` and their subgraphs mention it. Recursion is as deep as the nesting."""
    for node in nodes:
        if old in node.input:
            node.input[:] = [new if name == old else name for name in node.input]
        if old in node.output:
            node.output[:] = [new if name == old else name for name in node.output]
        if node.attribute:
            for _, _, graph in subgraphs(node):
                rename(list(graph.node), old, new)
                for value in graph.output:
                    if value.name == old:
                        value.name = new


def _rename(body: Body, names: Mapping[str, str]) -> None:
    pending: list[Body] = [body]
    while pending:
        current = pending.pop()
        for node in current.node:
            if any(name in names for name in node.input):
                node.input[:] = [names.get(name, name) for name in node.input]
            if current is body and any(name in names for name in node.output):
                node.output[:] = [names.get(name, name) for name in node.output]
            if node.attribute:
                pending += [graph for _, _, graph in subgraphs(node)]
        if current is not body and isinstance(current, GraphProto):
            for value in current.output:
                value.name = names.get(value.name, value.name)


_CAST_TO_A_NUMBER = 6  # the opset from which on Cast spells its type as a number


def in_nodes(tensor: TensorProto, opset: int, fresh: Callable[[str], str]) -> list[NodeProto]:
    """Nodes that make the value of `tensor`, though Constant knew only floats; none if there are no such nodes."""
    value = tensors.array(tensor)
    constant = NodeProto(op_type="Constant", output=[tensor.name])
    if tensor.data_type in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE):
        constant.attribute.append(make_attribute("value", tensor))
        return [constant]
    if value is None or value.dtype.kind not in "iub" or (value.astype(float).astype(value.dtype) != value).any():
        return []
    constant.output[0] = fresh(tensor.name)
    constant.attribute.append(make_attribute("value", tensors.tensor(value.astype(float), TensorProto.DOUBLE)))
    to = tensor.data_type if opset >= _CAST_TO_A_NUMBER else TensorProto.DataType.Name(tensor.data_type)
    cast = NodeProto(op_type="Cast", input=[constant.output[0]], output=[tensor.name])
    cast.attribute.append(make_attribute("to", to))
    return [constant, cast]
