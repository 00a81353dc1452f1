"""Guard calls for which an old onnxruntime returns garbage without an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from opshift.passes.model import tensors
from opshift.passes.model.attributes import attribute_value, make_attribute
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.model.traversal import bodies

REFLECTS, OVERFLOWS = (1, 25), (1, 32)
"""The first onnxruntime that refuses to reflect more than there is, where 1.24.1 was seen to yield what lay beyond, and
the first whose QLinearSoftmax stays finite, where 1.31.1 made zero points and lowest numbers of ones."""
T = TensorProto


def add_checks(model: ModelProto, version: str) -> ModelProto:
    """Copy a model so that an old onnxruntime fails where it would return garbage.

    Runs before onnxruntime opens a model.
    """
    if not any(_check(node, version) for body in bodies(model) for node in body.node):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for body in reversed(list(bodies(copy))):  # what stands inside first: the nodes around it are made anew
        nodes = [checked for node in body.node for checked in _with_check(node, version)]
        copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del body.node[:]
        body.node.extend(copies)
    return copy


def _with_check(node: NodeProto, version: str) -> Sequence[NodeProto]:
    check = _check(node, version)
    return (node,) if check is None else (*_failing(node, check), node)


@cache
def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


class _Nodes(list[NodeProto]):
    """The nodes of a check that is put in front of a node: it fails where an old onnxruntime returns garbage."""

    def __init__(self, before: NodeProto):
        self.before = before

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node to the check, and return the name of its output."""
        output = f"{self.before.output[0]} ~{op}{len(self)}"
        protos = [make_attribute(name, value) for name, value in attributes.items()]
        self.append(NodeProto(op_type=op, input=inputs, output=[output], attribute=protos))
        return output

    def constant(self, values: Sequence[float]) -> str:
        return self.add("Constant", value=T(data_type=T.DOUBLE, dims=[len(values)], double_data=values))

    def places(self, *values: int) -> str:
        return self.add("Constant", value=tensors.int64s(values))

    def sizes(self, data: str) -> str:
        return self.add("Cast", self.add("Shape", data), to=T.DOUBLE)


Check = Callable[[NodeProto, _Nodes], tuple[str, str]]


def _check(node: NodeProto, version: str) -> Check | None:
    """Find the check that a node needs in that onnxruntime. Asked for each node."""
    since, check = _CHECKED.get((node.domain, node.op_type), ((), None))
    if check is None or _number(version) >= since:
        return None
    return check if check is _is_finite or _attribute(node, "mode", "") == "reflect" else None


def _attribute(node: NodeProto, name: str, default: Any) -> Any:
    return next((attribute_value(a) for a in node.attribute if a.name == name), default)


def _failing(node: NodeProto, check: Check) -> _Nodes:
    """Build nodes that fail at run time unless the check holds."""
    nodes = _Nodes(node)
    holds, name = check(node, nodes)
    one = nodes.constant([1])
    nodes.add("Gather", one, nodes.add("Cast", nodes.add("Not", holds), to=T.INT64))
    nodes[-1].name = f"{node.name} {name}" if node.name else ""  # which the engine repeats where it fails
    return nodes


def _fits(node: NodeProto, nodes: _Nodes) -> tuple[str, str]:
    """Check that each reflecting pad is shorter than its axis. One of the checks of `add_checks`."""
    data, pads, _, axes = [*node.input, "", "", ""][:4]
    written = _attribute(node, "pads", None)
    longest = nodes.add("Cast", pads, to=T.DOUBLE) if written is None else nodes.constant(written)
    sizes = nodes.sizes(data)
    sizes = nodes.add("Gather", sizes, axes) if axes else sizes
    both = nodes.add("Concat", sizes, sizes, axis=0)
    return nodes.add(
        "Or", nodes.add("Less", longest, both), nodes.add("Less", longest, nodes.constant([1]))
    ), "reflects"


def _is_finite(node: NodeProto, nodes: _Nodes) -> tuple[str, str]:
    """Check that a quantized Softmax does not overflow. One of the checks of `add_checks`."""
    from opshift.passes.operators.shared.dequantized import PER_AXIS, ROOM

    per_axis = _attribute(node, "opset", PER_AXIS) >= PER_AXIS
    axis = _attribute(node, "axis", -1)
    end = axis + 1 if per_axis and axis != -1 else 2**31
    sizes = nodes.add("Slice", nodes.sizes(node.input[0]), nodes.places(axis), nodes.places(end))
    scale = nodes.add("Cast", node.input[3], to=T.DOUBLE)
    least = nodes.add("Mul", nodes.add("Mul", nodes.add("ReduceProd", sizes), scale), nodes.constant([ROOM]))
    return nodes.add("Not", nodes.add("Less", least, nodes.constant([1]))), "overflows"


_CHECKED: Mapping[tuple[str, str], tuple[tuple[int, ...], Check]] = {
    ("", "Pad"): (REFLECTS, _fits),
    (MICROSOFT, "QLinearSoftmax"): (OVERFLOWS, _is_finite),
}
