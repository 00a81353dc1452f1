"""Gemm: its addend is broadcast (7), integers came (9), the addend became optional (11)."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.types import Dim
from opshift.passes.operators.shared.products import INTEGERS, summed_products
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined, same
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Dropped the attribute broadcast of Gemm, as Gemm now broadcasts always")
def addend_as_it_stands(node: Node) -> None:
    node.attributes.pop("broadcast", 0)


@says("Set the attribute broadcast of Gemm; repeated a C that is a column")
def addend_on_request(node: Node) -> None:
    node.rank(2)
    dims = node.scope.shape(node.input(2)) or []
    if len(dims) < 2 or dims == [1, 1]:
        node.attributes["broadcast"] = 1
        return
    rows, columns = _dim(node, 0, "transA", 0), _dim(node, 1, "transB", 1)
    tall, wide = _spans(dims[0], rows), _spans(dims[1], columns)
    if tall and wide:
        return
    if dims[0] == 1:
        node.set_input(2, node.build.Squeeze(node.input(2), axes=[0]))
        node.attributes["broadcast"] = 1
    elif tall and dims[1] == 1 and isinstance(columns, int):
        node.set_input(2, node.build.Tile(node.input(2), [1, columns]))
    else:
        shape = ", ".join(str(dim or "?") for dim in dims)
        raise CannotConvert(node, f"C has shape [{shape}]", supported="a row, or static shapes")


def _dim(node: Node, index: int, transposed: str, axis: int) -> Dim:
    dims = node.scope.shape(node.input(index))
    return dims[1 - axis if node.attributes.get(transposed, 0) else axis] if dims else None


def _spans(dim: Dim, whole: Dim) -> bool:
    """Whether a dimension that is broadcast to `whole` is that already."""
    return (isinstance(dim, int) and dim != 1) or (dim == whole and dim is not None)


@says("Replaced Gemm of integers by MatMul, Mul and Add")
def sum_and_product_of_integers(node: Node) -> Replacement:
    elem_type, build = node.elem_type(), node.build
    if elem_type not in INTEGERS:
        return None
    a, b = _factors(node)
    product = _scale_by(node, summed_products(build, a, b, 2, 2), "alpha", elem_type)
    return str(build.Add(product, _scale_by(node, node.input(2), "beta", elem_type)))


@says("Replaced Gemm by alpha * A * B + beta * C")
def product_plus_addend(node: Node) -> str:
    node.close("rounds after each operator")
    build, elem_type = node.build, node.elem_type()
    product = _scale_by(node, build.MatMul(*_factors(node)), "alpha", elem_type)
    return str(build.Add(product, _scale_by(node, node.input(2), "beta", elem_type))) if node.input(2) else product


def _factors(node: Node) -> list[str]:
    return [
        node.build.Transpose(node.input(index), perm=[1, 0]) if node.attributes.get(name, 0) else node.input(index)
        for index, name in enumerate(("transA", "transB"))
    ]


def _scale_by(node: Node, value: str, name: str, elem_type: int) -> str:
    factor = node.attributes.get(name, 1.0)
    if factor == 1:
        return value
    if elem_type not in INTEGERS:
        return str(node.build.Mul(value, node.build.constant(factor, elem_type)))
    if not float(factor).is_integer() or (factor < 0 and elem_type in (T.UINT32, T.UINT64)) or abs(factor) > 2**24:
        raise CannotConvert(node, f"{name}={factor:g} for integer inputs", supported="small whole numbers")
    return str(node.build.Mul(value, node.build.constant(int(factor), elem_type)))


@says("Set the missing input C of Gemm to -0.0, as older opsets require it")
def addend_written_out(node: Node) -> None:
    if node.input(2):
        return
    elem_type = node.elem_type()
    node.attributes.pop("beta", None)
    node.set_input(2, node.build.constant(0 if elem_type in INTEGERS else -0.0, elem_type, hint="none"))


same("Gemm", 6, "only the text changed")
changed("Gemm", 7, Pair(up=addend_as_it_stands, down=addend_on_request))
changed("Gemm", 9, Pair(down=sum_and_product_of_integers))
changed("Gemm", 11, Pair(down=addend_written_out))
same("Gemm", 13, "only the text and bfloat16 changed")
defined("Gemm", product_plus_addend, opset=13)
