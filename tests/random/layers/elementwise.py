"""Layers that compute each element by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.layers.draw import INTEGERS, Draw, Unfit, kind_of, recipe, shape_of

SMOOTH = (
    (1, "Abs"), (3, "Asinh"), (1, "Atan"), (1, "Cos"), (1, "Erf"), (1, "Exp"), (4, "Mish"), (1, "Negative"),
    (1, "Relu"), (1, "Sigmoid"), (1, "Sin"), (4, "SoftPlus"), (9, "SoftSign"), (1, "Tanh"), (4, "HSwish"), (5, "HSigmoid"),
    (16, "Identity"), (1, "Cosh"), (1, "Sinh"), (1, "Tan"),
)  # fmt: skip
BOUNDED = (
    (1, "Acos", 0),
    (1, "Asin", 0),
    (3, "Atanh", 0),
    (3, "Acosh", 1),
    (1, "Log", 0.1),
    (1, "Sqrt", 0.1),
    (17, "ErfInv", 0),
)
JUMPS = ((1, "Ceiling"), (1, "Floor"), (1, "Sign"), (10, "IsNaN"), (10, "IsFinite"))


@recipe
def smooth(d: Draw) -> Any:
    version, kind = d.one(SMOOTH)
    return d.make(version, kind, [d.any_value()])


@recipe
def bounded(d: Draw) -> Any:
    """Of numbers from -1 to 1, or from the least one on."""
    version, kind, least = d.one(BOUNDED)
    shape = [d.size() for _ in range(d.number(0, 4))]
    low, high = (least, least + 3) if least else (-1, 1)
    return d.make(version, kind, [d.parameter(d.rng.uniform(low, high, shape).astype(np.float32))])


@recipe
def jumps(d: Draw) -> Any:
    version, kind = d.one(JUMPS)
    return d.make(version, kind, [d.value()])


@recipe
def of_integers(d: Draw) -> Any:
    return d.make(1, d.one(("Abs", "Negative", "Sign", "Relu")), [d.value(None, INTEGERS)])


@recipe
def is_inf(d: Draw) -> Any:
    return d.make(10, "IsInf", [d.value()], detect_negative=d.chance(), detect_positive=d.chance())


@recipe
def rounded(d: Draw) -> Any:
    return d.make(5, "Round", [d.value()], mode=d.one(("half_to_even", "half_away_from_zero")))


@recipe
def clamp(d: Draw) -> Any:
    low = d.number(-3, 3) / 2
    return d.make(1, "Clamp", [d.value(None, ("float32", "int32", "int64"))], min=low, max=low + d.number(0, 4) / 2)


@recipe
def parametric(d: Draw) -> Any:
    kind = d.one(("Elu", "Selu", "HardSigmoid", "Swish", "Gelu", "Swish one"))
    x = d.any_value()
    numbers = [d.given(np.float32(abs(d.array(())) + 0.5)) for _ in range(2)]
    if kind == "Elu":
        return d.make(1, kind, [x], alpha=d.number(1, 5) / 2)
    if kind in ("Selu", "HardSigmoid"):
        return d.make(1, kind, [x, *numbers])
    if kind == "Gelu":
        return d.make(7, kind, [x], approximation_mode=d.one(("ERF", "TANH")))
    return d.make(4, "Swish", [x, numbers[0]] if kind == "Swish" else [x])


@recipe
def prelu(d: Draw) -> Any:
    x = d.value((1, 2, 3, 4, 5))
    dims = shape_of(x)
    slopes = d.one(([1], dims[1:2], [dims[-1]], [*dims[1:2], *[1] * (len(dims) - 2)], dims))
    return d.make(1, "PRelu", [x, d.like(slopes)])


def _partner(d: Draw, x: Any) -> Any:
    dims = shape_of(x)
    other = [1 if d.chance(0.3) else dim for dim in dims][d.number(0, len(dims)) :] if d.chance(0.7) else dims
    return d.like(other, kind_of(x))


BINARY = ("Add", "Subtract", "Multiply", "Maximum", "Minimum", "SquaredDifference")
COMPARE = ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")


@recipe
def binary(d: Draw) -> Any:
    x = d.value(None, ("float32", "int32", "int64"))
    sides = [x, _partner(d, x)]
    return d.make(1, d.one(BINARY), sides if d.chance() else sides[::-1], auto_broadcast="numpy")


@recipe
def two_values(d: Draw) -> Any:
    x, y = d.any_value(), d.any_value()
    return d.make(1, d.one(("Add", "Multiply", "Maximum")), [x, y], auto_broadcast="numpy")


@recipe
def compared(d: Draw) -> Any:
    x = d.value(None, ("float32", "int32", "int64"))
    return d.make(1, d.one(COMPARE), [x, _partner(d, x)], auto_broadcast="numpy")


@recipe
def divided(d: Draw) -> Any:
    x = d.value(None, ("float32", "int32"))
    other = [1 if d.chance(0.3) else dim for dim in shape_of(x)]
    by = d.array(other, kind_of(x))
    by[by == 0] = 2
    return d.make(1, d.one(("Divide", "Mod", "FloorMod")), [x, d.given(by)], auto_broadcast="numpy")


@recipe
def power(d: Draw) -> Any:
    return d.make(1, "Power", [d.any_value(), d.given(np.float32(d.one((0, 1, 2, 3))))], auto_broadcast="numpy")


@recipe
def logical(d: Draw) -> Any:
    x = d.value(None, ("bool",))
    kind = d.one(("LogicalAnd", "LogicalOr", "LogicalXor", "LogicalNot"))
    return d.make(1, kind, [x] if kind == "LogicalNot" else [x, _partner(d, x)])


@recipe
def bitwise(d: Draw) -> Any:
    x = d.value(None, ("int32", "uint8", "bool"))
    kind = d.one(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"))
    return d.make(13, kind, [x] if kind == "BitwiseNot" else [x, _partner(d, x)])


@recipe
def shifted(d: Draw) -> Any:
    x = d.value(None, ("uint8",))
    by = d.given(d.rng.integers(0, 8, [1 if d.chance(0.3) else dim for dim in shape_of(x)]), "uint8", 0.4)
    return d.make(15, d.one(("BitwiseLeftShift", "BitwiseRightShift")), [x, by])


@recipe
def select(d: Draw) -> Any:
    x = d.value()
    held = d.value(None, ("bool",))
    return d.make(1, "Select", [held, x, _partner(d, x)], auto_broadcast="numpy")


@recipe
def converted(d: Draw) -> Any:
    to = d.one(("f32", "i32", "i64", "boolean", "f16", "f64", "u8"))
    x = d.value(None, ("float32", "int32", "int64", "bool"))
    if to == "u8" and kind_of(x) != "bool":
        raise Unfit
    return d.make(1, "Convert", [x], destination_type=to)


@recipe
def converted_like(d: Draw) -> Any:
    return d.make(1, "ConvertLike", [d.value(None, ("int32", "bool")), d.value(None, ("float32", "int64"))])


@recipe
def fake_convert(d: Draw) -> Any:
    """Numbers that are not far beyond the largest one of float8."""
    kind = d.one(("f8e4m3", "f8e5m2"))
    x = d.parameter(d.rng.standard_normal([d.number(1, 3), d.number(1, 4), 5]).astype(np.float32) * d.one((1, 30, 200)))
    shape = d.one(((1,), (1, shape_of(x)[1], 1)))
    scale, shift = d.rng.uniform(0.5, 2, shape), d.rng.standard_normal(shape)
    held = [d.constant(value.astype(np.float32)) for value in (scale, shift)[: d.number(1, 2)]]
    return d.make(13, "FakeConvert", [x, *held], destination_type=kind)


@recipe
def fake_quantize(d: Draw) -> Any:
    x = d.value((2, 3, 4))
    shape = d.one(((), [1, shape_of(x)[1], *[1] * (len(shape_of(x)) - 2)]))
    low = -np.abs(d.array(shape)) - np.float32(0.3)
    ends = [low, -low + np.float32(0.7), low * 2, low * 2 + 5]
    return d.make(
        1, "FakeQuantize", [x, *map(d.constant, ends)], levels=d.one((2, 16, 255, 256)), auto_broadcast="numpy"
    )
