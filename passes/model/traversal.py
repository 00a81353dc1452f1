"""Walks over the bodies of a model, and what is found on the way: graphs, calls, names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain

from opshift.passes.model import schemas
from opshift.passes.model.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    ValueInfoProto,
)

Body = GraphProto | FunctionProto
Op = tuple[str, str]  # domain and name
Calls = Mapping[Op, int]  # how often each operator is called


def subgraphs(node: NodeProto) -> Iterator[tuple[str, int, GraphProto]]:
    """The graphs in a node's attributes: (attribute name, index, graph)."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH or attribute.HasField("g"):
            yield attribute.name, 0, attribute.g
        for index, graph in enumerate(attribute.graphs):
            yield attribute.name, index, graph


def may_hold(node: NodeProto) -> bool:
    """Whether a node may have a graph, going by its operator: to look at all of its attributes takes longer."""
    return bool(node.domain) or node.op_type not in graphless()


def holding(body: Body) -> list[tuple[int, NodeProto]]:
    """The nodes that may hold graphs, with their places."""
    return [(index, node) for index, node in enumerate(body.node) if may_hold(node)]


def bodies(model: ModelProto) -> Iterator[Body]:
    """The main graph, every model-local function, and every graph nested in them, outer before inner."""
    return with_nested([*reversed(model.functions), model.graph])


def declarations(model: ModelProto) -> Iterator[ValueInfoProto]:
    """What is declared of values that nodes make, in every body."""
    for body in bodies(model):
        yield from body.value_info
        if isinstance(body, GraphProto):
            yield from body.output


def with_nested(pending: list[Body]) -> Iterator[Body]:
    """The bodies in `pending`, the last one first, and every graph nested in them, outer before inner."""
    while pending:
        body = pending.pop()
        yield body
        apart = graphless()
        for node in [node for node in body.node if node.op_type not in apart or node.domain]:
            pending += [graph for _, _, graph in subgraphs(node)]


Census = tuple[list[Body], Counter[tuple[str, str]]]
"""Bodies, outer before inner, and how often each (domain, operator) is called in them."""


def census(pending: list[Body]) -> Census:
    """One walk over all nodes of the bodies in `pending`, the last one first, and of every graph nested in them."""
    held, calls, apart = list[Body](), Counter[tuple[str, str]](), graphless()
    while pending:
        body = pending.pop()
        ops = [(node.domain, node.op_type) for node in body.node]
        counted = Counter(ops)
        held.append(body)
        calls.update(counted)
        holding = {op for op in counted if op[0] or op[1] not in apart}
        for index in [index for index, op in enumerate(ops) if op in holding] if holding else ():
            pending += [graph for _, _, graph in subgraphs(body.node[index])]
    return held, calls


@cache
def graphless() -> frozenset[str]:
    """The operators of the default domain that never hold a graph: almost all, and almost all nodes."""
    return frozenset(op for op in schemas.operators("") if not schemas.has_subgraphs("", op))


def unread(model: ModelProto) -> set[str]:
    """Names of node outputs that no node, graph output or function output refers to, in no body."""
    if model.training_info:  # its graphs read values of the main graph
        return set()
    made: set[str] = set()
    read: set[str] = set()
    for body in bodies(model):
        read.update(body.output if isinstance(body, FunctionProto) else [value.name for value in body.output])
        for node in body.node:
            made.update(node.output)
            read.update(node.input)
    return made - read


def shared(model: ModelProto) -> set[str]:
    """Names that nodes, graph outputs and function outputs refer to more than once, in all bodies together."""
    read = Counter(
        name for body in bodies(model) for name in (*results(body), *(n for node in body.node for n in node.input))
    )
    return {name for name, count in read.items() if count > 1}


def integer(node: NodeProto, name: str, default: int) -> int:
    return next((a.i for a in node.attribute if a.name == name), default)


def results(body: Body) -> list[str]:
    """The names of what a body yields."""
    return list(body.output) if isinstance(body, FunctionProto) else [value.name for value in body.output]


def own_names(body: Body) -> set[str]:
    found = set(chain.from_iterable([node.output[:] for node in body.node]))
    if isinstance(body, FunctionProto):
        found.update(body.input)
    else:
        found.update(value.name for value in body.input)
        found.update(tensor.name for tensor in body.initializer)
        found.update(tensor.values.name for tensor in body.sparse_initializer)
    return found - {""}


def find_shadowed(model: ModelProto) -> frozenset[str]:
    """Names that mean another value in a nested graph than outside of it."""
    found: set[str] = set()
    holders: list[Body] = [model.graph, *model.functions]
    pending = [(body, frozenset[str]()) for body in holders]
    while pending:
        body, outer = pending.pop()
        apart = graphless()
        nodes = [node for node in body.node if node.op_type not in apart or node.domain]
        inner = [graph for node in nodes for _, _, graph in subgraphs(node)]
        if inner or outer:
            own = own_names(body)
            found |= outer & own
            pending += [(graph, outer | own) for graph in inner]
    return frozenset(found)


def names_outside_nodes(model: ModelProto, held: Iterable[Body] | None = None) -> set[str]:
    """Names that are spoken of outside of nodes: by quantization annotations and by the graphs of training.

    `held` are the model's bodies, if they are known.
    """
    found: set[str] = set()
    for body in bodies(model) if held is None else held:
        for note in getattr(body, "quantization_annotation", ()):
            found.update([note.tensor_name, *(entry.value for entry in note.quant_parameter_tensor_names)])
    for info in model.training_info:
        for graph in (info.initialization, info.algorithm):
            found.update(results(graph), *(node.input for node in graph.node))
        for binding in (*info.initialization_binding, *info.update_binding):
            found.update((binding.key, binding.value))
    return found


def running_statistics(model: ModelProto) -> set[str]:
    """List running means and variances of training, which onnxruntime updates in place."""
    return {
        name
        for body in bodies(model)
        for node in body.node
        if node.op_type == "BatchNormalization" and any(a.name == "training_mode" and a.i for a in node.attribute)
        for name in node.input[3:5]
    }
