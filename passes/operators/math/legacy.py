"""Opset 6: the hint `consumed_inputs` went, defaults were settled, integers came to arithmetic."""

from __future__ import annotations

from collections.abc import Mapping

from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.math.clip import FLOAT_MAX, LARGEST
from opshift.passes.operators.shared.recipes import carried
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, Step, cannot, changed, same
from opshift.passes.rewrite.says import says

T = TensorProto

IN_DOUBLE: dict[int, int] = dict.fromkeys((T.INT8, T.INT16, T.INT32, T.UINT8, T.UINT16, T.UINT32), T.DOUBLE)
UNSIGNED = (T.UINT8, T.UINT16, T.UINT32, T.UINT64)


@says("consumed_inputs allowed a runtime to overwrite inputs, and goes; no value depends on it.")
def without_hint(node: Node) -> None:
    if "consumed_inputs" in node.attributes:
        del node.attributes["consumed_inputs"]


def with_defaults(defaults: Mapping[str, float]) -> Step:
    """The defaults of one side, written out for the other."""

    @says("The defaults differ between the versions: those in force are written out.")
    def defaults_written_out(node: Node) -> None:
        without_hint(node)
        for name, value in defaults.items():
            if name not in node.attributes:
                node.attributes[name] = value

    return defaults_written_out


@says("A bound left out was the limit of the type and becomes that of float, which other types have written out.")
def limits_of_type(node: Node) -> None:
    without_hint(node)
    if {"min", "max"} <= set(node.attributes) or node.elem_type() == T.FLOAT:
        return
    limit = LARGEST[node.elem_type()]
    if node.elem_type() == T.DOUBLE:
        limit = float("inf")  # the attribute is a float
        node.close("infinite values stay infinite")
    with_defaults({"min": -limit, "max": limit})(node)


@says("A bound left out was the limit of float and becomes that of the type, so that it is written out.")
def limits_of_float(node: Node) -> None:
    if {"min", "max"} <= set(node.attributes) or node.elem_type() == T.FLOAT:
        return
    with_defaults({"min": -FLOAT_MAX, "max": FLOAT_MAX})(node)


@says("Integers were not allowed: up to 32 bits they are computed in double.")
def in_double(node: Node) -> Replacement:
    kind = node.elem_type()
    if node.op_type == "Abs" and kind in UNSIGNED:
        return node.input(0)
    if node.op_type in ("Add", "Mul", "Sub") and kind in (T.INT32, T.UINT32):
        return _modulo(node, kind)
    return carried(IN_DOUBLE, why="integers are computed in double, where an overflow does not wrap around")(node)


def _modulo(node: Node, kind: int) -> str:
    """Modulo 2^32, in the range of the type."""
    build, (a, b) = node.build, (node.build.Cast(name, to=T.DOUBLE) for name in node.inputs)
    if node.op_type != "Mul" or any(_is_small(node, index) for index in (0, 1)):
        result = build.again(node.proto, [a, b])
    else:
        high, low = _parted(build, b, 16)
        _, carry = _parted(build, build.again(node.proto, [a, high]), 16)
        result = build.Add(_times(build, carry, 2.0**16), build.again(node.proto, [a, low]))
    return str(build.Cast(_parted(build, result, 32, around_zero=kind == T.INT32)[1], to=kind))


def _is_small(node: Node, index: int) -> bool:
    """Whether a factor is known to have products of less than 53 bits with 32 bits."""
    held = node.scope.array(node.input(index))
    return held is not None and bool((abs(held.astype("float64")) <= 2**21).all())


def _parted(build: Builder, x: str, bits: int, *, around_zero: bool = False) -> tuple[str, str]:
    """x // 2^bits and what is left of integers in double, from 0 up or as much below as above."""
    high = _times(build, x, 2.0**-bits)
    if around_zero:
        high = str(build.Add(high, build.constant(0.5, T.DOUBLE), broadcast=1))
    high = str(build.Floor(high))
    return high, str(build.Sub(x, _times(build, high, 2.0**bits)))


def _times(build: Builder, x: str, factor: float) -> str:
    return str(build.Mul(x, build.constant(factor, T.DOUBLE), broadcast=1))


ARITHMETIC = ["Abs", "Add", "Div", "Mul", "Neg", "Sub"]
FLOATS_ONLY = [
    *("Ceil", "Elu", "Exp", "Floor", "HardSigmoid", "LeakyRelu", "Log", "Max", "Mean", "Min", "PRelu"),
    *("Reciprocal", "Relu", "Sigmoid", "Sqrt", "Sum", "Tanh"),
]

changed(ARITHMETIC, 6, Pair(up=without_hint, down=in_double))
changed(FLOATS_ONLY, 6, Pair(up=without_hint))
changed("Clip", 6, Pair(up=limits_of_type, down=limits_of_float))
changed(
    "Selu",
    6,
    Pair(
        up=with_defaults({"alpha": 1.6732, "gamma": 1.0507}),
        down=with_defaults({"alpha": 1.6732631921768188, "gamma": 1.0507010221481323}),
    ),
)
same("Gemm", 6, "the hint that the addend may be overwritten went from the text")

cannot(["Sin", "Cos", "Tan", "Asin", "Acos", "Atan"], 7, "opset 6 has no trigonometric function to make it of")
