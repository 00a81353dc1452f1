"""One node, as rules see it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from opshift.passes.analysis.polynomial import Number
from opshift.passes.model.attributes import attribute_value, make_attribute
from opshift.passes.model.messages import NodeProto, TensorProto
from opshift.passes.simplification.workspace import LARGEST, KnownNumbers, Workspace


class Call:
    """One node, as rules see it."""

    def __init__(self, proto: NodeProto, space: Workspace):
        self.proto = proto
        self.space = space
        self.op = proto.op_type
        self.inputs: list[str] = proto.input[:]
        self.outputs: list[str] = proto.output[:]
        self.output = self.outputs[0] if self.outputs else ""
        self._makers: dict[int, Call | None] = {}
        self.before: list[NodeProto] = []
        self.grade = "exact"
        self.remark = ""

    @property
    def opset(self) -> int:
        return self.space.opset

    def input(self, index: int) -> str:
        """The name of one input; the empty string where it is omitted."""
        inputs = self.inputs
        return inputs[index] if index < len(inputs) else ""

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute."""
        for attribute in self.proto.attribute:
            if attribute.name == name:
                return attribute_value(attribute)
        return default

    def set(self, name: str, value: Any) -> None:
        """Set an attribute, or remove it."""
        for index, attribute in enumerate(self.proto.attribute):
            if attribute.name == name:
                del self.proto.attribute[index]
                break
        if value is not None:
            self.proto.attribute.append(make_attribute(name, value))

    def array(self, index: int, most: int = LARGEST) -> Any:
        """The constant at an input; None where it is none."""
        name = self.input(index)
        return self.space.array(name, most) if name else None

    def ints(self, index: int) -> list[int] | None:
        """The integers of a small constant at an input."""
        found = self.known_numbers(index)
        if found is None or not all(isinstance(number, int) for number in found.values):
            return None
        return [number for number in found.values if isinstance(number, int)]

    def known_numbers(self, index: int) -> KnownNumbers | None:
        """The numbers of a small integer scalar or vector at an input."""
        name = self.input(index)
        return self.space.known_numbers(name) if name else None

    def axes(self, position: int = 1) -> list[int] | None:
        """The axes that an attribute or a constant input names; None where they are unknown or left out."""
        given = self.attribute("axes")
        return list(given) if given is not None else self.ints(position)

    def shape(self, index: int = 0) -> tuple[Number, ...] | None:
        name = self.input(index)
        return self.space.shape(name) if name else None

    def shape_of(self, name: str) -> tuple[Number, ...] | None:
        """The dimensions of any value."""
        return self.space.shape(name)

    def elem_type(self, index: int = 0) -> int:
        name = self.input(index)
        return self.space.elem_type(name) if name else 0

    def maker(self, index: int = 0) -> Call | None:
        """The node of this very body that makes an input."""
        try:
            return self._makers[index]
        except KeyError:
            made = self.space.makers.get(self.input(index))
            known = made is not None and not made.domain and not self.space.is_open(made)
            self._makers[index] = found = Call(made, self.space) if made is not None and known else None
            return found

    def maker_if(self, op: str, index: int = 0) -> Call | None:
        """Find the node that makes an input, if it is a call of this operator."""
        made = self.maker(index)
        return made if made is not None and made.op == op else None

    def alone(self, index: int = 0) -> bool:
        """Whether nothing else uses what an input is."""
        name = self.input(index)
        return not self.space.is_protected(name) and self.space.whole.check_uses(name, 1)

    def is_unused(self, index: int) -> bool:
        """Whether an output is unused or left out."""
        name = self.outputs[index] if index < len(self.outputs) else ""
        return not name or self.space.whole.check_uses(name, 0)

    def read(self, *names: str) -> None:
        """Read these inputs instead of those that were read."""
        kept = list(names)
        while kept and not kept[-1]:
            kept.pop()
        self.proto.input[:] = self.inputs = kept
        self._makers = {}
        self.space.whole.uses.update(kept)

    def emit(self, op: str, inputs: Sequence[str], shape: Iterable[Number] | None = None, **attributes: Any) -> str:
        """A new node in front of this one; equal ones are one. Returns its output."""
        key = (op, tuple(inputs), tuple(sorted((name, repr(value)) for name, value in attributes.items())))
        found: str | None = self.space.emitted.get(key)
        if found is None:
            names = self.space.whole.context.names
            found = names.fresh(f"{self.output}/{op}")
            made = NodeProto(op_type=op, input=inputs, output=[found])
            if self.proto.name:
                made.name = names.fresh(f"{self.proto.name}/{op}")
            made.attribute.extend(make_attribute(name, value) for name, value in attributes.items())
            self.before.append(made)
            self.space.register(made)
            self.space.emitted[key] = found
            self.space.whole.uses.update(inputs)
        if shape is not None:
            self.space.learn(found, tuple(shape))
        return found

    def constant(self, tensor: TensorProto, hint: str = "") -> str:
        """The name of a constant."""
        return self.space.constant(tensor, hint or f"{self.output}/const", self.before)

    def hold(self, array: Any, hint: str) -> str:
        """The same of an array, which is not read anew where a rule asks for it later."""
        import onnx.numpy_helper

        name = self.constant(onnx.numpy_helper.from_array(array), hint)
        self.space.arrays.setdefault(name, array)
        return name

    def grant(self) -> None:
        """Take sizes that only the run tells to be 1 or more."""
        self.space.whole.leans = True

    def close(self, why: str) -> None:
        """The same real-number function, but rounding may differ; or `why` tells what is taken for granted."""
        self.grade = "close"
        self.remark = f"{self.remark}; {why}" if self.remark else why
