"""What values of one body are dequantized from: numbers, scale and zero point, as operators on integers take them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from opshift.passes.analysis.scope import Scope
from opshift.passes.errors import reason
from opshift.passes.fusion.group import Uses
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import NodeProto, TensorProto, normalize_domain
from opshift.passes.model.traversal import integer
from opshift.passes.model.types import element_name
from opshift.passes.rewrite.builder import Builder

T = TensorProto
BYTES = (T.UINT8, T.INT8)
WIDER: dict[int, int] = {T.UINT4: T.UINT8, T.INT4: T.INT8}
"""Constants of 4 bits are written in 8, which hold the same numbers."""
FIRST, LAST = "first", "last"


class Stays(Exception):
    """Raised where a call stays on floats: what it has, and what operators on integers support."""

    def __init__(self, found: str, supported: str = "", fix: str = ""):
        super().__init__(reason(found, supported, fix))


class Dequantized(NamedTuple):
    """What a DequantizeLinear reads, and along which axis its scale goes."""

    values: str
    scale: str
    zero_point: str
    axis: int


@dataclass(frozen=True)
class Operands:
    """Reads the values of one body."""

    scope: Scope
    uses: Uses
    scalars: bool = False
    """Whether one scale must have no dimension, as most operators of onnxruntime's own ask for."""

    def maker_if(self, name: str, *ops: str, domain: str = "") -> NodeProto | None:
        """The node of this body that makes a value, if it is a call of one of some operators."""
        at = self.uses.makers.get(name)
        node = None if at is None else self.scope.body.node[at]
        return node if node is not None and node.op_type in ops and normalize_domain(node.domain) == domain else None

    def alone(self, name: str) -> bool:
        """Whether one node of this body reads a value, and nothing else."""
        return name not in self.uses.pinned and len(self.uses.users.get(name, ())) == 1

    def is_one(self, *names: str) -> bool:
        """Whether all that are there have one element."""
        return all(self.scope.shape(name) in ([], [1]) for name in names if name)

    def find_dequantized(self, name: str) -> Dequantized | None:
        """Find the integers, scale and zero point that a value is dequantized from; the scale must be float32."""
        node = self.maker_if(name, "DequantizeLinear")
        if (
            node is None
            or {a.name for a in node.attribute} - {"axis"}
            or self.scope.elem_type(node.input[1]) != T.FLOAT
        ):
            return None
        return Dequantized(node.input[0], node.input[1], input_at(node, 2), integer(node, "axis", 1))

    def operand(self, build: Builder, name: str, axis: int | None = None, rank: int = 0) -> list[str]:
        """Values, scale and zero point of an operand with one scale, or with one for each element of an axis.

        Raises:
            Stays: it has none such.
        """
        found = self.find_dequantized(name)
        if found is None:
            raise Stays(self._describe_operand(name), supported="DequantizeLinear of 8 bits, with scales in float32")
        elem_type = self.scope.elem_type(found.values)
        if elem_type not in BYTES and elem_type not in WIDER:
            raise Stays(f"an operand is dequantized from {element_name(elem_type)}", supported="8 bits")
        one = self.is_one(found.scale, found.zero_point)
        if not one and (axis is None or not rank or found.axis % rank != axis % rank):
            own = "one scale, or one for each channel of the weights" if axis is not None else "one scale"
            raise Stays(f"an operand has several scales, along axis {found.axis}", supported=own)
        form = partial(self.one, build) if one else self.bare
        values, zero = found.values, form(found.zero_point)
        if elem_type in WIDER:
            held = self.scope.array(values), self.scope.array(zero) if zero else np.zeros(())
            if held[0] is None or held[1] is None:
                raise Stays(
                    f"an operand of type {element_name(elem_type)} is not constant", supported="constants of that type"
                )
            values = build.constant(held[0].astype(np.int16), WIDER[elem_type])
            zero = build.constant(held[1].astype(np.int16), WIDER[elem_type]) if zero else ""
        scale = form(found.scale)
        return [values, scale, zero or self.zeros(build, scale, WIDER.get(elem_type, elem_type))]

    def zero_point(self, name: str) -> str:
        """The zero point that a value is dequantized with; empty where it is not, or has none."""
        found = self.find_dequantized(name)
        return "" if found is None else found.zero_point

    def one(self, build: Builder, name: str) -> str:
        """A scale or zero point of one element as the operator takes it."""
        bare = self.bare(name)
        if not self.scalars or not bare or self.scope.shape(bare) != [1]:
            return bare
        if self.scope.shape(name) == []:
            return name
        held = self.scope.array(bare)
        if held is None:
            return str(build.Reshape(bare, []))
        return build.constant(held.reshape(()), self.scope.elem_type(bare))

    def bare(self, name: str) -> str:
        """A scale or zero point before a Reshape that makes a scalar of it; operators on integers take both."""
        made = self.scope.maker(name) if name else None
        is_one = made is not None and made.op_type == "Reshape" and self.is_one(name, made.input[0])
        return made.input[0] if made is not None and is_one and not normalize_domain(made.domain) else name

    def zeros(self, build: Builder, scale: str, elem_type: int) -> str:
        """A zero point of 0 for each scale."""
        dims = self.scope.shape(scale)
        if dims is None or not all(isinstance(dim, int) for dim in dims):
            raise Stays("there is no zero point, and the number of scales is unknown")
        return build.constant(np.zeros([dim for dim in dims if isinstance(dim, int)]), elem_type, "zero_point")

    def _describe_operand(self, name: str) -> str:
        """Say why an operand does not count as dequantized, for the report."""
        node = self.scope.maker(name)
        if node is not None and node.op_type == "DequantizeLinear":
            return "an operand is dequantized in blocks, or with other types"
        made = "held in floats" if node is None or node.op_type == "Constant" else f"computed by {node.op_type}"
        return f"an operand is {made}"

    def same(self, name: str, other: str) -> bool:
        """Whether two scales or zero points are the same, by name or as constants."""
        if self.bare(name) == self.bare(other):
            return True
        one, another = self.number(name), self.number(other)
        return one is not None and one == another

    def find_transposed(self, name: str) -> tuple[str, str]:
        """Find the input of a Transpose that moves channels to the second axis or to the last, and say which."""
        node = self.maker_if(name, "Transpose")
        perm = (
            list(next((attribute_value(a) for a in node.attribute if a.name == "perm"), ())) if node is not None else []
        )
        rank = len(perm)
        if node is not None and rank > 2:
            if perm == [0, rank - 1, *range(1, rank - 1)]:
                return node.input[0], FIRST
            if perm == [0, *range(2, rank), 1]:
                return node.input[0], LAST
        return name, ""

    def number(self, name: str) -> float | None:
        """The only element of a constant."""
        held = self.scope.array(name) if name else None
        return None if held is None or held.size != 1 else float(held.reshape(()))

    def wide(self, name: str, to: int) -> tuple[str, str] | None:
        """Integers that are cast to a wider type, and the zero point that is subtracted there, if one is."""
        minus = self.maker_if(name, "Sub")
        cast = self.maker_if(minus.input[0] if minus is not None else name, "Cast")
        if cast is None or integer(cast, "to", 0) != to:
            return None
        zero = "" if minus is None else minus.input[1]
        moved = self.maker_if(zero, "Cast") if zero else None
        if zero and (moved is None or integer(moved, "to", 0) != to):
            return None
        return cast.input[0], "" if moved is None else self.level(moved.input[0])

    def level(self, name: str) -> str:
        """A vector before an Unsqueeze that makes it one of rows or channels."""
        made = self.maker_if(name, "Unsqueeze")
        return made.input[0] if made is not None and len(self.scope.shape(made.input[0]) or ()) == 1 else name

    def above(self, *nodes: NodeProto) -> Iterator[str]:
        """What some nodes read, and what that is dequantized and shaped from."""
        names = [name for node in nodes for name in node.input]
        for _ in range(4):
            yield from names
            names = [up for name in names if (made := self.scope.maker(name)) is not None for up in made.input]


def input_at(node: NodeProto, index: int) -> str:
    """An input; the empty string where it is left out."""
    return node.input[index] if index < len(node.input) else ""


def value_of(node: NodeProto, name: str, default: Any) -> Any:
    """An attribute's value."""
    return next((attribute_value(a) for a in node.attribute if a.name == name), default)
