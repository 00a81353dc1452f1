"""Sums with a bias or a residual, in front of Softmax and around Dropout."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined, refused
from opshift.passes.rewrite.says import says


@says("Replaced BiasAdd by X + bias + skip")
def sum_of_three(node: Node) -> str:
    return str(node.build.Add(node.build.Add(node.input(0), node.input(1)), node.input(2)))


@says("Replaced BiasSoftmax by Add and Softmax")
def softmax_of_sum(node: Node) -> str:
    build, axis = node.build, node.attributes.get("axis", 1)
    if node.rank(0) != node.rank(1):
        raise CannotConvert(
            node, f"the data has rank {node.rank(0)}, and the bias has rank {node.rank(1)}", supported="equal ranks"
        )
    return str(build.Softmax(build.Add(node.input(0), node.input(1)), axis=axis))


@says("Replaced BiasDropout by Add of the bias, Dropout and Add of the residual")
def dropout_of_sum(node: Node) -> list[str]:
    build, residual = node.build, node.input(2)
    mask = node.is_used(1)
    total = build.Add(node.input(0), node.input(1))
    operands = [total, node.input(3) or None, node.input(4) or None]
    made = build.emit("Dropout", operands, {"seed": node.attributes.get("seed")}, outputs=2 if mask else 1)
    dropped, *rest = made if mask else [made]
    return [build.Add(dropped, residual) if residual else dropped, *rest, ""][: len(node.outputs)]


@says("Replaced BitmaskDropout by Dropout; the packed mask was unused")
def dropout_without_bits(node: Node) -> list[str]:
    _without_mask(node)
    build = node.build
    operands = [node.input(0), node.input(1) or None, node.input(2) or None]
    return [build.emit("Dropout", operands, {"seed": node.attributes.get("seed")}), ""][: len(node.outputs)]


@says("Replaced BitmaskBiasDropout by Add of the bias, Dropout and Add of the residual; the packed mask was unused")
def dropout_of_sum_without_bits(node: Node) -> list[str]:
    _without_mask(node)
    return dropout_of_sum(node)


def _without_mask(node: Node) -> None:
    if node.is_used(1):
        why = "output mask is used, whose last bits are not documented"
        raise CannotConvert(node, f"{why}", supported="a call without that output")


defined("BiasAdd", sum_of_three, opset=14, domain=MICROSOFT)
defined("BiasSoftmax", softmax_of_sum, opset=11, domain=MICROSOFT)
defined("BiasDropout", dropout_of_sum, opset=13, domain=MICROSOFT)
defined("BitmaskDropout", dropout_without_bits, opset=13, domain=MICROSOFT)
defined("BitmaskBiasDropout", dropout_of_sum_without_bits, opset=13, domain=MICROSOFT)
refused(
    ["ComplexMul", "ComplexMulConj"],
    "its documentation does not say where real and imaginary parts are",
    domain=MICROSOFT,
)
