"""What a Pad cuts off as a Slice before it, for backends that pad and do not crop."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.passes.changes import Change
from opshift.passes.model import tensors
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.messages import ModelProto, NodeProto
from opshift.trying.ways.rewriting import Rewriting

CROPS = frozenset({"Pad"})
_SINCE = 11
"""The opset from which on pads are an input, of integers."""
_MODES = ("constant", "edge", "reflect")
"""Those in which what is cut off at one side is not what the other side gets."""
_TO_THE_END = (1 << 63) - 1
_HOW = "Replaced negative pads by Slice"


def crop(model: ModelProto, op: str) -> tuple[ModelProto, list[Change]]:
    """The model in whose main graph no `op` pads by constants below 0; itself where none does."""
    work = Rewriting(model, op, _HOW)
    nodes: list[NodeProto] = []
    for node in model.graph.node if work.scope.opset >= _SINCE else ():
        parts = list(_parts(node, work)) if work.calls(node) else []
        nodes += parts or [node]
        if parts:
            work.did(node)
    return work.write(nodes)


def _parts(node: NodeProto, work: Rewriting) -> Iterator[NodeProto]:
    """A Slice, and a Pad of what is left; nothing where the pads are unknown, or none is below 0."""
    pads = work.scope.ints(node.input[1])
    mode = next((attribute_value(attribute) for attribute in node.attribute if attribute.name == "mode"), "constant")
    if pads is None or min(pads, default=0) >= 0 or mode not in _MODES:
        return
    half = len(pads) // 2
    told = len(node.input) > 3 and bool(node.input[3])
    axes = work.scope.ints(node.input[3]) if told else list(range(half))
    if axes is None:
        return
    cut = [(axis, *ends) for axis, *ends in zip(axes, pads[:half], pads[half:], strict=True) if min(ends) < 0]
    vectors = {
        "starts": [max(-first, 0) for _, first, _ in cut],
        "ends": [last if last < 0 else _TO_THE_END for _, _, last in cut],
        "axes": [axis for axis, _, _ in cut],
    }
    given = [_add_constant(work, f"{node.output[0]}/{name}", values) for name, values in vectors.items()]
    shorter = work.fresh(f"{node.output[0]}/cut")
    yield NodeProto(op_type="Slice", input=[node.input[0], *given], output=[shorter])
    rest = NodeProto()
    rest.CopyFrom(node)
    rest.input[0] = shorter
    rest.input[1] = _add_constant(work, f"{node.output[0]}/pads", [max(pad, 0) for pad in pads])
    yield rest


def _add_constant(work: Rewriting, name: str, values: list[int]) -> str:
    """The name of a new constant."""
    tensor = tensors.int64s(values)
    tensor.name = work.fresh(name)
    work.made.graph.initializer.append(tensor)
    return tensor.name
