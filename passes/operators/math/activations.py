"""Activations of one operand: the hint went (6), integers came to Relu (14), bfloat16 to most (16, 22)."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.carriers import ROUNDED
from opshift.passes.operators.shared.recipes import recast, wider, with_defaults, without_hint
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed
from opshift.passes.rewrite.says import says

T = TensorProto


@says("Replaced ThresholdedRelu by Where(x > alpha, x, 0)")
def larger_than_threshold(node: Node) -> str:
    build, elem_type, x = node.build, node.elem_type(), node.input(0)
    wide = wider(elem_type)  # float16 may lie between alpha and what it makes of alpha
    alpha = build.constant(node.attributes.get("alpha", 1.0), wide)
    return str(build.Where(build.Greater(recast(build, x, elem_type, wide), alpha), x, build.constant(0.0, elem_type)))


@says("Replaced Relu of integers by Max(x, 0)")
def nonnegative_part(node: Node) -> Replacement:
    elem_type = node.elem_type()
    if elem_type not in (T.INT8, T.INT16, T.INT32, T.INT64):
        return None
    return str(node.build.Max(node.input(0), node.build.constant(0, elem_type)))


@says("Replaced Celu by max(x, 0) + alpha * Elu(min(x, 0) / alpha)")
def celu_of_other_floats(node: Node) -> Replacement:
    elem_type, given = node.elem_type(), node.attributes.get("alpha", 1.0)
    if elem_type == T.FLOAT:
        return None
    node.close("alpha * Elu(x / alpha) rounds at each step")
    build, wide = node.build, wider(elem_type)
    x = recast(build, node.input(0), elem_type, wide)
    alpha, zero, one = (build.constant(number, wide) for number in (given, 0.0, 1.0))
    if given >= 0:
        below = build.Mul(alpha, build.Elu(build.Div(build.Min(x, zero), alpha), alpha=1.0))
    else:
        below = build.Min(build.Mul(alpha, build.Sub(build.Exp(build.Div(x, alpha)), one)), zero)
    return recast(build, build.Add(build.Max(x, zero), below), wide, elem_type)


changed(["Elu", "HardSigmoid", "LeakyRelu", "Relu", "Sigmoid", "Tanh"], 6, Pair(up=without_hint))
changed(
    "Selu",
    6,
    Pair(
        up=with_defaults({"alpha": 1.6732, "gamma": 1.0507}),
        down=with_defaults({"alpha": 1.6732631921768188, "gamma": 1.0507010221481323}),
    ),
)
changed("ThresholdedRelu", 10, Pair(down=larger_than_threshold))
changed("Relu", 14, Pair(down=nonnegative_part))
changed("LeakyRelu", 16, ROUNDED)
changed(["Elu", "HardSigmoid", "HardSwish", "Mish", "Selu", "Softplus", "Softsign", "ThresholdedRelu"], 22, ROUNDED)
changed("Celu", 28, Pair(down=celu_of_other_floats))
