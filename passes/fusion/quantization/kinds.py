"""How operators on integers are told from what is computed in floats between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from opshift.passes.fusion.quantization.blocks import weights
from opshift.passes.fusion.quantization.forms import MOVED, SCALED
from opshift.passes.fusion.quantization.operands import FIRST, LAST, Operands, given, value_of
from opshift.passes.fusion.quantization.pieces import convolved
from opshift.passes.model.messages import NodeProto, TensorProto, default_domain
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.model.traversal import Op
from opshift.passes.rewrite.builder import Builder

T = TensorProto
MIXED: dict[int, tuple[int, ...]] = {T.UINT8: (T.UINT8, T.INT8), T.INT8: (T.INT8,)}
"""The types of weights by that of the data, as onnxruntime has kernels for them."""


@dataclass(frozen=True)
class Call:
    """A call of an operator on floats, what it reads, and what becomes of it before it is quantized."""

    node: NodeProto
    inputs: list[str]
    inside: list[int]
    """The nodes that go with it, by index."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Those that it has besides, by how its inputs and its result are shaped."""

    def value(self, name: str, default: Any) -> Any:
        """An attribute, of the call itself or of what stands around it."""
        return self.attributes.get(name, value_of(self.node, name, default))

    def input(self, index: int) -> str:
        """An input; the empty string where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else ""


class Made(NamedTuple):
    """The inputs of an operator on integers, and its attributes."""

    inputs: list[str]
    attributes: Mapping[str, Any]
    op: str = ""
    """The operator of ONNX, if it is not the one that is looked for."""
    how: str = ""
    """What is done, if it is not that one operator comes of others."""


Make = Callable[[Operands, Builder, Call, int], Made | None]
"""What makes the inputs, but for the scale and zero point of the result, whose type is given (0 for floats)."""


class Kind(NamedTuple):
    """An operator on floats, what makes that on integers of it, and where the scale of the result stands."""

    of: str
    make: Make
    result: int = 6


def _own(call: Call, *left_out: str) -> dict[str, Any]:
    """The attributes of a call as they are."""
    return {a.name: value_of(call.node, a.name, None) for a in call.node.attribute if a.name not in left_out}


def _same(of: Operands, kind: int, *names: str) -> bool:
    return all(of.scope.elem_type(name) == kind for name in names)


def _all_of(count: int) -> Make:
    """So many operands, all of the type of the result."""

    def make(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
        if call.attributes:
            return None
        found = [of.operand(build, name) for name in call.inputs]
        rows = [row for row in found if row is not None and _same(of, kind, row[0])]
        if len(rows) != len(found) or (count and len(rows) != count):
            return None
        return Made([name for row in rows for name in row], _own(call))

    return make


def _chosen(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    made = _all_of(2)(of, build, Call(call.node, call.inputs[1:], []), kind)
    return None if made is None else Made([call.inputs[0], *made.inputs], {})


def _convolution(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    rank = len(of.scope.shape(call.inputs[1]) or ())
    x, w = of.operand(build, call.inputs[0]), of.operand(build, call.inputs[1], 0, rank)
    if x is None or w is None or not _fit(of, kind, x[0], w[0]) or not _alike(of, w[2]):
        return None
    bias = of.bias(call.inputs[2], x[1], w[1]) if call.input(2) else ""
    return None if bias is None else Made([*x, *w, bias], {**_own(call), **call.attributes})


def _standard_convolution(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    return None if call.attributes else _convolution(of, build, call, kind)


def _alike(of: Operands, zero: str) -> bool:
    """Whether zero points of channels are the same, without which onnxruntime does not run."""
    held = None if of.is_one(zero) else of.scope.array(zero)
    return of.is_one(zero) or (held is not None and bool((held == held.reshape(-1)[:1]).all()))


def _fit(of: Operands, kind: int, x: str, w: str) -> bool:
    """Whether there is a kernel for these types, and a result of the type of the data."""
    own = of.scope.elem_type(x)
    return own == (kind or own) and of.scope.elem_type(w) in MIXED.get(own, ())


def _product(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    rank = len(of.scope.shape(call.inputs[1]) or ())
    a, b = of.operand(build, call.inputs[0]), of.operand(build, call.inputs[1], -1 if rank == 2 else None, rank)
    return None if a is None or b is None or not _fit(of, kind, a[0], b[0]) else Made([*a, *b], {})


def _gemm(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    turned, alpha, added = call.value("transB", 0), call.value("alpha", 1.0), call.input(2)
    if added and call.value("beta", 1.0) != 1.0:
        return None
    a, b = of.operand(build, call.inputs[0]), of.operand(build, call.inputs[1], 0 if turned else 1, 2)
    if a is None or b is None or not _fit(of, kind, a[0], b[0]):
        return None
    bias = of.bias(added, a[1], b[1], alpha) if added else ""
    own = {"alpha": alpha, "transA": call.value("transA", 0), "transB": turned}
    return None if bias is None else Made([*a, *b, bias], own)


def _pool(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    if set(call.value("dilations", (1,))) != {1}:
        return None
    if call.value("ceil_mode", 0) and call.value("count_include_pad", 0):  # where the kernel counts otherwise
        return None
    x = of.operand(build, call.inputs[0])
    own = {**_own(call, "dilations"), **call.attributes}
    return None if x is None or not _same(of, kind, x[0]) else Made(x, own)


def _softmax(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    x = of.operand(build, call.inputs[0])
    opset = min(of.scope.opset, 13)
    own = {"axis": call.value("axis", -1 if opset == 13 else 1), "opset": call.value("opset", opset)}
    return None if x is None or not _same(of, kind, x[0]) else Made(x, own)


def _with_bias(make: Make) -> Make:
    """The same of a sum with a vector."""

    def of_sum(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
        for product, bias in (call.inputs, call.inputs[::-1]):
            if product not in of.uses.makers or not of.alone(product) or of.scope.elem_type(bias) != T.FLOAT:
                continue
            at = of.uses.makers[product]
            node = of.scope.body.node[at]
            if default_domain(node.domain) or node.op_type not in ("MatMul", "Mul"):
                continue
            inner = Call(node, list(node.input), [])
            made = make(of, build, inner, kind)
            if made is not None and _is_row(of, bias, made):
                call.inside.extend([at, *inner.inside])
                return Made([*made.inputs, bias], {})
        return None

    return of_sum


def _is_row(of: Operands, bias: str, made: Made) -> bool:
    """Whether a bias has one element for each column of the matrix."""
    matrix = of.scope.shape(made.inputs[1])
    return matrix is not None and len(matrix) == 2 and of.scope.shape(bias) == matrix[-1:]


def _scaled(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    """MatMulIntegerToFloat: the product of what is dequantized, or the product of integers times both scales."""
    if call.node.op_type == "MatMul":
        made = _product(of, build, call, 0)
        if made is None:
            return None
        a, a_scale, a_zero, b, b_scale, b_zero = made.inputs
        return Made([a, b, a_scale, b_scale, a_zero, b_zero], {})
    for product, scale in (call.inputs, call.inputs[::-1]):
        cast = of.made_by(product, "Cast")
        node = of.made_by(cast.input[0], "MatMulInteger") if cast is not None else None
        scales = _both(of, build, scale)
        if cast is None or node is None or scales is None or value_of(cast, "to", 0) != T.FLOAT:
            continue
        a, b, a_zero, b_zero = (given(node, index) for index in range(4))
        inner = [product, cast.input[0]]
        if not all(map(of.alone, inner)) or not of.is_one(a_zero) or not _fit(of, 0, a, b):
            return None
        call.inside.extend(of.uses.makers[name] for name in inner)
        return Made([a, b, *scales, a_zero, b_zero], {})
    return None


def _both(of: Operands, build: Builder, name: str) -> list[str] | None:
    """The scale of the data and that of the weights, of which their product is known."""
    shape, made = of.scope.shape(name), of.made_by(name, "Mul")
    if shape is None or len(shape) > 1 or of.scope.elem_type(name) != T.FLOAT:
        return None
    if made is not None and of.is_one(made.input[0]):
        return list(made.input)
    if made is not None and of.is_one(made.input[1]):
        return list(made.input)[::-1]
    return [build.constant(1.0, T.FLOAT), name]


def _in_blocks(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    """MatMulNBits: a product with weights in blocks."""
    data = of.scope.elem_type(call.inputs[0])
    found = weights(of, build, call.inputs[1], data) if data in (T.FLOAT, T.FLOAT16) else None
    return None if found is None else Made([call.inputs[0], *found[0]], found[1])


def _in_blocks_with_bias(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    for product, bias in (call.inputs, call.inputs[::-1]):
        node = of.made_by(product, "MatMul")
        made = _in_blocks(of, build, Call(node, list(node.input), []), kind) if node is not None else None
        if made is not None and of.alone(product) and of.scope.shape(bias) == [made.attributes["N"]]:
            call.inside.append(of.uses.makers[product])
            return Made([*made.inputs, "", bias], made.attributes)
    return None


def _dequantized_product(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    """A product of integers times both scales, as a product of what is dequantized."""
    for scaled, scale in (call.inputs, call.inputs[::-1]):
        cast = of.made_by(scaled, "Cast")
        node = of.made_by(cast.input[0], "MatMulInteger", "ConvInteger") if cast is not None else None
        scales = _both(of, build, scale)
        if cast is None or node is None or scales is None or value_of(cast, "to", 0) != T.FLOAT:
            continue
        inner = [scaled, cast.input[0]]
        zeros, matrix = (given(node, 2), given(node, 3)), node.op_type == "MatMulInteger"
        one = of.is_one(scales[1], zeros[1])
        if (
            not all(map(of.alone, inner))
            or not of.is_one(zeros[0])
            or of.scope.opset < (_WITH_SCALARS if one else _ALONG)
        ):
            return None
        if not one and (not matrix or (zeros[1] and of.scope.shape(scales[1]) != of.scope.shape(zeros[1]))):
            return None
        call.inside.extend(of.uses.makers[name] for name in inner)
        a = build.DequantizeLinear(node.input[0], *(_scalar(of, build, name) for name in (scales[0], zeros[0])))
        weights = [scales[1], zeros[1]] if not one else [_scalar(of, build, name) for name in (scales[1], zeros[1])]
        b = build.DequantizeLinear(node.input[1], *weights, axis=None if one else -1)
        attributes = {held.name: value_of(node, held.name, None) for held in node.attribute}
        return Made([a, b], attributes, node.op_type.removesuffix("Integer"))
    return None


_WITH_SCALARS, _ALONG = 10, 13  # the opsets that DequantizeLinear came with, and its axis


def _scalar(of: Operands, build: Builder, name: str) -> str:
    return name if not name or of.scope.shape(name) == [] else str(build.Reshape(name, []))


def _dynamic(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    """DynamicQuantizeMatMul: the same, of data that are quantized where they are."""
    inner = Call(call.node, call.inputs, [])
    made = _scaled(of, build, inner, kind)
    if made is None:
        return None
    a, b, a_scale, b_scale, a_zero, b_zero = made.inputs
    node = of.made_by(a, "DynamicQuantizeLinear")
    if node is None or [a, a_scale, a_zero] != list(node.output):
        return None
    call.inside.extend(inner.inside)
    return Made([node.input[0], b, b_scale, b_zero], {})


def _integers(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    """MatMulInteger: a product of int32 numbers that are 8 bits minus a zero point."""
    found = [of.wide(name, T.INT32) for name in call.inputs]
    if any(row is None or of.scope.elem_type(row[0]) not in MIXED for row in found):
        return None
    (a, a_zero), (b, b_zero) = (row for row in found if row is not None)
    return Made([a, b, a_zero, b_zero], {}) if of.is_one(a_zero) else None


def _sixteen_bits(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    found = [of.wide(name, T.INT32) for name in call.inputs]
    if any(row is None or row[1] or of.scope.elem_type(row[0]) != T.INT16 for row in found):
        return None
    return Made([row[0] for row in found if row is not None], {})


def _integer_convolution(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    """ConvInteger: convolutions of floats that are 8 bits minus a zero point, cast to int32."""
    found = convolved(of, call.node)
    if found is None or any(of.scope.elem_type(name) not in MIXED for name in found.inputs[:2]):
        return None
    if not of.is_one(found.inputs[2]):
        return None
    call.inside.extend(found.inside)
    return Made(found.inputs, {a.name: value_of(found.conv, a.name, None) for a in found.conv.attribute})


def _moved(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    """An operator that moves numbers, between a DequantizeLinear and a QuantizeLinear of the same scale."""
    node = of.made_by(call.inputs[0], *MOVING)
    found = of.dequantized(node.input[0]) if node is not None else None
    if node is None or found is None or len(node.output) > 1 or not of.alone(call.inputs[0]):
        return None
    scale, zero, own = call.inputs[1], call.input(2), of.scope.elem_type(found.values)
    least = MOVING[node.op_type]
    if own not in MIXED or not zero or of.scope.elem_type(zero) != own or of.scope.opset < least:
        return None
    if not of.is_one(found.scale, scale) or not of.same(found.scale, scale) or not of.same(found.zero_point, zero):
        return None
    call.inside.append(of.uses.makers[call.inputs[0]])
    attributes = {a.name: value_of(node, a.name, None) for a in node.attribute}
    how = "numbers are moved as they are, and neither dequantized nor quantized for it"
    return Made([found.values, *node.input[1:]], attributes, node.op_type, how)


MOVING: Mapping[str, int] = {
    "MaxPool": 12,
    **dict.fromkeys(("Expand", "Flatten", "Gather", "Identity", "Reshape"), 10),
    **dict.fromkeys(("Slice", "Squeeze", "Tile", "Transpose", "Unsqueeze"), 10),
}
"""Operators whose results are some of the numbers of the first input, and since when they take 8 bits."""


def _pool_with_channels_last(of: Operands, build: Builder, call: Call, kind: int) -> Made | None:
    pool = of.made_by(call.inputs[0], "MaxPool")
    x, turned = of.turned(pool.input[0]) if pool is not None else ("", "")
    if pool is None or turned != FIRST or of.turned(call.node.output[0])[1] != LAST or len(pool.output) > 1:
        return None
    if of.scope.elem_type(x) not in MIXED or not of.alone(call.inputs[0]) or value_of(pool, "storage_order", 0):
        return None
    call.inside.append(of.uses.makers[call.inputs[0]])
    return Made([x], {a.name: value_of(pool, a.name, None) for a in pool.attribute if a.name != "storage_order"})


KINDS: dict[Op, Kind] = {
    ("", "QLinearConv"): Kind("Conv", _standard_convolution),
    ("", "QLinearMatMul"): Kind("MatMul", _product),
    (MICROSOFT, "QGemm"): Kind("Gemm", _gemm, 7),
    (MICROSOFT, "QLinearAdd"): Kind("Add", _all_of(2)),
    (MICROSOFT, "QLinearAveragePool"): Kind("AveragePool", _pool, 3),
    (MICROSOFT, "QLinearConcat"): Kind("Concat", _all_of(0), 0),
    (MICROSOFT, "QLinearConv"): Kind("Conv", _convolution),
    (MICROSOFT, "QLinearGlobalAveragePool"): Kind("GlobalAveragePool", _pool, 3),
    (MICROSOFT, "QLinearLeakyRelu"): Kind("LeakyRelu", _all_of(1), 3),
    (MICROSOFT, "QLinearMul"): Kind("Mul", _all_of(2)),
    (MICROSOFT, "QLinearSigmoid"): Kind("Sigmoid", _all_of(1), 3),
    (MICROSOFT, "QLinearSoftmax"): Kind("Softmax", _softmax, 3),
    (MICROSOFT, "QLinearWhere"): Kind("Where", _chosen, 7),
}
"""Operators on integers whose result is quantized."""

FLOATS: dict[Op, tuple[Kind, ...]] = {
    (MICROSOFT, "QGemm"): (Kind("Gemm", _gemm),),
    (MICROSOFT, "DynamicQuantizeMatMul"): (
        *(Kind("Add", _with_bias(_dynamic)), Kind("MatMul", _dynamic), Kind("Mul", _dynamic)),
    ),
    (MICROSOFT, "MatMulIntegerToFloat"): (
        *(Kind("Add", _with_bias(_scaled)), Kind("MatMul", _scaled), Kind("Mul", _scaled)),
    ),
    (MICROSOFT, "MatMulNBits"): (Kind("Add", _in_blocks_with_bias), Kind("MatMul", _in_blocks)),
    SCALED: (Kind("Mul", _dequantized_product),),
    MOVED: (Kind("QuantizeLinear", _moved),),
    ("", "MatMulInteger"): (Kind("MatMul", _integers),),
    ("", "ConvInteger"): (Kind("Add", _integer_convolution), Kind("Cast", _integer_convolution)),
    (MICROSOFT, "MatMulInteger16"): (Kind("MatMul", _sixteen_bits),),
    (MICROSOFT, "NhwcMaxPool"): (Kind("Transpose", _pool_with_channels_last),),
}
"""Those whose result is not."""

INTEGERS: frozenset[Op] = frozenset(
    [("", "MatMulInteger"), ("", "ConvInteger"), (MICROSOFT, "MatMulInteger16"), (MICROSOFT, "NhwcMaxPool"), MOVED]
)
"""What is exact in integers, however it is spelled."""


def anchors(op: Op) -> Iterator[str]:
    """The operators one of which a body has to hold for this one to be found."""
    if op in KINDS:
        yield "QuantizeLinear"
    yield from (kind.of for kind in FLOATS.get(op, ()))
