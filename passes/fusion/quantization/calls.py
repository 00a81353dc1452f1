"""A call on floats between quantized values, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from opshift.passes.fusion.quantization.operands import Operands, Stays, input_at, value_of
from opshift.passes.model.messages import NodeProto, TensorProto
from opshift.passes.model.types import element_name
from opshift.passes.rewrite.builder import Builder

T = TensorProto
MIXED: dict[int, tuple[int, ...]] = {T.UINT8: (T.UINT8, T.INT8), T.INT8: (T.INT8,)}
"""The types of weights by that of the data, as onnxruntime has kernels for them."""


@dataclass(frozen=True)
class FloatCall:
    """A call of an operator on floats, what it reads, and what becomes of it before it is quantized."""

    node: NodeProto
    inputs: list[str]
    inside: list[int]
    """The nodes that go with it, by index."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Those that it has besides, by how its inputs and its result are shaped."""
    scale: str = ""
    zero_point: str = ""
    """Those of the result, where it is quantized."""

    def value(self, name: str, default: Any) -> Any:
        """An attribute, of the call itself or of what stands around it."""
        return self.attributes.get(name, value_of(self.node, name, default))

    def input(self, index: int) -> str:
        """An input; the empty string where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else ""


class IntegerOperands(NamedTuple):
    """The inputs of an operator on integers, and its attributes."""

    inputs: list[str]
    attributes: Mapping[str, Any]
    op: str = ""
    """The operator of ONNX, if it is not the one that is looked for."""
    how: str = ""
    """What is done, if it is not that one operator comes of others."""
    remark: str = ""
    """What is to be said of it besides."""


Make = Callable[[Operands, Builder, FloatCall, int], IntegerOperands | None]
"""What makes the inputs, but for the scale and zero point of the result, whose type is given (0 for floats).

None where that is not what is computed; `Stays` is raised where it is, and is not all on such integers.
"""


class QuantizedKind(NamedTuple):
    """An operator on floats, what makes that on integers of it, and where the scale of the result stands."""

    of: str
    make: Make
    result: int = 6


def attributes_of(call: FloatCall, *left_out: str) -> dict[str, Any]:
    """The attributes of a call as they are."""
    return {a.name: value_of(call.node, a.name, None) for a in call.node.attribute if a.name not in left_out}


def check_same(of: Operands, elem_type: int, *names: str) -> None:
    other = next((own for own in map(of.scope.elem_type, names) if own != elem_type), elem_type)
    if other != elem_type:
        raise Stays(f"{element_name(other)} is requantized to {element_name(elem_type)}", supported="one type")


def check_kernel(of: Operands, elem_type: int, x: str, w: str) -> None:
    """That there is a kernel for these types, and a result of the type of the data."""
    own, weights = of.scope.elem_type(x), of.scope.elem_type(w)
    if own != (elem_type or own) or weights not in MIXED.get(own, ()):
        found = f"{element_name(own)} times {element_name(weights)}" + (
            f" becomes {element_name(elem_type)}" if elem_type else ""
        )
        raise Stays(f"{found}", supported="uint8 times uint8 or int8, and int8 times int8, of the data's type")


def try_make(make: Make, of: Operands, build: Builder, call: FloatCall, elem_type: int) -> IntegerOperands | None:
    """Call `make`; None if it raises `Stays`."""
    try:
        return make(of, build, call, elem_type)
    except Stays:
        return None


def output_elem_type(of: Operands, node: NodeProto) -> int:
    """The type of 8 bits that a QuantizeLinear with one scale gives; 0 for any other."""
    bare = not {a.name for a in node.attribute} & {"block_size", "precision"}
    if not bare or not of.is_one(*node.input[1:]) or of.scope.elem_type(node.input[1]) != T.FLOAT:
        return 0
    zero = input_at(node, 2)
    elem_type = of.scope.elem_type(zero) if zero else value_of(node, "output_dtype", 0) or T.UINT8
    return int(elem_type) if elem_type in MIXED else 0
