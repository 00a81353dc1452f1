"""Graphs and the element types of their values, read without the code under test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx
import onnx.defs
import onnx.inliner
import onnx.shape_inference
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

NARROW = {TensorProto.FLOAT16: "tensor(float16)", TensorProto.BFLOAT16: "tensor(bfloat16)"}

# Element types by name; 0 where nothing is known, and for sequences and optionals those of what they hold.
Types = dict[str, int]


def flat(model: ModelProto) -> ModelProto:
    """The model with its own functions inlined, and the types of all values inferred."""
    copy = ModelProto()
    copy.CopyFrom(model)
    if copy.functions:
        copy = onnx.inliner.inline_local_functions(copy)
    return onnx.shape_inference.infer_shapes(copy, check_type=False, strict_mode=False, data_prop=False)


def graphs(model: ModelProto) -> Iterator[tuple[GraphProto, Types]]:
    """Each graph, bodies behind what holds them, with the types of the values that its nodes can read."""
    opsets = {imported.domain: imported.version for imported in model.opset_import}
    yield from _inside(model.graph, {}, opsets)


def _inside(
    graph: GraphProto, outer: Mapping[str, int], opsets: Mapping[str, int]
) -> Iterator[tuple[GraphProto, Types]]:
    types = dict(outer)
    for value in (*graph.input, *graph.output, *graph.value_info):
        types[value.name] = element_type(value.type)
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    types |= {tensor.values.name: tensor.values.data_type for tensor in graph.sparse_initializer}
    for node in graph.node:
        for name, known in zip(node.output, _of_schema(node, types, opsets), strict=False):
            if name and not types.get(name):
                types[name] = known
    yield graph, types
    for node in graph.node:
        for body in bodies(node):
            yield from _inside(body, types, opsets)


def bodies(node: NodeProto) -> Iterator[GraphProto]:
    """Those of If, Loop, Scan and the like."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def element_type(of: TypeProto) -> int:
    """That of a tensor, or of what a sequence or an optional holds."""
    kind = of.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        return int(getattr(of, kind).elem_type)
    if kind in ("sequence_type", "optional_type"):
        return element_type(getattr(of, kind).elem_type)
    return 0


def schema_of(node: NodeProto, opsets: Mapping[str, int]) -> onnx.defs.OpSchema | None:
    """The schema of a call, None for operators that onnx does not know."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    try:
        return onnx.defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return None


def operands(node: NodeProto, schema: onnx.defs.OpSchema) -> Iterator[tuple[str, bool, str]]:
    """Name, whether it is an output, and the type as the schema says it, of each operand that is there."""
    for names, formals, output in ((node.input, schema.inputs, False), (node.output, schema.outputs, True)):
        for place, name in enumerate(names):
            if name and formals:
                yield name, output, formals[min(place, len(formals) - 1)].type_str


def _of_schema(node: NodeProto, types: Types, opsets: Mapping[str, int]) -> list[int]:
    """Types of the outputs where inference is silent: those of inputs that share a type variable, or of the first float."""
    schema = schema_of(node, opsets)
    if schema is None:
        floats = [types.get(name, 0) for name in node.input if types.get(name, 0) in (*NARROW, TensorProto.FLOAT)]
        return [floats[0] if floats else 0] * len(node.output)
    bound = {kind: types.get(name, 0) for name, output, kind in operands(node, schema) if not output}
    fixed = {text: number for number, text in _names().items()}
    return [bound.get(kind) or fixed.get(kind, 0) for _, output, kind in operands(node, schema) if output]


def _names() -> dict[int, str]:
    return {number: f"tensor({name.lower()})" for name, number in TensorProto.DataType.items()}
