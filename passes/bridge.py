"""Between `onnx_ir.Model` and the message that is rewritten; weights are neither copied nor read on the way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import onnx_ir
from onnx_ir.traversal import RecursiveGraphIterator
from opshift.passes.model import tensor_data, tensors
from opshift.passes.model.messages import ModelProto

Back = Callable[[ModelProto], onnx_ir.Model]


@contextmanager
def lend(model: onnx_ir.Model) -> Iterator[tuple[ModelProto, Back]]:
    """The message of a model, and what makes a model of such a message again.

    Large tensors, and those that lie in files, are references in the message. They are read, while this lasts, only
    where a rewrite asks for their values; the model that comes back has the very same tensors.
    """
    held: list[onnx_ir.TensorProtocol] = []
    names: list[str] = []
    with tensor_data.lend(lambda index: held[index].tobytes()) as location:

        def away(tensor: onnx_ir.TensorProtocol, name: str) -> onnx_ir.ExternalTensor:
            held.append(tensor)
            names.append(name)
            shape = onnx_ir.Shape(tensor.shape)
            return onnx_ir.ExternalTensor(location, len(held) - 1, 1, tensor.dtype, shape=shape, name=name)

        def back(made: ModelProto) -> onnx_ir.Model:
            result = onnx_ir.from_proto(made)
            for value, tensor in _initializers(result):
                if _lies_at(tensor, location):
                    own = held[tensor.offset]
                    value.const_value = own if value.name == names[tensor.offset] else _rename(own, value.name)
            for node, tensor in _constants(result):
                if _lies_at(tensor, location):
                    _hold(node, held[tensor.offset])
            return result

        replaced = [(value, tensor) for value, tensor in _initializers(model) if _is_weight(tensor)]
        nodes = [(node, node.attributes["value"]) for node, tensor in _constants(model) if _is_weight(tensor)]
        try:
            for value, tensor in replaced:
                value.const_value = away(tensor, value.name or "")
            for node, attribute in nodes:
                _hold(node, away(attribute.value, ""))
            source = onnx_ir.to_proto(model)
        finally:
            for value, tensor in replaced:
                value.const_value = tensor
            for node, attribute in nodes:
                node.attributes["value"] = attribute
        yield source, back


def folder(model: onnx_ir.Model) -> str | None:
    """Where the external data of a model lie; None for a model without, or with some in several folders."""
    held = (tensor for holders in (_initializers(model), _constants(model)) for _, tensor in holders)
    found = {os.path.abspath(tensor.base_dir) for tensor in held if isinstance(tensor, onnx_ir.ExternalTensor)}
    return found.pop() if len(found) == 1 else None


def _is_weight(tensor: onnx_ir.TensorProtocol) -> bool:
    if tensor.dtype == onnx_ir.DataType.STRING:
        return False
    return isinstance(tensor, onnx_ir.ExternalTensor) or bool(tensor.size > tensors.SMALL)


def _rename(tensor: onnx_ir.TensorProtocol, name: str | None) -> onnx_ir.LazyTensor:
    """The same data: onnx_ir gives a tensor the name of its initializer when a model is written."""
    return onnx_ir.LazyTensor(lambda: tensor, dtype=tensor.dtype, shape=onnx_ir.Shape(tensor.shape), name=name)


def _lies_at(tensor: Any, location: str) -> bool:
    return isinstance(tensor, onnx_ir.ExternalTensor) and str(tensor.location) == location


def _initializers(model: onnx_ir.Model) -> Iterator[tuple[onnx_ir.Value, Any]]:
    """The values that the graphs of a model, and those in its functions, hold, with their tensors."""
    graphs = [*model.graphs(), *(graph for function in model.functions.values() for graph in function.subgraphs())]
    for graph in graphs:
        for value in graph.initializers.values():
            if value.const_value is not None:
                yield value, value.const_value


def _constants(model: onnx_ir.Model) -> Iterator[tuple[onnx_ir.Node, Any]]:
    """The Constant nodes that hold a dense tensor."""
    for body in (model.graph, *model.functions.values()):
        for node in RecursiveGraphIterator(body):
            if node.op_type == "Constant" and not node.domain:
                held = node.attributes.get("value")
                if held is not None and held.type == onnx_ir.AttributeType.TENSOR and not held.is_ref():
                    yield node, held.value


def _hold(node: onnx_ir.Node, tensor: onnx_ir.TensorProtocol) -> None:
    node.attributes["value"] = onnx_ir.AttrTensor("value", tensor)
