"""What is declared of values that became constants, whose shapes are there to be seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opshift.passes.analysis.claims import CONTRADICTED, contradict, spelled
from opshift.passes.changes import Change
from opshift.passes.model import schemas, tensors
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import FunctionProto, GraphProto, ModelProto, TypeProto
from opshift.passes.model.traversal import Body, subgraphs
from opshift.passes.model.types import has_shape, tensor_type


def mend(model: ModelProto) -> Iterator[Change]:
    """Let `model` declare the shapes that constants have where it declares others."""
    held: list[Body] = [model.graph, *model.functions]
    for body in held:
        versions = opsets(body if isinstance(body, FunctionProto) and body.opset_import else model)
        yield from _mended(body, {}, versions.get("", 1))


def _mended(body: Body, outside: Mapping[str, TypeProto], opset: int) -> Iterator[Change]:
    held, outputs = dict(outside), body.output if isinstance(body, GraphProto) else ()
    if isinstance(body, GraphProto):
        for given in body.input:
            held.pop(given.name, None)
        held.update((tensor.name, tensor_type(tensor.data_type, tensor.dims)) for tensor in body.initializer)
    declared = {v.name: v.type for v in (*getattr(body, "value_info", ()), *outputs) if has_shape(v.type)}
    for node in body.node:
        kind = None
        if node.domain not in ("", "ai.onnx"):
            continue
        if node.op_type == "Constant":
            tensor = tensors.of_constant(node)
            kind = None if tensor is None else tensor_type(tensor.data_type, tensor.dims)
        elif node.op_type == "Identity":
            kind = held.get(node.input[0])
        if kind is None:
            for _, _, graph in subgraphs(node):
                yield from _mended(graph, held, opset)
            continue
        name = node.output[0]
        held[name] = kind
        if name in declared and contradict(declared[name], kind):
            said = f"{spelled(declared[name])} of {name!r}, which is {spelled(kind)}"
            declared[name].tensor_type.shape.CopyFrom(kind.tensor_type.shape)
            since = schemas.since("", node.op_type, opset) or 0
            yield Change(node.name or name, node.op_type, "", since, since, CONTRADICTED, "exact", said)
