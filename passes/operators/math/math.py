"""Elementwise arithmetic and functions: types came; going back, most of them pass through a carrier type."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import carried
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, same
from opshift.passes.rewrite.says import says

T = TensorProto

SMALL_INTEGERS: tuple[int, ...] = (T.INT8, T.INT16, T.UINT8, T.UINT16)
HELD_BY_FLOATS: dict[int, int] = {**dict.fromkeys(SMALL_INTEGERS, T.FLOAT), T.INT32: T.DOUBLE, T.UINT32: T.DOUBLE}
BFLOAT16: dict[int, int] = {T.BFLOAT16: T.FLOAT}

WRAPPING = Pair(down=carried(dict.fromkeys(SMALL_INTEGERS, T.INT32)))  # modulo 2^n, as the Cast back is
SELECTED = Pair(down=carried(BFLOAT16))
ROUNDED = Pair(down=carried(BFLOAT16, why="bfloat16 is computed in float and rounded once"))
SUMMED = Pair(down=carried({**BFLOAT16, T.FLOAT16: T.FLOAT}, why="16-bit floats are summed in float"))


@says("Integers were not allowed: those that a float holds are compared as floats, 64 bits pair by pair.")
def extreme_of_integers(node: Node) -> Replacement:
    if node.elem_type() not in (T.INT64, T.UINT64):
        return carried(HELD_BY_FLOATS)(node)
    value, *others = node.inputs
    for other in others:
        value = picked(node.build, node.op_type, value, other)
    return value


def picked(build: Builder, op: str, a: str, b: str) -> str:
    """Max or Min of two tensors that can only be compared: b where a is beaten, else a."""
    beaten = build.Less(a, b) if op == "Max" else build.Greater(a, b)
    return str(build.Where(beaten, b, a))


@says("Integers were not allowed: Relu(x) is Max(x, 0).")
def nonnegative_part(node: Node) -> Replacement:
    kind = node.elem_type()
    if kind not in (T.INT8, T.INT16, T.INT32, T.INT64):
        return None
    return str(node.build.Max(node.input(0), node.build.constant(0, kind)))


@says("Integers were not allowed: x * (1 + negative * (slope - 1)), where negative is 1 for x < 0, else 0.")
def sloped_integers(node: Node) -> Replacement:
    kind, build, (x, slope) = node.elem_type(), node.build, node.inputs
    if kind in (T.UINT32, T.UINT64):
        return x
    if kind not in (T.INT32, T.INT64):
        return None
    one = build.constant(1, kind)
    below = build.Less(build.Cast(x, to=T.DOUBLE), build.constant(0.0, T.DOUBLE))  # a double keeps every sign
    steeper = build.Mul(build.Cast(below, to=kind), build.Sub(slope, one))
    return str(build.Mul(x, build.Add(steeper, one)))


@says("Only float was allowed: Celu(x) is alpha * Elu(x / alpha), computed in the type of x.")
def celu_of_other_floats(node: Node) -> Replacement:
    kind, given = node.elem_type(), node.attributes.get("alpha", 1.0)
    if kind == T.FLOAT:
        return None
    node.close("alpha * Elu(x / alpha) rounds at each step")
    build, x = node.build, node.input(0)
    alpha = build.constant(given, kind)
    if given >= 0:
        return str(build.Mul(alpha, build.Elu(build.Div(x, alpha), alpha=1.0)))
    zero, one = build.constant(0.0, kind), build.constant(1.0, kind)
    below = build.Mul(alpha, build.Sub(build.Exp(build.Div(x, alpha)), one))
    return str(build.Add(build.Max(x, zero), build.Min(below, zero)))


changed(["Add", "Sub", "Mul", "Div"], 14, WRAPPING)
changed("CumSum", 14, SUMMED)
changed(["Max", "Min"], 12, Pair(down=extreme_of_integers))
changed("Relu", 14, Pair(down=nonnegative_part))
changed("PRelu", 9, Pair(down=sloped_integers))
changed("Celu", 28, Pair(down=celu_of_other_floats))
changed("Round", 22, SELECTED)
changed(["LeakyRelu", "PRelu"], 16, ROUNDED)
changed(
    [
        *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Sin", "Sinh", "Tan"),
        *("Elu", "HardSigmoid", "HardSwish", "Mish", "Selu", "Softplus", "Softsign", "ThresholdedRelu"),
        *("Det", "NegativeLogLikelihoodLoss"),
    ],
    22,
    ROUNDED,
)
changed("Einsum", 28, ROUNDED)

same("Abs", 13, "bfloat16 came; the text was reworded")
same(["Ceil", "Floor"], 13, "bfloat16 came; that integral and special values stay themselves was so before")
same(
    "Erf",
    13,
    "bfloat16 came; integers went, which no runtime computed and whose rounding no text gave: refused",
)
same(["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"], 13, "the text was marked up; bfloat16 came")
