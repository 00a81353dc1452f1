"""Declare that axes and steps of Slice are vectors: where their shape is unknown, ONNX's inference ignores them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto
from opshift.passes.model.traversal import Op, holding, own_names, subgraphs, with_nested
from opshift.passes.model.types import elem_type_of, has_shape, tensor_type

LISTS = (3, 4)
"""The places of axes and steps among the inputs of Slice."""


def state_lists(model: ModelProto, made: ModelProto) -> bool:
    """Declare in `model` that axes and steps are vectors if `made`, the inferred model, has no shape for them.

    Returns False if there are none.
    """
    return _state_lists(model.graph, made.graph, _places(model), set())


def _places(model: ModelProto) -> dict[Op, Collection[int]]:
    """Find the places of axes and steps: among inputs of Slice, and of functions that pass theirs on to it."""
    found: dict[Op, Collection[int]] = {("", "Slice"): LISTS}
    for _ in range(len(model.functions)):
        before = dict(found)
        for function in model.functions:
            read = {name for body in with_nested([function]) for node in body.node for name in _find_lists(node, found)}
            op = (function.domain, function.name)
            found[op] = {place for place, name in enumerate(function.input) if name in read}
        if found == before:
            break
    return found


def _find_lists(node: NodeProto, places: Mapping[Op, Collection[int]]) -> list[str]:
    """List the values that a node reads as axes or steps."""
    wanted = places.get((node.domain, node.op_type), ())
    return [name for place, name in enumerate(node.input) if place in wanted and name]


def _state_lists(graph: GraphProto, made: GraphProto, places: Mapping[Op, Collection[int]], outer: set[str]) -> bool:
    """Declare axes and steps of unknown shape in a graph; names of outer values are added to `outer`."""
    ops = {op for _, op in places}
    names = {name for node in graph.node if node.op_type in ops for name in _find_lists(node, places)}
    found = False
    for index, node in holding(graph):
        for (_, _, inner), (_, _, other) in zip(subgraphs(node), subgraphs(made.node[index]), strict=True):
            found |= _state_lists(inner, other, places, names)
    own = own_names(graph)
    outer |= names - own
    if not names:
        return found
    value_types = {value.name: value.type for value in (*made.input, *made.value_info, *made.output)}
    open_ = {
        name for name in names & own if name in value_types and not value_types[name].tensor_type.HasField("shape")
    }
    unknown = names & {name for node in graph.node for name in node.output} - set(value_types)
    for name in sorted(open_ | unknown):
        stated = [value for value in (*graph.input, *graph.output, *graph.value_info) if value.name == name]
        for value in stated or [graph.value_info.add(name=name)]:
            if name in value_types:
                value.type.CopyFrom(value_types[name])
            value.type.tensor_type.shape.dim.add()
    return found or bool(open_ | unknown)


def type_lists(node: NodeProto, types: Mapping[str, TypeProto]) -> dict[str, TypeProto]:
    """Make vector types for the axes and steps of a Slice whose shape is unknown."""
    found = {name: types.get(name) for name in node.input[LISTS[0] :] if name}
    return {
        name: tensor_type(
            elem_type_of(value_type) or TensorProto.INT64 if value_type is not None else TensorProto.INT64, [None]
        )
        for name, value_type in found.items()
        if value_type is None or not has_shape(value_type)
    }
