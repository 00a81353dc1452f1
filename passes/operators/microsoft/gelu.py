"""Gelu and what is added before it, and the activations that are a product with a sigmoid."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced FastGelu by Add of the bias and Gelu with the tanh approximation")
def approximate_by_tanh(node: Node) -> str:
    build, x, bias = node.build, node.input(0), node.input(1)
    x = build.Add(x, bias) if bias else x
    return _by_the_text(build, x) if node.elem_type() == T.DOUBLE else str(build.Gelu(x, approximate="tanh"))


def _by_the_text(build: Builder, x: str) -> str:
    """0.5 X (1 + tanh(0.797885 X + 0.035677 X * X * X)), which runs where there is no kernel, with six digits."""
    half, one, a, c = (build.constant(value, T.DOUBLE) for value in (0.5, 1.0, 0.797885, 0.035677))
    bent = build.Mul(x, build.Add(a, build.Mul(c, build.Mul(x, x))))
    return str(build.Mul(half, build.Mul(x, build.Add(one, build.Tanh(bent)))))


@says("Replaced GemmFastGelu by MatMul, Add and Gelu with the tanh approximation")
def product_approximated_by_tanh(node: Node) -> str:
    node.close("kernels of other devices round less often")
    build, bias = node.build, node.input(2)
    product = build.MatMul(node.input(0), node.input(1))
    return str(build.Gelu(build.Add(product, bias) if bias else product, approximate="tanh"))


@says("Replaced BiasGelu by Add and Gelu")
def gelu_of_sum(node: Node) -> str:
    return str(node.build.Gelu(node.build.Add(node.input(0), node.input(1))))


@says("Replaced BiasSplitGelu by Add of the bias, Split, and left * Gelu(right)")
def half_times_gelu(node: Node) -> str:
    node.close("kernels of other devices round less often")
    build = node.build
    left, right = build.emit(
        "Split", [build.Add(node.input(0), node.input(1))], {"axis": -1, "num_outputs": 2}, outputs=2
    )
    return str(build.Mul(left, build.Gelu(right)))


@says("Replaced QuickGelu by x * Sigmoid(alpha * x)")
def sigmoid_linear(node: Node) -> str:
    node.close("the kernel computes Sigmoid otherwise")
    build, x, alpha = node.build, node.input(0), node.attributes.get("alpha", 1.702)
    scaled = x if alpha == 1 else build.Mul(build.constant(alpha, node.elem_type()), x)
    return str(build.Mul(x, build.Sigmoid(scaled)))


@says("Replaced ScaledSiLU by Z * Sigmoid(Z), Z = X * scale")
def rounded_silu(node: Node) -> str:
    build, elem_type, scale = node.build, node.elem_type(), node.input(1)
    x = recast(build, node.input(0), elem_type, TensorProto.FLOAT)
    if scale:
        factor = build.Reshape(
            recast(build, scale, node.elem_type(1), TensorProto.FLOAT), build.constant([], TensorProto.INT64)
        )
    else:
        factor = build.constant(node.attributes.get("alpha", 1.0), TensorProto.FLOAT)
    scaled = recast(build, build.Mul(x, factor), TensorProto.FLOAT, elem_type)
    gate = build.Sigmoid(recast(build, scaled, elem_type, TensorProto.FLOAT))
    return str(build.Mul(scaled, recast(build, gate, TensorProto.FLOAT, elem_type)))


@says("Replaced GatedAdd by X + Y * gate")
def gated_sum(node: Node) -> str:
    x, y, gate = node.inputs[:3]
    gate = _project(node) if node.input(3) else gate
    return str(node.build.Add(x, node.build.Mul(y, gate)))


def _project(node: Node) -> str:
    build, elem_type = node.build, node.elem_type()
    if elem_type != TensorProto.BFLOAT16:
        raise CannotConvert(
            node, "the input gate_weight has an element type that no onnxruntime kernel supports", supported="bfloat16"
        )
    node.close("sums in another order")
    gate, weight = (recast(build, node.input(index), elem_type, TensorProto.FLOAT) for index in (2, 3))
    product = recast(build, build.Cast(build.MatMul(gate, weight), to=elem_type), elem_type, TensorProto.FLOAT)
    return str(build.Cast(build.Sigmoid(product), to=elem_type))


defined("FastGelu", approximate_by_tanh, opset=20, domain=MICROSOFT)
defined("GemmFastGelu", product_approximated_by_tanh, opset=20, domain=MICROSOFT)
defined("BiasGelu", gelu_of_sum, opset=20, domain=MICROSOFT)
defined("BiasSplitGelu", half_times_gelu, opset=20, domain=MICROSOFT)
defined("QuickGelu", sigmoid_linear, opset=13, domain=MICROSOFT)
defined("ScaledSiLU", rounded_silu, opset=13, domain=MICROSOFT)
defined("GatedAdd", gated_sum, opset=14, domain=MICROSOFT)
