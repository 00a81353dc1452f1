"""QDQ as QOperator: DequantizeLinear, an operator on floats and QuantizeLinear are the operator on integers.

The scales stay what they are: one for a tensor, or one for each channel of the weights where the operator has that.
A bias is taken where it is held in int32 in the scale of the products. Nothing is quantized that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Allowance, Change
from opshift.passes.fusion.group import Uses
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import NodeProto, TensorProto, default_domain
from opshift.passes.model.traversal import Op, integer
from opshift.passes.rewrite.builder import Builder

T = TensorProto
_BYTES = frozenset((T.UINT8, T.INT8))
_MIXED: dict[int, list[list[int]]] = {
    T.UINT8: [[T.UINT8, T.UINT8], [T.UINT8, T.INT8]],
    T.INT8: [[T.INT8, T.INT8]],
}
"""The types of both operands by that of the result, as onnxruntime has kernels for them."""
_REMARK = "computed in integers and rounded once, which differs by a step where that rounds otherwise"


class Dequantized(NamedTuple):
    """What a DequantizeLinear reads, and along which axis its scale goes."""

    values: str
    scale: str
    zero_point: str
    axis: int


@dataclass(frozen=True)
class Quantizer:
    """Finds the calls of quantized operators in one body."""

    scope: Scope
    uses: Uses
    allowance: Allowance

    def taken(self, ops: Sequence[Op]) -> dict[int, list[NodeProto]]:
        """The nodes that take the places of others, by index."""
        found: dict[int, list[NodeProto]] = {}
        wanted = {KINDS[op].of: op for op in ops if op in KINDS}
        for index, node in enumerate(self.scope.body.node):
            if node.op_type == "QuantizeLinear" and not default_domain(node.domain):
                for at, made in self._replaced(index, node, wanted):
                    found[at] = made
        return found

    def _replaced(self, index: int, node: NodeProto, wanted: dict[str, Op]) -> Iterator[tuple[int, list[NodeProto]]]:
        at = self.uses.makers.get(node.input[0], -1)
        inner = self.scope.body.node[at] if at >= 0 else None
        if inner is None or default_domain(inner.domain) or inner.op_type not in wanted:
            return
        if node.input[0] in self.uses.pinned or len(self.uses.users[node.input[0]]) != 1 or not self._is_output(node):
            return
        op = wanted[inner.op_type]
        build = Builder(self.scope, self.scope.opset, node)
        inputs = KINDS[op].inputs(self, build, inner)
        if inputs is None:
            return
        kinds = [self.scope.elem_type(given) for given in (inputs[0], inputs[3])]
        if kinds not in _MIXED.get(self._output_kind(node), ()):
            return
        how = f"{op[1]} from DequantizeLinear, {inner.op_type}, QuantizeLinear"
        if not self.allowance.permits(node.name or node.output[0], op[1], how):
            return
        y = KINDS[op].result
        zero = self.bare(node.input[2]) if len(node.input) > 2 and node.input[2] else build.constant(0, T.UINT8)
        inputs[y:y] = [self.bare(node.input[1]), zero]
        made = NodeProto(op_type=op[1], name=node.name, doc_string=node.doc_string, input=inputs, output=node.output)
        made.attribute.extend(inner.attribute)
        self.scope.context.released.update(self._above(inner, node))
        self.allowance.made.append(
            Change(node.name or node.output[0], op[1], "", self.scope.opset, self.scope.opset, how, "close", _REMARK)
        )
        yield at, []
        yield index, [*build.nodes, made]

    def _above(self, *nodes: NodeProto) -> Iterator[str]:
        """What some nodes read, and what that is dequantized and shaped from."""
        names = [name for node in nodes for name in node.input]
        for _ in range(3):
            yield from names
            names = [above for name in names if (made := self.scope.maker(name)) is not None for above in made.input]

    def _is_output(self, node: NodeProto) -> bool:
        """Whether a QuantizeLinear has one scale and gives 8 bits, as operators on integers do."""
        bare = not {a.name for a in node.attribute} & {"block_size", "precision"}
        return bare and self._is_one(*node.input[1:]) and self.scope.elem_type(node.input[1]) == T.FLOAT

    def _output_kind(self, node: NodeProto) -> int:
        if len(node.input) > 2 and node.input[2]:
            return self.scope.elem_type(node.input[2])
        return T.UINT8 if integer(node, "output_dtype", T.UINT8) == T.UINT8 else 0

    def _is_one(self, *names: str) -> bool:
        return all(self.scope.shape(name) in ([], [1]) for name in names if name)

    def dequantized(self, name: str) -> Dequantized | None:
        """What a value is dequantized from, with a scale in float32."""
        at = self.uses.makers.get(name)
        node = None if at is None else self.scope.body.node[at]
        if node is None or node.op_type != "DequantizeLinear" or default_domain(node.domain):
            return None
        if {a.name for a in node.attribute} - {"axis"} or self.scope.elem_type(node.input[1]) != T.FLOAT:
            return None
        zero = node.input[2] if len(node.input) > 2 else ""
        return Dequantized(node.input[0], node.input[1], zero, integer(node, "axis", 1))

    def operand(self, build: Builder, name: str, axis: int | None = None, rank: int = 0) -> list[str] | None:
        """Values, scale and zero point of an operand with one scale, or with one for each element of an axis."""
        found = self.dequantized(name)
        kind = 0 if found is None else self.scope.elem_type(found.values)
        if found is None or kind not in _BYTES:
            return None
        one = self._is_one(found.scale, found.zero_point)
        if not one and (axis is None or not rank or found.axis % rank != axis % rank):
            return None
        zero = self.bare(found.zero_point) or self._zeros(build, found.scale, kind)
        return [found.values, self.bare(found.scale), zero]

    def bare(self, name: str) -> str:
        """A scale or zero point before a Reshape that makes a scalar of it; operators on integers take both."""
        made = self.scope.maker(name) if name else None
        is_one = made is not None and made.op_type == "Reshape" and self._is_one(name, made.input[0])
        return made.input[0] if made is not None and is_one and not default_domain(made.domain) else name

    def _zeros(self, build: Builder, scale: str, kind: int) -> str:
        dims = self.scope.shape(scale) or []
        return build.constant(np.zeros([dim for dim in dims if isinstance(dim, int)]), kind, "zero_point")

    def bias(self, name: str, x_scale: str, w_scale: str) -> str | None:
        """The int32 numbers of a bias that is held in the scale of the products."""
        found = self.dequantized(name)
        if found is None or self.scope.elem_type(found.values) != T.INT32:
            return None
        zero = self.scope.array(found.zero_point) if found.zero_point else np.zeros(1)
        if zero is None or zero.any():
            return None
        made = self.scope.maker(found.scale)
        if made is not None and made.op_type == "Mul" and sorted(made.input) == sorted((x_scale, w_scale)):
            return found.values
        scales = [self.scope.array(given) for given in (found.scale, x_scale, w_scale)]
        if any(scale is None for scale in scales):
            return None
        own, x, w = (np.ravel(scale) for scale in scales if scale is not None)
        product = np.multiply(x, w, dtype=np.float32)
        return found.values if own.size in (1, product.size) and (own == product).all() else None


def _convolution(of: Quantizer, build: Builder, node: NodeProto) -> list[str] | None:
    rank = len(of.scope.shape(node.input[1]) or ())
    x, w = of.operand(build, node.input[0]), of.operand(build, node.input[1], 0, rank)
    if x is None or w is None:
        return None
    if len(node.input) < 3 or not node.input[2]:
        return [*x, *w]
    bias = of.bias(node.input[2], x[1], w[1])
    return None if bias is None else [*x, *w, bias]


def _product(of: Quantizer, build: Builder, node: NodeProto) -> list[str] | None:
    rank = len(of.scope.shape(node.input[1]) or ())
    a, b = of.operand(build, node.input[0]), of.operand(build, node.input[1], -1 if rank == 2 else None, rank)
    return None if a is None or b is None else [*a, *b]


class Kind(NamedTuple):
    """An operator on floats, how the inputs of the one on integers are told, and where its scale stands among them."""

    of: str
    inputs: Callable[[Quantizer, Builder, NodeProto], list[str] | None]
    result: int = 6


KINDS: dict[Op, Kind] = {
    ("", "QLinearConv"): Kind("Conv", _convolution),
    ("", "QLinearMatMul"): Kind("MatMul", _product),
}
"""The operators on integers that are found, by name alone."""
