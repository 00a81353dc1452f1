"""`Node`: one operator call, as steps see it."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from opshift.passes.errors import CannotConvert
from opshift.passes.model import schemas, tensor_data
from opshift.passes.model.attributes import attribute_value, make_attribute
from opshift.passes.model.messages import AttributeProto, NodeProto, SparseTensorProto, TensorProto, normalize_domain
from opshift.passes.model.numbers import single

if TYPE_CHECKING:
    from opshift.passes.analysis.scope import Scope
    from opshift.passes.rewrite.builder import Builder


_INFERRED = frozenset(("", "ai.onnx.ml"))
"""The domains whose results ONNX's inference knows, if it knows enough of what they read."""


class Attributes(MutableMapping[str, Any]):
    """A node's attributes by name, as Python values. Absent is absent: defaults are for the step to give."""

    def __init__(self, node: Node):
        self._node = node

    def find(self, name: str) -> AttributeProto | None:
        """The attribute as stored."""
        return next((a for a in self._node.proto.attribute if a.name == name), None)

    def __getitem__(self, name: str) -> Any:
        found = self.find(name)
        if found is None:
            raise KeyError(name)
        if found.ref_attr_name:
            raise CannotConvert(
                self._node,
                f"attribute {name} refers to the attribute {found.ref_attr_name} of the function that holds the node",
                supported="a value",
            )
        value = attribute_value(found)
        if isinstance(value, TensorProto):
            return self._at_hand(name, value)
        if isinstance(value, SparseTensorProto):
            values, indices = (self._at_hand(name, part) for part in (value.values, value.indices))
            return SparseTensorProto(values=values, indices=indices, dims=value.dims)
        return value

    def get(self, name: str, default: Any = None, /) -> Any:
        """The value, or a default, which has 32 bits where it is a float, as a value that is written has."""
        if name in self:
            return self[name]
        return single(default) if isinstance(default, float) else default

    def _at_hand(self, name: str, held: TensorProto) -> TensorProto:
        found = tensor_data.load(held, self._node.scope.context.folder)
        if found is None:
            raise CannotConvert(self._node, f"the external data of attribute {name} cannot be read")
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        node = self._node
        arriving = schemas.schema(node.domain, node.op_type, node.build.opset)
        declared = arriving and arriving.attributes.get(name)
        node.touched = True
        fresh = make_attribute(name, value, declared.type if declared else 0)
        found = self.find(name)
        if found is None:
            self._node.proto.attribute.append(fresh)
        else:
            found.CopyFrom(fresh)

    def __delitem__(self, name: str) -> None:
        for index, attribute in enumerate(self._node.proto.attribute):
            if attribute.name == name:
                self._node.touched = True
                del self._node.proto.attribute[index]
                return
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(a.name == name for a in self._node.proto.attribute)

    def __iter__(self) -> Iterator[str]:
        return (a.name for a in self._node.proto.attribute)

    def __len__(self) -> int:
        return len(self._node.proto.attribute)


class Node:
    """One operator call at its own version.

    `proto` is the message itself; `scope` resolves its inputs; `build` emits nodes at the side of the boundary
    that the step leads to; `opset` is the version the node is written at.
    """

    def __init__(self, proto: NodeProto, scope: Scope, opset: int, build: Builder):
        self.proto = proto
        self.scope = scope
        self.opset = opset
        self.build = build
        self.touched = False
        self.grade = "exact"
        self.remarks: list[str] = []

    @property
    def op_type(self) -> str:
        return self.proto.op_type

    @op_type.setter
    def op_type(self, name: str) -> None:
        self.touched = True
        self.proto.op_type = name

    @property
    def domain(self) -> str:
        return self.proto.domain

    @property
    def name(self) -> str:
        """The node's name, or the name of its first output: the way a reader finds it in the file."""
        return self.proto.name or next((o for o in self.proto.output if o), "")

    @property
    def schema(self) -> schemas.Schema | None:
        """The schema that the node is written for."""
        return schemas.schema(self.proto.domain, self.proto.op_type, self.opset)

    @property
    def attributes(self) -> Attributes:
        return Attributes(self)

    @property
    def outputs(self) -> list[str]:
        return list(self.proto.output)

    @outputs.setter
    def outputs(self, names: Sequence[str]) -> None:
        names = list(names)
        while names and not names[-1]:
            names.pop()
        if names != self.outputs:
            self.touched = True
            self.proto.output[:] = names

    def is_used(self, index: int) -> bool:
        """Whether the node has this output and anybody may read it."""
        name = self.proto.output[index] if index < len(self.proto.output) else ""
        return bool(name) and name not in self.scope.context.unread

    @property
    def inputs(self) -> list[str]:
        """Input names; an omitted optional input is the empty string."""
        return list(self.proto.input)

    @inputs.setter
    def inputs(self, names: Sequence[str]) -> None:
        self.touched = True
        names = list(names)
        while names and not names[-1]:
            names.pop()
        self.scope.context.released.update(set(self.proto.input) - set(names))
        self.proto.input[:] = names

    def input(self, index: int) -> str:
        """The name of one input; the empty string where it is omitted."""
        return self.proto.input[index] if index < len(self.proto.input) else ""

    def set_input(self, index: int, name: str) -> None:
        """Replace one input; an empty name drops it."""
        names = self.inputs
        names += [""] * (index + 1 - len(names))
        names[index] = name
        self.inputs = names

    def drop_omitted(self) -> None:
        """Names of omitted inputs at the end say nothing, but runtimes count them."""
        while self.proto.input and not self.proto.input[-1]:
            self.proto.input.pop()

    def close(self, why: str) -> None:
        """Grade this change `close`: the same real-number function, but rounding or width may differ."""
        self.grade = "close"
        self.remarks.append(why)

    def elem_type(self, index: int = 0) -> int:
        """The element type of an input; raises `CannotConvert` where it is unknown."""
        found = self.scope.elem_type(self.input(index))
        if not found:
            raise self.unknown("type", self.input(index))
        return found

    def rank(self, index: int = 0) -> int:
        """The rank of an input; raises `CannotConvert` where it is unknown."""
        found = self.scope.rank(self.input(index))
        if found is None:
            raise self.unknown("rank", self.input(index))
        return found

    def unknown(self, what: str, name: str) -> CannotConvert:
        """What to raise where the type or the rank of a value is unknown, with the value that has to be declared."""
        origin, made = self.scope.find_unknown(what, name)
        fix = "a value_info that declares " + ("it" if origin == name else f'"{origin}"')
        if made is not None and normalize_domain(made.domain) not in _INFERRED:
            fix += f" (made by {made.domain}::{made.op_type})"
        elif what == "rank":
            fix = f"--fix-shape, or {fix}"
        return CannotConvert(self, f'the {what} of "{name}" is unknown', fix=fix)
