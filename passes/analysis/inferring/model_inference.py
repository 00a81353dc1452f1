"""Infer the types of all values of a model: by onnx, in rounds, each with the ranks that follow from the last one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opshift.passes import process
from opshift.passes.analysis import claims
from opshift.passes.analysis.claims import Path
from opshift.passes.analysis.inferring import corrected, stand_ins
from opshift.passes.analysis.inferring.weightless import check_installed, room, survey_without_weights
from opshift.passes.analysis.knowledge import KnownBody
from opshift.passes.analysis.shapes import Shapes, graph_types
from opshift.passes.model import schemas, tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.messages import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    normalize_domain,
)
from opshift.passes.model.traversal import Calls, census, holding, subgraphs

from opshift import functions

Opened = Callable[[ModelProto, int], KnownBody]
"""Opens a scope of the main graph of a model, at an opset."""


_SHAPES = {"Reshape": 1, "Expand": 1, "ConstantOfShape": 0}
"""Operators whose output has as many dimensions as one of their inputs has elements, and the place of that input."""

_ROUNDS = 32  # the most rounds of inference
_HIGHEST = 64  # the largest rank that is believed


def infer(source: ModelProto, opened: Opened) -> tuple[dict[Path, Shapes], ModelProto | None]:
    """Infer the types of all values; returns them by the path of their graph.

    Also returns the inferred model if it has a Reshape, which may be misread: see `shapes.find_granted`.
    """
    light, (held, calls) = survey_without_weights(source)
    recurrent = schemas.MICROSOFT, stand_ins.RECURRENT
    if recurrent in calls and all((function.domain, function.name) != recurrent for function in light.functions):
        for node in light.graph.node:
            if (node.domain, node.op_type) == recurrent:
                stand_ins.stand_for_recurrent(node)
    defined = _definitions(light, calls)
    if defined:
        light.functions.extend(defined)
        held, calls = census([*reversed(light.functions), light.graph])
    check_installed(light)
    claims.withdraw(light, held)
    ops = {(normalize_domain(domain), op) for domain, op in calls}
    try:
        with process.at_most(lambda: room(light)):
            inferred = corrected.infer_types(light, ops)
            known = Shapes(graph_types(inferred.graph))
            silent = _is_silent(inferred.graph, known)
            more = silent and _compute_constants(light, opened)
            if silent and ("", "Range") in ops:
                more |= claims.state_lengths(light, inferred)
            for _ in range(_ROUNDS if silent else 0):
                if not _add_ranks(light.graph, inferred.graph, value_types=known.types) | more:
                    break
                inferred = corrected.infer_types(light, ops)
                known = Shapes(graph_types(inferred.graph))
                more = False
    except Exception:  # a model that inference cannot digest still has its declared types
        return {}, None
    found: dict[Path, Shapes] = {(): known}
    pending: list[tuple[Path, GraphProto]] = [((), inferred.graph)] if len(held) > 1 else []
    while pending:
        path, graph = pending.pop()
        for index, node in holding(graph):
            inner = [((*path, (index, attribute, k)), g) for attribute, k, g in subgraphs(node)]
            found.update((at, Shapes(graph_types(g))) for at, g in inner)
            pending += inner
    return found, inferred if ("", "Reshape") in ops else None


def _is_silent(graph: GraphProto, known: Shapes) -> bool:
    """Tell whether inference left a shape or a size of the graph open."""
    shapes = (known.of(name) for node in graph.node for name in node.output[:] if name)
    return any(
        sizes is None or any(isinstance(size, str) and claims.is_made_up(size) for size in sizes) for sizes in shapes
    )


def _compute_constants(light: ModelProto, opened: Opened) -> bool:
    """Replace nodes of the main graph that compute small constants by Constants; returns False if there are none."""
    opset = next((entry.version for entry in light.opset_import if not normalize_domain(entry.domain)), 1)
    scope = opened(light, opset)
    held = {"", *scope.initializers}
    computed: dict[int, TensorProto] = {}
    for index, node in enumerate(light.graph.node):
        if node.op_type != "Constant":
            named = node.input[:]
            if not held.issuperset(named) or not any(named) or len(node.output) != 1:
                continue
            tensor = scope.tensor(node.output[0], tensors.SMALL)
            if tensor is None or tensors.size(tensor) > tensors.SMALL:
                continue
            computed[index] = tensor
        elif any(tensors.size(attribute.t) > tensors.SMALL for attribute in node.attribute):
            continue  # `without_weights` removed its values
        held.update(node.output)
    for index, tensor in computed.items():
        node = light.graph.node[index]
        node.op_type = "Constant"
        del node.input[:], node.attribute[:]
        node.attribute.append(make_attribute("value", tensor))
    return bool(computed)


def _add_ranks(
    light: GraphProto,
    inferred: GraphProto,
    outer: Callable[[str], int | None] = lambda _: None,
    value_types: Mapping[str, TypeProto] | None = None,
) -> bool:
    """Declare ranks in `light` that follow from the lengths of computed shapes; returns False if there are none.

    `outer` tells the lengths of outer vectors; `value_types` are the types in `inferred`, if they were read already.
    """
    shaped = [node for node in light.node if node.op_type in _SHAPES and not node.domain]
    nested = holding(light)
    if not shaped and not nested:
        return False
    value_types = graph_types(inferred) if value_types is None else value_types
    lengths = {tensor.name: tensor.dims[0] for tensor in inferred.initializer if len(tensor.dims) == 1}

    def length(name: str) -> int | None:
        if name in value_types:
            dims = value_types[name].tensor_type.shape.dim
            if len(dims) == 1 and dims[0].HasField("dim_value"):
                return int(dims[0].dim_value)
        return lengths.get(name) if name in value_types or name in lengths else outer(name)

    stated = {value.name: value for value in (*light.value_info, *light.output)}
    found = False
    for index, node in nested:
        for (_, _, graph), (_, _, other) in zip(subgraphs(node), subgraphs(inferred.node[index]), strict=True):
            found |= _add_ranks(graph, other, length)
    for node in shaped:
        name = node.output[0]
        rank = _rank(node, value_types, length)
        if rank is None:
            continue
        value = stated.get(name) or light.value_info.add(name=name)
        if name in value_types:
            value.type.CopyFrom(value_types[name])
        value.type.tensor_type.shape.SetInParent()
        for _ in range(rank):
            value.type.tensor_type.shape.dim.add()
        found = True
    return found


def _rank(node: NodeProto, value_types: Mapping[str, TypeProto], length: Callable[[str], int | None]) -> int | None:
    """Find the rank of an output by the length of the shape that the node reads; None if it is known already."""
    at, known = _SHAPES[node.op_type], value_types.get(node.output[0])
    if len(node.input) <= at or (known is not None and known.tensor_type.HasField("shape")):
        return None
    rank = length(node.input[at])
    if rank is not None and node.op_type == "Expand":
        data = value_types.get(node.input[0])
        if data is None or not data.tensor_type.HasField("shape"):
            return None
        rank = max(rank, len(data.tensor_type.shape.dim))
    return rank if rank is not None and 0 < rank <= _HIGHEST else None


def _definitions(light: ModelProto, calls: Calls) -> list[FunctionProto]:
    """List definitions of the vendor operators that a model calls, so that onnx can infer their outputs."""
    own = {(function.domain, function.name) for function in light.functions}
    found: list[FunctionProto] = []
    for op in calls:
        if schemas.is_onnx_domain(op[0]) or op in own or not functions.has_definition(*op):
            continue
        function = FunctionProto()
        function.CopyFrom(functions.any_body(*op))
        function.domain, function.name = op
        found.append(function)
    return found
