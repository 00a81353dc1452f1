"""Copy a model without its weights, for inference."""

from __future__ import annotations

from collections.abc import Iterable

from opshift.passes.analysis.inferring import inferred_defaults
from opshift.passes.model import installed, tensors
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    normalize_domain,
)
from opshift.passes.model.traversal import Census, bodies, census, with_nested

OVERRIDABLE_SINCE = 4  # the IR version from which on an initializer that is also an input is only a default
_LONGEST = 1 << 20  # inference allocates memory for each element of a vector, whatever length its type claims


def without_weights(source: ModelProto, *, checked: bool = False) -> ModelProto:
    """Copy a model for inference: large initializers of the main graph become inputs of the same type.

    Large Constants keep their shape, but lose their values. With `checked`, the copy is inferred as `onnx.checker`
    does: defaults of inputs count as values, and missing attributes have the defaults that onnx assumes.
    """
    return survey_without_weights(source, checked=checked)[0]


def survey_without_weights(source: ModelProto, *, checked: bool = False) -> tuple[ModelProto, Census]:
    """Copy a model as `without_weights` does; also returns its bodies and calls."""
    light = ModelProto(ir_version=max(source.ir_version, 4))
    light.opset_import.extend(source.opset_import)
    light.functions.extend(source.functions)
    graph, old = light.graph, source.graph
    graph.name = old.name or "graph"
    copied = 0
    for index in [index for index, node in enumerate(old.node) if node.op_type == "Constant" and _is_large(node)]:
        graph.node.extend(old.node[copied:index])
        graph.node.append(_empty_constant(old.node[index]))
        copied = index + 1
    graph.node.extend(old.node[copied:] if copied else old.node)
    graph.input.extend(old.input)
    graph.output.extend(old.output)
    graph.value_info.extend(old.value_info)
    inputs = {value.name for value in old.input}
    for sparse in old.sparse_initializer:  # nodes read it as a dense tensor, but inference would give it a sparse type
        if sparse.values.name not in inputs:
            _add_input(graph, sparse.values.name, sparse.values.data_type, sparse.dims)
    for tensor in old.initializer:
        if source.ir_version >= OVERRIDABLE_SINCE and tensor.name in inputs and not checked:
            continue  # a caller may give another value
        if tensors.size(tensor) <= tensors.SMALL and not tensor.external_data:
            graph.initializer.add().CopyFrom(tensor)
        elif tensor.name not in inputs:
            _add_input(graph, tensor.name, tensor.data_type, tensor.dims)
    for value in graph.input:
        if _is_long(value.type):
            value.type.tensor_type.shape.dim[0].Clear()
    if any(normalize_domain(entry.domain) != entry.domain for entry in light.opset_import):
        _without_alias(light)
    found = census([*reversed(light.functions), light.graph])
    if not checked:
        inferred_defaults.state_all(*found)
    return light, found


def _is_large(constant: NodeProto) -> bool:
    for attribute in constant.attribute:
        if attribute.HasField("t") and tensors.size(attribute.t) > tensors.SMALL:
            return not normalize_domain(constant.domain)
    return False


def _empty_constant(constant: NodeProto) -> NodeProto:
    """Copy a Constant without its values."""
    made = NodeProto(op_type=constant.op_type, output=constant.output, name=constant.name)
    for attribute in constant.attribute:
        if attribute.HasField("t") and tensors.size(attribute.t) > tensors.SMALL:
            held = made.attribute.add(name=attribute.name, type=attribute.type)
            held.t.CopyFrom(TensorProto(dims=attribute.t.dims, data_type=attribute.t.data_type))
        else:
            made.attribute.append(attribute)
    return made


def _add_input(graph: GraphProto, name: str, elem_type: int, dims: Iterable[int]) -> None:
    value = graph.input.add(name=name)
    value.type.tensor_type.elem_type = elem_type
    value.type.tensor_type.shape.SetInParent()
    for dim in dims:
        value.type.tensor_type.shape.dim.add().dim_value = dim


def _without_alias(light: ModelProto) -> None:
    """Write the default domain as the empty string: ONNX's inference knows no other name."""
    holders: list[ModelProto | FunctionProto] = [light, *light.functions]
    for holder in holders:
        for entry in holder.opset_import:
            entry.domain = normalize_domain(entry.domain)
    for body in bodies(light):
        for node in body.node:
            if node.domain:
                node.domain = normalize_domain(node.domain)


def _is_long(value_type: TypeProto) -> bool:
    dims = value_type.tensor_type.shape.dim
    return len(dims) == 1 and dims[0].dim_value > _LONGEST


def shorten(value_type: TypeProto) -> TypeProto:
    """Drop the length from the type of a very long vector, for which inference would allocate memory."""
    if not _is_long(value_type):
        return value_type
    made = TypeProto()
    made.CopyFrom(value_type)
    made.tensor_type.shape.dim[0].Clear()
    return made


def check_installed(light: ModelProto) -> None:
    """Raise `Lacking` if the installed onnx is too old to infer the model's operators at their opsets."""
    if not installed.is_old():
        return
    holders: list[ModelProto | FunctionProto] = [light, *light.functions]
    for holder in holders:
        body = holder if isinstance(holder, FunctionProto) else holder.graph
        nodes = (node for inner in with_nested([body]) for node in inner.node)
        installed.check_inference({(node.domain, node.op_type) for node in nodes}, opsets(holder))


def room(light: ModelProto) -> int:
    """Compute a memory limit for inference, in bytes: far more than a model without huge vectors needs."""
    return (1 << 29) + 64 * light.ByteSize()
