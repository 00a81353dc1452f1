"""Drop nodes that yield what they read, for a backend that lacks their operator."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.passes.changes import Allowance, Change, Result
from opshift.passes.model import tensors
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto, copy_model, normalize_domain
from opshift.passes.model.traversal import Body, bodies
from opshift.passes.records import dataclass
from opshift.passes.stages.stage import Facts

_HOW = "Dropped {}, which yields what it reads"


@dataclass(frozen=True)
class DropCopies:
    """Drop Identity, and Dropout in inference: QNN and Core ML have neither.

    Attributes:
        ops: those of the two that the backend lacks.
    """

    ops: tuple[str, ...]
    optional = False
    settles = ""

    @property
    def name(self) -> str:
        return f"drop {' and '.join(self.ops)}"

    def apply(self, model: ModelProto, facts: Facts, allowance: Allowance) -> Result:
        """Let readers read what the node reads; where it yields an output, the node before yields that.

        A node between an input and an output of a graph stays: its definition takes its place.
        """
        if not any(node.op_type in self.ops for body in bodies(model) for node in body.node):
            return Result(model, (), ())
        copy = copy_model(model)
        changes: list[Change] = []
        for body in bodies(copy):
            opset = opsets(copy if isinstance(body, GraphProto) else body).get("", 1)
            changes += self._drop(body, opset)
        return Result(copy, tuple(changes), ()) if changes else Result(model, (), ())

    def _drop(self, body: Body, opset: int) -> Iterator[Change]:
        """Drop the copies of one body."""
        kept = {value if isinstance(value, str) else value.name for value in body.output}
        made = {name for node in body.node for name in node.output if name}
        false = {
            tensor.name
            for tensor in (body.initializer if isinstance(body, GraphProto) else ())
            if (array := tensors.array(tensor)) is not None and array.size == 1 and not array.any()
        }
        names: dict[str, str] = {}
        dropped = []
        for index, node in enumerate(body.node):
            if not self._is_copy(node, opset, false):
                continue
            read, result = node.input[0], node.output[0]
            read = names.get(read, read)
            if result not in kept:
                names[result] = read
            elif read in made and read not in kept:
                names = {name: result if other == read else other for name, other in names.items()}
                names[read] = result
            else:
                continue
            dropped.append(index)
            yield Change(node.name or result, node.op_type, "", 0, 0, _HOW.format(node.op_type))
        if not names:
            return
        for index in reversed(dropped):
            del body.node[index]
        rename(body.node, names)
        declared = [value for value in body.value_info if value.name not in names]
        del body.value_info[:]
        body.value_info.extend(declared)

    def _is_copy(self, node: NodeProto, opset: int, false: set[str]) -> bool:
        """Whether the first output is the first input, and no other one is there."""
        if normalize_domain(node.domain) or node.op_type not in self.ops or any(node.output[1:]):
            return False
        if node.op_type == "Identity":
            return True
        if opset < 7:
            return any(held.name == "is_test" and held.i for held in node.attribute)
        return not any(node.input[2:]) or node.input[2] in false
