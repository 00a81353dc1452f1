"""Windows and Mel filters, which opset 17 brought."""

from __future__ import annotations

from math import pi

from opshift.passes.model.messages import TensorProto
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says

T = TensorProto

COSINES = {
    "BlackmanWindow": (0.42, 0.5, 0.08),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "HannWindow": (0.5, 0.5, 0.0),
}


@says("Replaced the window operator by a0 - a1 * cos(2 * pi * n / N) + a2 * cos(4 * pi * n / N)")
def window_of_cosines(node: Node) -> str:
    node.close("computed from cosines")
    build, kind = node.build, node.attributes.get("output_datatype", T.FLOAT)
    wide = T.FLOAT if kind in (T.FLOAT, T.FLOAT16, T.BFLOAT16) else T.DOUBLE  # just below an integer would be cut off

    def number(value: float) -> str:
        return str(build.constant(value, wide))

    a0, a1, a2 = COSINES[node.op_type]
    size = _scalar(node, 0, wide)
    length = size if node.attributes.get("periodic", 1) else build.Sub(size, number(1.0))
    angle = build.Mul(build.Range(number(0.0), size, number(1.0)), build.Div(number(2 * pi), length))
    waves = build.Mul(number(a1), build.Cos(angle))
    if a2:  # subtracted first, so that the middle of the window is 1 to the last bit
        twice = build.Cos(build.Mul(angle, number(2.0)))
        waves = build.Sub(waves, build.Mul(number(a2), twice))
    window = build.Sub(number(a0), waves)
    return window if kind == wide else str(build.Cast(window, to=kind))


@says("Replaced MelWeightMatrix by computing the triangle of each mel frequency band")
def triangular_filters(node: Node) -> str:
    node.close("frequencies are computed in double")
    build = node.build

    def number(value: float) -> str:
        return str(build.constant(value, T.DOUBLE))

    filters, length, rate = (_scalar(node, index, T.INT64) for index in range(3))
    low, high = (
        build.Log(build.Add(build.Div(_scalar(node, index, T.DOUBLE), number(700.0)), number(1.0))) for index in (3, 4)
    )
    count = build.Add(filters, 2)
    step = build.Div(build.Sub(high, low), build.Cast(count, to=T.DOUBLE))
    scale = build.Add(build.Mul(build.Cast(build.Range(0, count, 1), to=T.DOUBLE), step), low)
    hertz = build.Mul(build.Sub(build.Exp(scale), number(1.0)), number(700.0))
    scaled = build.Mul(hertz, build.Cast(build.Add(length, 1), to=T.DOUBLE))
    bins = build.Floor(build.Div(scaled, build.Cast(rate, to=T.DOUBLE)))
    lower, center, upper = (build.Slice(bins, [k], [end]) for k, end in ((0, -2), (1, -1), (2, 2**63 - 1)))
    rows = build.Range(0, build.Add(build.Div(length, 2), 1), 1)
    row = build.Unsqueeze(build.Cast(rows, to=T.DOUBLE), [1])
    rise = build.Div(build.Sub(row, lower), build.Sub(center, lower))
    rise = build.Where(build.Equal(lower, center), number(1.0), rise)
    fall = build.Div(build.Sub(upper, row), build.Sub(upper, center))
    rising = build.And(build.GreaterOrEqual(row, lower), build.LessOrEqual(row, center))
    falling = build.And(build.GreaterOrEqual(row, center), build.Less(row, upper))
    weights = build.Where(falling, fall, build.Where(rising, rise, number(0.0)))
    return str(build.Cast(weights, to=node.attributes.get("output_datatype", T.FLOAT)))


def _scalar(node: Node, index: int, elem_type: int) -> str:
    value = str(node.build.Cast(node.input(index), to=elem_type))
    if node.scope.shape(node.input(index)) == []:
        return value
    return str(node.build.Reshape(value, node.build.constant([], T.INT64)))


changed(list(COSINES), 17, Pair(down=window_of_cosines))
changed("MelWeightMatrix", 17, Pair(down=triangular_filters))
