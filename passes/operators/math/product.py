"""Matrix products: integers came, the addend of Gemm became optional, quantized products took other types."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import carried
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined, same
from opshift.passes.rewrite.says import says

T = TensorProto

INTEGERS = (T.INT32, T.INT64, T.UINT32, T.UINT64)
FLOAT8 = (T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ)
HALF: dict[int, int] = {T.FLOAT16: T.FLOAT, T.BFLOAT16: T.FLOAT}


@says("Integers were not allowed: the factors are multiplied with broadcasting and summed over the common axis.")
def product_of_integers(node: Node) -> Replacement:
    if node.elem_type() not in INTEGERS:
        return None
    return _product(node.build, node.input(0), node.input(1), node.rank(0), node.rank(1))


def _product(build: Builder, a: str, b: str, rank_a: int, rank_b: int) -> str:
    """sum over k of a[..., i, k, 1] * b[..., 1, k, j]; a vector has no i, or no j."""
    if rank_b == 1:
        common = rank_a - 1
    elif rank_a == 1:
        a, common = build.Unsqueeze(a, axes=[1]), rank_b - 2
    else:
        a, b = build.Unsqueeze(a, axes=[rank_a]), build.Unsqueeze(b, axes=[rank_b - 2])
        common = max(rank_a, rank_b) - 1
    return str(build.ReduceSum(build.Mul(a, b), axes=[common], keepdims=0))


@says("Integers were not allowed: alpha * product + beta * addend, each by its own operator.")
def sum_and_product_of_integers(node: Node) -> Replacement:
    kind, build = node.elem_type(), node.build
    if kind not in INTEGERS:
        return None
    a, b = _factors(node)
    product = _scaled(node, _product(build, a, b, 2, 2), "alpha", kind)
    return str(build.Add(product, _scaled(node, node.input(2), "beta", kind)))


@says("alpha * A * B + beta * C, with A and B transposed where transA and transB say so")
def product_plus_addend(node: Node) -> str:
    node.close("the product, the factors and the sum round each by themselves")
    build, kind = node.build, node.elem_type()
    product = _scaled(node, build.MatMul(*_factors(node)), "alpha", kind)
    return str(build.Add(product, _scaled(node, node.input(2), "beta", kind))) if node.input(2) else product


def _factors(node: Node) -> list[str]:
    return [
        node.build.Transpose(node.input(index), perm=[1, 0]) if node.attributes.get(name, 0) else node.input(index)
        for index, name in enumerate(("transA", "transB"))
    ]


def _scaled(node: Node, value: str, name: str, kind: int) -> str:
    factor = node.attributes.get(name, 1.0)
    if factor == 1:
        return value
    if kind not in INTEGERS:
        return str(node.build.Mul(value, node.build.constant(factor, kind)))
    if not float(factor).is_integer() or (factor < 0 and kind in (T.UINT32, T.UINT64)) or abs(factor) > 2**24:
        raise CannotConvert(node, f"{name}={factor:g} of an integer product; small integers could be expressed")
    return str(node.build.Mul(value, node.build.constant(int(factor), kind)))


@says("The addend was not optional: none is a scalar -0.0, which leaves every sum as it is, a zero's sign included.")
def addend_written_out(node: Node) -> None:
    if node.input(2):
        return
    kind = node.elem_type()
    node.attributes.pop("beta", None)
    node.set_input(2, node.build.constant(0 if kind in INTEGERS else -0.0, kind, hint="none"))


@says("16-bit scales were not allowed and are widened; 8-bit floats are multiplied as what they stand for.")
def quantized_product(node: Node) -> Replacement:
    kinds = [node.scope.elem_type(node.input(index)) for index in (0, 3, 7)]
    if not set(kinds) & set(FLOAT8):
        return carried(HALF, why="the product is requantized with scales in float", variable="TS")(node)
    node.close("8-bit floats are dequantized, multiplied and quantized again")
    build = node.build
    a, b = (
        build.DequantizeLinear(node.input(at), _per_tensor(node, at + 1), _per_tensor(node, at + 2)) for at in (0, 3)
    )
    return str(build.QuantizeLinear(build.MatMul(a, b), _per_tensor(node, 6), _per_tensor(node, 7)))


def _per_tensor(node: Node, index: int) -> str:
    name = node.input(index)
    dims = node.scope.shape(name)
    if dims == []:
        return name
    if dims != [1]:
        raise CannotConvert(node, f'"{name}" scales 8-bit floats by row or column; a scalar could be expressed')
    return str(node.build.Reshape(name, []))


changed("MatMul", 9, Pair(down=product_of_integers))
changed("Gemm", 9, Pair(down=sum_and_product_of_integers))
changed("Gemm", 11, Pair(down=addend_written_out))
same("Gemm", 13, "the text was marked up; bfloat16 came")
defined("Gemm", product_plus_addend, opset=13)
changed("QLinearMatMul", 21, Pair(down=quantized_product))
