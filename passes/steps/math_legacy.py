"""Opset 6: the hint `consumed_inputs` went, defaults were settled, integers came to arithmetic."""

from __future__ import annotations

from collections.abc import Mapping

from opshift.passes.protos import TensorProto
from opshift.passes.registry import Pair, Replacement, Step, cannot, changed, same
from opshift.passes.steps._recipes import carried
from opshift.passes.steps.math_clip import FLOAT_MAX, LARGEST
from opshift.passes.view import Node

T = TensorProto

IN_DOUBLE: dict[int, int] = dict.fromkeys((T.INT8, T.INT16, T.INT32, T.UINT8, T.UINT16, T.UINT32), T.DOUBLE)
UNSIGNED = (T.UINT8, T.UINT16, T.UINT32, T.UINT64)


def without_hint(node: Node) -> None:
    """consumed_inputs allowed a runtime to overwrite inputs, and goes; no value depends on it."""
    if "consumed_inputs" in node.attributes:
        del node.attributes["consumed_inputs"]


def with_defaults(defaults: Mapping[str, float]) -> Step:
    """The defaults of one side, written out for the other."""

    def defaults_written_out(node: Node) -> None:
        """The defaults differ between the versions: those in force are written out."""
        without_hint(node)
        for name, value in defaults.items():
            if name not in node.attributes:
                node.attributes[name] = value

    return defaults_written_out


def limits_of_type(node: Node) -> None:
    """A bound left out was the limit of the type and becomes that of float, which other types have written out."""
    without_hint(node)
    if {"min", "max"} <= set(node.attributes) or node.elem_type() == T.FLOAT:
        return
    limit = LARGEST[node.elem_type()]
    if node.elem_type() == T.DOUBLE:
        limit = float("inf")  # the attribute is a float
        node.close("infinite values stay infinite")
    with_defaults({"min": -limit, "max": limit})(node)


def limits_of_float(node: Node) -> None:
    """A bound left out was the limit of float and becomes that of the type, so that it is written out."""
    if {"min", "max"} <= set(node.attributes) or node.elem_type() == T.FLOAT:
        return
    with_defaults({"min": -FLOAT_MAX, "max": FLOAT_MAX})(node)


def in_double(node: Node) -> Replacement:
    """Integers were not allowed: up to 32 bits they are computed in double."""
    if node.op_type == "Abs" and node.elem_type() in UNSIGNED:
        return node.input(0)
    return carried(IN_DOUBLE, why="integers are computed in double, where an overflow does not wrap around")(node)


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
