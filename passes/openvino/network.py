"""What an OpenVINO IR file says: layers, their ports, and what feeds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import NUMBERS

Dims = tuple[int, ...]  # -1 for a dimension that is not known

ELEMENT_TYPES: dict[str, int] = {
    "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
    "f32": TensorProto.FLOAT,
    "f64": TensorProto.DOUBLE,
    "f8e4m3": TensorProto.FLOAT8E4M3FN,
    "f8e5m2": TensorProto.FLOAT8E5M2,
    "i4": NUMBERS["INT4"],
    "i8": TensorProto.INT8,
    "i16": TensorProto.INT16,
    "i32": TensorProto.INT32,
    "i64": TensorProto.INT64,
    "u4": NUMBERS["UINT4"],
    "u8": TensorProto.UINT8,
    "u16": TensorProto.UINT16,
    "u32": TensorProto.UINT32,
    "u64": TensorProto.UINT64,
    "boolean": TensorProto.BOOL,
    "string": TensorProto.STRING,
}
_LONG = {"fp16": "f16", "fp32": "f32", "fp64": "f64", "bool": "boolean"}


def element_type(text: str) -> int:
    """The ONNX element type that IR spells `f32` in attributes and `FP32` at ports; 0 for one that ONNX lacks."""
    text = text.lower()
    return ELEMENT_TYPES.get(_LONG.get(text, text), 0)


def split_names(text: str) -> list[str]:
    """The names in an attribute, which separates them by commas and escapes those that they hold."""
    parts, escaped = [""], False
    for char in text:
        if char == "," and not escaped:
            parts.append("")
        elif char != "\\" or escaped:
            parts[-1] += char
        escaped = char == "\\" and not escaped
    return parts


class End(NamedTuple):
    """One end of an edge: a layer and one of its ports, by their ids."""

    layer: str
    port: str


@dataclass(frozen=True)
class Port:
    """A port of a layer. Without dimensions it is a scalar, or of any rank: IR writes both alike."""

    id: str
    precision: str
    dims: Dims
    names: tuple[str, ...] = ()

    @property
    def elem_type(self) -> int:
        return element_type(self.precision)


class Mapped(NamedTuple):
    """How a body of a TensorIterator, Loop or If hangs on the ports of its layer."""

    port: str
    inner: str
    attributes: Mapping[str, str]


@dataclass
class Body:
    """Layers in an order in which each comes after what feeds it, and the edges by the port that they lead to."""

    layers: list[Entry]
    edges: dict[End, End]
    inputs: list[Mapped] = field(default_factory=list)
    outputs: list[Mapped] = field(default_factory=list)
    back_edges: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Entry:
    """One layer as the file has it."""

    id: str
    name: str
    type: str
    opset: str
    attributes: dict[str, str]
    inputs: list[Port]
    outputs: list[Port]
    bodies: dict[str, Body] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """The opset of OpenVINO that the operator is of; 0 for one of another origin."""
        number = self.opset.removeprefix("opset")
        return int(number) if number.isascii() and number.isdigit() and len(number) < 4 else 0


@dataclass
class Network:
    """A whole file: its graph, the file of its weights beside it, and what is said about it."""

    name: str
    graph: Body
    weights: str
    metadata: dict[str, str] = field(default_factory=dict)
