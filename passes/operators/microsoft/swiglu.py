"""SwiGLU, cut off at a limit, and the product that it is fused with."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
END = 2**63 - 1


@says("Replaced SwiGLU by gate * Sigmoid(alpha * gate) * (up + beta) in float32, clipped at the limit")
def clamped_swiglu(node: Node) -> str:
    node.close("kernels of other devices round otherwise")
    gate, up = node.input(0), node.input(1)
    return _activate(node, *((gate, up) if up else _halves(node, gate)))


@says("Replaced RouterGateUpProj by MatMul for router and experts, and SwiGLU")
def router_and_swiglu(node: Node) -> list[str]:
    if (name := node.attributes.get("activation", "swiglu")) != "swiglu":
        raise CannotConvert(
            node, f"the documentation of the operator does not define activation={name!r}", supported="swiglu"
        )
    node.close("sums in another order")
    build, columns = node.build, node.attributes["router_size"]
    product = build.MatMul(node.input(0), node.input(1))
    router, rest = (build.Slice(product, [a], [b], [-1]) for a, b in ((0, columns), (columns, END)))
    return [router, _activate(node, *_halves(node, rest))]


def _halves(node: Node, x: str) -> list[str]:
    return list(node.build.emit("Split", [x], {"axis": -1, "num_outputs": 2}, outputs=2))


def _activate(node: Node, gate: str, up: str) -> str:
    build, elem_type, given = node.build, node.elem_type(), node.attributes
    gate, up = (recast(build, x, elem_type, T.FLOAT) for x in (gate, up))
    alpha, beta, limit = (
        given.get(name, at) for name, at in (("activation_alpha", 1.0), ("activation_beta", 0.0), ("limit", 0.0))
    )
    if limit > 0:
        least, most = (build.constant(value, T.FLOAT) for value in (-limit, limit))
        gate, up = build.Clip(gate, None, most), build.Clip(up, least, most)
    inside = gate if alpha == 1.0 else build.Mul(gate, build.constant(alpha, T.FLOAT))
    activated = build.Mul(gate, build.Sigmoid(inside))
    if given.get("round_activation", 0):
        activated = recast(build, recast(build, activated, T.FLOAT, elem_type), elem_type, T.FLOAT)
    moved = build.Add(up, build.constant(beta, T.FLOAT)) if beta else up
    return recast(build, build.Mul(activated, moved), T.FLOAT, elem_type)


defined("SwiGLU", clamped_swiglu, opset=18, domain=MICROSOFT)
defined("RouterGateUpProj", router_and_swiglu, opset=18, domain=MICROSOFT)
