"""What an older onnxruntime does not check: it reads beyond what it is given, and yields whatever lies there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opshift.passes.model.attributes import attribute_value, make_attribute
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto
from opshift.passes.model.traversal import bodies

SINCE = (1, 25)
"""The first onnxruntime that refuses to reflect more than there is; 1.24.1 was seen to yield what lay beyond."""


def checked(model: ModelProto, version: str) -> ModelProto:
    """The model as that onnxruntime can run it: where one reflects, a copy that fails, not one that reads too far."""
    if _number(version) >= SINCE or not any(_reflects(node) for body in bodies(model) for node in body.node):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for body in reversed(list(bodies(copy))):  # what stands inside first: the nodes around it are made anew
        nodes = [made for node in body.node for made in ((*_check(node), node) if _reflects(node) else (node,))]
        held = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del body.node[:]
        body.node.extend(held)
    return copy


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _reflects(node: NodeProto) -> bool:
    is_pad = node.op_type == "Pad" and not node.domain
    return is_pad and any(a.name == "mode" and attribute_value(a) == "reflect" for a in node.attribute)


def _check(node: NodeProto) -> Sequence[NodeProto]:
    """Nodes that take an element which is there only if each reflection is shorter than its axis."""
    nodes = list[NodeProto]()

    def made(op: str, *inputs: str, **attributes: Any) -> str:
        output = f"{node.output[0]} ~{op}{len(nodes)}"
        held = [make_attribute(name, value) for name, value in attributes.items()]
        nodes.append(NodeProto(op_type=op, input=inputs, output=[output], attribute=held))
        return output

    def constant(values: Sequence[float]) -> str:
        kind = TensorProto.DOUBLE
        return made("Constant", value=TensorProto(data_type=kind, dims=[len(values)], double_data=values))

    data, pads, _, axes = [*node.input, "", "", ""][:4]
    written = next((attribute_value(a) for a in node.attribute if a.name == "pads"), None)
    longest = made("Cast", pads, to=TensorProto.DOUBLE) if written is None else constant(written)
    sizes = made("Cast", made("Shape", data), to=TensorProto.DOUBLE)
    sizes = made("Gather", sizes, axes) if axes else sizes
    one = constant([1])
    fits = made("Or", made("Less", longest, made("Concat", sizes, sizes, axis=0)), made("Less", longest, one))
    made("Gather", one, made("Cast", made("Not", fits), to=TensorProto.INT64))
    nodes[-1].name = f"{node.name} reflects" if node.name else ""  # which the engine repeats where it fails
    return nodes
