"""`Layer`: one OpenVINO operator call, as the functions that express it in ONNX see it, and their table."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

from opshift.passes.errors import reason
from opshift.passes.model import tensors
from opshift.passes.model.messages import GraphProto, TensorProto
from opshift.passes.openvino.idle import IDLE
from opshift.passes.openvino.network import Body, Entry, element_type
from opshift.passes.rewrite.builder import Builder

T = TensorProto
FLOATS = frozenset({T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16})
SIGNED = frozenset({T.INT8, T.INT16, T.INT32, T.INT64})
UNSIGNED = frozenset({T.UINT8, T.UINT16, T.UINT32, T.UINT64})

OPSET = 21
"""The opset of ONNX that all layers are written at."""

Made = str | Sequence[str]
Mapping = Callable[["Layer"], Made]

MAPPINGS: dict[str, Mapping] = {}


@dataclass
class Nested:
    """The graph of a body on its way into ONNX: `build` emits what comes before its layers, `finish` adds those."""

    graph: GraphProto
    build: Builder
    finish: Callable[[Sequence[str]], list[str]]
    """Told the ids of Result layers; returns the names of their values, none of which is an output yet."""


Nest = Callable[[Body, dict[str, str]], Nested]


class Unmapped(Exception):
    """Raised for a layer that ONNX cannot express: what it has, and what is supported."""

    def __init__(self, found: str, supported: str = "", fix: str = ""):
        super().__init__(reason(found, supported, fix))


def layer(*types: str) -> Callable[[Mapping], Mapping]:
    """Register what expresses layers of these types: it returns the value of each output port."""

    def register(mapping: Mapping) -> Mapping:
        for name in types:
            if name in MAPPINGS:
                raise ValueError(f"{name} is mapped twice")
            MAPPINGS[name] = mapping
        return mapping

    return register


class Layer:
    """One layer: its attributes as values, its inputs as names of ONNX values, and a builder at `OPSET`."""

    def __init__(self, entry: Entry, inputs: list[str], build: Builder, nest: Nest, unread: Container[int] = ()):
        self.entry = entry
        self.unread = unread  # outputs that lead nowhere
        self.nest = nest
        self.inputs = inputs
        self.build = build
        self.remarks: list[str] = []
        self.read: set[str] = set()  # names of attributes

    @property
    def type(self) -> str:
        return self.entry.type

    @property
    def version(self) -> int:
        return self.entry.version

    def close(self, why: str) -> None:
        """Grade the layer `close`: the same real-number function, but rounding or width may differ."""
        self.remarks.append(why)

    # --- attributes -----------------------------------------------------------------------------------------

    def text(self, name: str, default: str | None = None) -> str:
        """An attribute in lower case."""
        return self.exact_text(name, default).lower()

    def exact_text(self, name: str, default: str | None = None) -> str:
        """An attribute as it is written."""
        self.read.add(name)
        found = self.entry.attributes.get(name, default)
        if found is None:
            raise Unmapped(f"attribute {name} is missing")
        return found

    def check_attributes(self) -> None:
        """Every attribute has been read, or changes nothing."""
        idle = IDLE.get(self.type, {}).keys() | self.read
        for name, value in self.entry.attributes.items():
            if name not in idle:
                raise Unmapped(f"{name}={value}, which ONNX has no attribute for")

    def choice(self, name: str, allowed: Sequence[str], default: str | None = None) -> str:
        """Read an attribute that must be one of these texts."""
        found = self.text(name, default)
        if found not in allowed:
            raise Unmapped(f"{name}={found}", supported=f"{' or '.join(allowed)}")
        return found

    def flag(self, name: str, default: bool | None = None) -> bool:
        return self.choice(name, ("true", "false", "1", "0"), None if default is None else str(default)) in (
            "true",
            "1",
        )

    def number(self, name: str, default: float | None = None) -> float:
        return float(self._parse(name, default, float))

    def integer(self, name: str, default: int | None = None) -> int:
        return int(self._parse(name, default, int))

    def ints(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        if name not in self.entry.attributes and default is not None:
            return list(default)
        text = self.exact_text(name)
        try:
            return [int(part) for part in text.split(",") if part.strip()]
        except ValueError:
            raise Unmapped(f"{name}={text!r} is not a list of integers") from None

    def numbers(self, name: str) -> list[float]:
        text = self.exact_text(name)
        try:
            return [float(part) for part in text.split(",") if part.strip()]
        except ValueError:
            raise Unmapped(f"{name}={text!r} is not a list of numbers") from None

    def _parse(self, name: str, default: Any, kind: Callable[[str], Any]) -> Any:
        if name not in self.entry.attributes and default is not None:
            return default
        text = self.text(name)
        try:
            return kind(text)
        except ValueError:
            raise Unmapped(f"{name}={text!r} is not a number") from None

    def element_type(self, name: str, default: str | None = None) -> int:
        """An attribute that names an element type."""
        text = self.text(name, default)
        found = element_type(text)
        if not found:
            raise Unmapped(f"{name}={text}, which ONNX does not have")
        return found

    # --- inputs ---------------------------------------------------------------------------------------------

    def input(self, index: int) -> str:
        if index >= len(self.inputs):
            raise Unmapped(f"it has {len(self.inputs)} inputs, which are too few")
        return self.inputs[index]

    def has(self, index: int) -> bool:
        return index < len(self.inputs)

    def elem_type(self, index: int = 0) -> int:
        return self.type_of(self.input(index))

    def type_of(self, name: str) -> int:
        found = self.build.scope.elem_type(name)
        if not found:
            raise Unmapped(f'the type of "{name}" is unknown')
        return int(found)

    def dims(self, index: int = 0) -> list[int] | None:
        """The dimensions of an input, -1 for one that is not known; None where not even the rank is."""
        return self.dims_of(self.input(index))

    def dims_of(self, name: str) -> list[int] | None:
        found = self.build.scope.shape(name)
        return None if found is None else [dim if isinstance(dim, int) else -1 for dim in found]

    def rank(self, index: int = 0) -> int:
        found = self.dims(index)
        if found is None:
            raise Unmapped(f"the rank of input {index} is unknown")
        return len(found)

    def static(self, index: int = 0) -> list[int]:
        """Dimensions that are all known."""
        found = self.dims(index)
        if found is None or min(found, default=0) < 0:
            raise Unmapped(f"the shape of input {index} is unknown")
        return found

    def constant(self, index: int) -> list[int] | None:
        """The integers of a constant input; None if it is not constant."""
        found = self.array(index)
        return None if found is None else [int(value) for value in found.reshape(-1)]

    def array(self, index: int) -> Any:
        """The values of a small constant input; None if it is not constant, or is a weight."""
        held = self.build.scope.tensor(self.input(index), tensors.SMALL)
        return None if held is None else tensors.array(held)

    def require_constant(self, index: int) -> list[int]:
        found = self.constant(index)
        if found is None:
            raise Unmapped(f"input {index} is dynamic", supported="a constant")
        return found

    def scalar(self, index: int) -> float | None:
        """The number of a constant of one element."""
        found = self.array(index)
        return float(found.reshape(-1)[0]) if found is not None and found.size == 1 else None

    def axes(self, index: int, rank: int) -> list[int]:
        """Constant axes, counted from the front."""
        if self.constant(index) is None:
            raise Unmapped("the axis is dynamic, but an attribute in ONNX", supported="a constant axis")
        return [self.normal(axis, rank) for axis in self.require_constant(index)]

    def normal(self, axis: int, rank: int) -> int:
        if not -rank <= axis < rank:
            raise Unmapped(f"axis {axis} is out of range for rank {rank}")
        return axis % rank

    def is_read(self, output: int) -> bool:
        return output not in self.unread

    # --- values ---------------------------------------------------------------------------------------------

    def like(self, value: float, index: int = 0) -> str:
        """A scalar constant of the type of an input."""
        return self.build.constant(value, self.elem_type(index))

    def cast(self, name: str, to: int) -> str:
        """A value as another type; itself if it is of that."""
        if self.build.scope.elem_type(name) == to:
            return name
        return str(self.build.Cast(name, to=to))

    def int64(self, index: int) -> str:
        """An integer input as int64, which is what ONNX takes for shapes and axes."""
        held = self.constant(index)
        if held is not None and self.elem_type(index) != T.INT64:
            dims = self.dims(index)
            return self.build.constant(tensors.int64s(held, dims))
        return self.cast(self.input(index), T.INT64)

    def vector(self, index: int) -> str:
        """An integer scalar or vector as an int64 vector."""
        held = self.constant(index)
        if held is not None:
            return self.build.constant(tensors.int64s(held))
        dims = self.dims(index)
        wide = self.int64(index)
        return wide if dims is not None and len(dims) == 1 else str(self.build.Reshape(wide, [-1]))

    def length(self, index: int) -> int:
        """How many elements a vector has."""
        dims = self.dims(index)
        if dims is None or len(dims) > 1 or -1 in dims:
            raise Unmapped(f"the length of input {index} is unknown", supported="a constant, or a static shape")
        if dims and dims[0] > tensors.SMALL:
            raise Unmapped(f"input {index} has {dims[0]} numbers, more than a tensor can have axes")
        return dims[0] if dims else 1

    def reshape(self, index: int, dims: Sequence[int]) -> str:
        """An input in another shape; the bytes of a weight stay where they are."""
        name = self.input(index)
        owner = self.build.scope.owner(name)
        held = owner.initializers.get(name) if owner is not None else None
        if held is None or owner is not self.build.scope:
            return str(self.build.Reshape(name, list(dims)))
        made = TensorProto()
        made.CopyFrom(held)
        made.dims[:] = dims
        fresh = self.build.scope.context.names.fresh(f"{name}/reshaped")
        self.build.scope.hold(fresh, made)
        return fresh

    def permute(self, name: str, order: Sequence[int]) -> str:
        """A value with its axes in another order; itself where that is the order they have."""
        return name if list(order) == list(range(len(order))) else str(self.build.Transpose(name, perm=list(order)))
