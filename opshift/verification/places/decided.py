"""What is the same in every run: it follows from values that are given once and for all, or from sizes that are."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from opshift.passes.model.messages import GraphProto, ModelProto, TypeProto, default_domain
from opshift.passes.model.traversal import may_hold, results, subgraphs, with_nested
from opshift.verification.random_operators import GENERATORS

_SIZES = frozenset(["Shape", "Size"])


def following(graph: GraphProto, known: Collection[str], sized: Collection[str] = ()) -> set[str]:
    """The values that follow from those that are `known` and from the sizes of those that are `sized`, inner ones, too.

    What a loop goes through, and what a function makes, is not followed.
    """
    found = {*known, *(tensor.name for tensor in graph.initializer)}
    for node in graph.node:
        graphs = [inner for _, _, inner in subgraphs(node)] if may_hold(node) else []
        for inner in graphs:
            found |= following(inner, found - {value.name for value in inner.input}, sized)
        if default_domain(node.domain) or node.op_type in GENERATORS:
            continue
        read = {*node.input, *(name for inner in graphs for name in results(inner))} - {""}
        if read <= found or (node.op_type in _SIZES and read.issubset(sized)):
            found.update(node.output)
    return found - {""}


def sized(model: ModelProto, fixed: ModelProto) -> set[str]:
    """The values of a graph, inner ones, too, that have one shape where its inputs are those of another form.

    What is declared of all others is a claim.
    """
    import onnx

    copy, kinds = ModelProto(), {value.name: value.type for value in fixed.graph.input}
    copy.CopyFrom(model)
    for body in with_nested([copy.graph]):
        del body.value_info[:]
        for value in (*getattr(body, "output", ()), *(getattr(body, "input", ()) if body is not copy.graph else ())):
            value.type.tensor_type.ClearField("shape")
    values = list(copy.graph.input)
    for value in values:
        value.type.CopyFrom(kinds.get(value.name, value.type))
    with suppress(Exception):  # of a model that it does not take, nothing more is known
        found = onnx.shape_inference.infer_shapes(copy)
        values += [value for body in with_nested([found.graph]) for value in body.value_info]
    return {value.name for value in values if _is_sized(value.type)}


def _is_sized(kind: TypeProto) -> bool:
    shape = kind.tensor_type.shape
    return kind.tensor_type.HasField("shape") and all(dim.HasField("dim_value") for dim in shape.dim)
