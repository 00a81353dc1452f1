"""FastGelu, with the bias that is added first."""

from __future__ import annotations

from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says


@says("Gelu-20 with the approximation by tanh, of X + bias.")
def approximated_by_tanh(node: Node) -> str:
    build, x, bias = node.build, node.input(0), node.input(1)
    return str(build.Gelu(build.Add(x, bias) if bias else x, approximate="tanh"))


defined("FastGelu", approximated_by_tanh, opset=20, domain=MICROSOFT)
