"""What a Pad cuts off as a Slice before it, for backends that pad and do not crop."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.changes import Change
from opshift.passes.model import imports, schemas, tensors
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.editing.names import Names
from opshift.passes.model.messages import ModelProto, NodeProto

CROPS = frozenset({"Pad"})
_SINCE = 11
"""The opset from which on pads are an input, of integers."""
_MODES = (b"constant", b"edge", b"reflect")
"""Those in which what is cut off at one side is not what the other side gets."""
_TO_THE_END = (1 << 63) - 1
_HOW = "cuts off by a Slice"


def crop(model: ModelProto, op: str) -> tuple[ModelProto, list[Change]]:
    """The model in whose main graph no `op` pads by constants below 0; itself where none does."""
    opset = imports.opsets(model).get("", 1)
    scope = Scope(model.graph, Context(model, model, None), opset, path=())
    made = ModelProto()
    made.CopyFrom(model)
    writer = _Writer(made, scope, Names(made).fresh)
    changes: list[Change] = []
    nodes: list[NodeProto] = []
    for node in made.graph.node if opset >= _SINCE else ():
        parts = list(writer.parts(node)) if node.op_type == op and not node.domain else []
        nodes += parts or [node]
        if parts:
            version = schemas.since("", op, opset) or 1
            changes.append(Change(node.name or node.output[0], op, "", version, version, _HOW))
    if not changes:
        return model, changes
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made, changes


class _Writer:
    def __init__(self, made: ModelProto, scope: Scope, fresh: Callable[[str], str]):
        self._made, self._scope, self._fresh = made, scope, fresh

    def parts(self, node: NodeProto) -> Iterator[NodeProto]:
        """A Slice, and a Pad of what is left; nothing where the pads are unknown, or none is below 0."""
        pads = self._scope.ints(node.input[1])
        axes = self._scope.ints(node.input[3]) if len(node.input) > 3 and node.input[3] else None
        mode = next((attribute_value(attribute) for attribute in node.attribute if attribute.name == "mode"), b"")
        if pads is None or min(pads, default=0) >= 0 or (mode and _bytes(mode) not in _MODES):
            return
        if axes is None and len(node.input) > 3 and node.input[3]:
            return
        half = len(pads) // 2
        held = axes if axes is not None else list(range(half))
        cut = [(axis, *ends) for axis, *ends in zip(held, pads[:half], pads[half:], strict=True) if min(ends) < 0]
        starts = [max(-first, 0) for _, first, _ in cut]
        stops = [last if last < 0 else _TO_THE_END for _, _, last in cut]
        which = [axis for axis, _, _ in cut]
        given = [
            self._held(f"{node.output[0]}/{name}", values)
            for name, values in zip(("starts", "ends", "axes"), (starts, stops, which), strict=True)
        ]
        shorter = self._fresh(f"{node.output[0]}/cut")
        yield NodeProto(op_type="Slice", input=[node.input[0], *given], output=[shorter])
        rest = NodeProto()
        rest.CopyFrom(node)
        rest.input[0] = shorter
        rest.input[1] = self._held(f"{node.output[0]}/pads", [max(pad, 0) for pad in pads])
        yield rest

    def _held(self, name: str, values: list[int]) -> str:
        tensor = tensors.int64s(values)
        tensor.name = self._fresh(name)
        self._made.graph.initializer.append(tensor)
        return tensor.name


def _bytes(mode: bytes | str) -> bytes:
    return mode if isinstance(mode, bytes) else mode.encode()
