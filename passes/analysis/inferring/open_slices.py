"""ONNX's inference with what it gets wrong set right: axes and steps of Slice whose shape it does not know it takes for
left out, of unknown sizes of Attention it makes 0, and of pools it counts windows behind the data."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping

from opshift.passes.analysis.inferring import attention_sizes, later_versions, pool_windows
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    default_domain,
)
from opshift.passes.model.traversal import Op, bodies, declarations, holding, own_names, subgraphs, with_nested
from opshift.passes.model.types import elem_type_of, has_shape, tensor_type

_ASIDE = ".opshift"


def inferred(model: ModelProto, ops: Container[Op] | None = None) -> ModelProto:
    """A copy with the types and shapes that follow from those of the inputs and of constants.

    Of a call of Attention whose values have an unknown size, ONNX infers one of 0, and of pools windows that there are
    not: nothing is asked of it then, nor of scores that it makes as many as there are not. `ops` are those that the
    model calls, if they are known, by the empty name of the default domain. Lists of unknown shape are stated in
    `model` itself.
    """
    made = later_versions.inferred(model, ops)
    slices = ops is None or ("", "Slice") in ops
    if slices and _state_lists(model.graph, made.graph, _places(model), set()):
        made = later_versions.inferred(model, ops)
    if ops is not None and all(("", op) not in ops for op in ("Attention", *pool_windows.POOLS)):
        return made
    wrong, scored = _wrong(model, made)
    if not wrong and not scored:
        return made
    kept = [(node, node.op_type, node.output[:]) for node in (*wrong, *scored)]
    for node in wrong:
        node.op_type += _ASIDE
    for node in scored:
        del node.output[attention_sizes.SCORES :]
    try:
        made = later_versions.inferred(model, ops)
    finally:
        for node, op, outputs in kept:
            _rename(node, op, outputs)
    for body, other in zip(bodies(model), bodies(made), strict=True):
        for node, copy in zip(body.node, other.node, strict=True):
            if (copy.op_type, len(copy.output)) != (node.op_type, len(node.output)):
                _rename(copy, node.op_type, node.output)
    return made


def _rename(node: NodeProto, op: str, outputs: Iterable[str]) -> None:
    node.op_type = op
    del node.output[:]
    node.output.extend(outputs)


def _wrong(model: ModelProto, made: ModelProto) -> tuple[list[NodeProto], list[NodeProto]]:
    """The nodes of which inference, which `made` is, tells what is not so, and those where it does of scores alone."""
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    held = [
        (node, holder)
        for holder in holders
        for body in with_nested([holder.graph if isinstance(holder, ModelProto) else holder])
        for node in body.node
        if not default_domain(node.domain)
    ]
    pools = [
        (node, holder)
        for node, holder in held
        if pool_windows.may_begin_behind(node, opsets(holder).get("", pool_windows.LEFT_OUT))
    ]
    attentions = [(node, holder) for node, holder in held if attention_sizes.is_attention(node)]
    if not pools and not attentions:
        return [], []
    values = [value for body in bodies(made) if isinstance(body, GraphProto) for value in body.input]
    kinds = {value.name: value.type for value in (*values, *declarations(made))}
    wrong = [node for node, holder in pools if holder is not model or pool_windows.begins_behind(node, kinds)]
    scored = []
    for node, holder in attentions:
        mistaken = attention_sizes.mistaken(node, kinds if holder is model else {})
        if node.output[0] in mistaken:
            wrong.append(node)
        elif mistaken:
            scored.append(node)
    return wrong, scored


LISTS = (3, 4)
"""The inputs of Slice that are lists and may be left out: the axes and the steps."""


def _places(model: ModelProto) -> dict[Op, Collection[int]]:
    """The inputs of Slice, and of functions that hand theirs to it, that are such lists."""
    found: dict[Op, Collection[int]] = {("", "Slice"): LISTS}
    for _ in range(len(model.functions)):
        before = dict(found)
        for function in model.functions:
            read = {name for body in with_nested([function]) for node in body.node for name in _read(node, found)}
            op = (function.domain, function.name)
            found[op] = {place for place, name in enumerate(function.input) if name in read}
        if found == before:
            break
    return found


def _read(node: NodeProto, places: Mapping[Op, Collection[int]]) -> list[str]:
    """What a node reads as such lists."""
    wanted = places.get((node.domain, node.op_type), ())
    return [name for place, name in enumerate(node.input) if place in wanted and name]


def _state_lists(graph: GraphProto, made: GraphProto, places: Mapping[Op, Collection[int]], outer: set[str]) -> bool:
    """State that axes and steps are lists, where their shape is not known; the names of others are added to `outer`."""
    kinds = {value.name: value.type for value in (*made.input, *made.value_info, *made.output)}
    names = {name for node in graph.node for name in _read(node, places)}
    found = False
    for index, node in holding(graph):
        for (_, _, inner), (_, _, other) in zip(subgraphs(node), subgraphs(made.node[index]), strict=True):
            found |= _state_lists(inner, other, places, names)
    own = own_names(graph)
    outer |= names - own
    open_ = {name for name in names & own if name in kinds and not kinds[name].tensor_type.HasField("shape")}
    unknown = names & {name for node in graph.node for name in node.output} - set(kinds)
    for name in sorted(open_ | unknown):
        stated = [value for value in (*graph.input, *graph.output, *graph.value_info) if value.name == name]
        for value in stated or [graph.value_info.add(name=name)]:
            if name in kinds:
                value.type.CopyFrom(kinds[name])
            value.type.tensor_type.shape.dim.add()
    return found or bool(open_ | unknown)


def lists(node: NodeProto, types: Mapping[str, TypeProto]) -> dict[str, TypeProto]:
    """The types of a Slice's axes and steps whose shape is not known: they are lists."""
    found = {name: types.get(name) for name in node.input[LISTS[0] :] if name}
    return {
        name: tensor_type(elem_type_of(kind) or TensorProto.INT64 if kind is not None else TensorProto.INT64, [None])
        for name, kind in found.items()
        if kind is None or not has_shape(kind)
    }
