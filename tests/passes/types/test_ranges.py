"""Ranges of integers hold what values are when a model runs."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import pytest
from onnx import ModelProto, ValueInfoProto
from opshift.passes.types.fitting import Fitting
from opshift.passes.types.problem import Problem
from opshift.passes.types.ranges import MOST, SIZES, Interval
from opshift.passes.types.wanted import types

from tests.support import evaluate, model

CALLS = [
    *(
        "{o} = Add({a}, {b})",
        "{o} = Sub({a}, {b})",
        "{o} = Mul({a}, {b})",
        "{o} = Max({a}, {b})",
        "{o} = Min({a}, {b})",
    ),
    *("{o} = Neg({a})", "{o} = Abs({a})", "{o} = Sign({a})", "{o} = Div({a}, seven)", "{o} = Mod({a}, seven)"),
    *("{o} = Mod<fmod=1>({a}, seven)", "{o} = Concat<axis=0>({a}, {b})", "{o} = Slice({a}, zero, two)"),
    *("{o} = Mod({a}, minus)", "{o} = Div({a}, minus)", "{o}c = Less({a}, {b}) {o} = Where({o}c, {a}, {b})"),
    *("{o} = ReduceSum({a})", "{o} = CumSum({a}, axis)", "{o} = ReduceMax({a})", "{o} = Clip({a}, low, high)"),
    *("{o} = Pad({a}, pads, low)", "{o}f = Cast<to=1>({a}) {o}g = Floor({o}f) {o} = Cast<to=7>({o}g)"),
    *(
        "{o} = Tile({a}, two)",
        "{o} = ScatterElements<axis=0>({a}, zero, two)",
        "{o}s = Shape({a}) {o} = Mul({o}s, {b})",
    ),
    *("{o} = Pow({a}, squared)", "{o} = BitwiseAnd({a}, high)", "{o} = ReduceProd({o}s)".replace("{o}s", "two")),
]
CONSTANTS = (
    "int64[1] seven = {7}, int64[1] minus = {-3}, int64[1] zero = {0}, int64[1] two = {2}, int64 axis = {0},"
    " int64 low = {-5}, int64 high = {9}, int64[2] pads = {1, 1}, int64[1] squared = {2}"
)


def ranges(source: ModelProto, **given: tuple[float, float]) -> Mapping[str, Interval | None]:
    problem = Problem(source, types("int64=int32"))
    fitting = Fitting(problem, None, given)
    fitting.find()
    assert fitting.ranges is not None
    return {value.name: fitting.ranges.of(value) for value in problem.main.values.values()}


@pytest.mark.parametrize("seed", range(12))
def test_what_values_are_lies_within_their_ranges(seed: int):
    chance = random.Random(seed)
    names, lines = ["x", "k"], []
    for step in range(8):
        call, made = chance.choice(CALLS), f"v{step}"
        lines.append(call.format(o=made, a=chance.choice(names[-3:]), b=chance.choice(["k", "x", "one"])))
        names.append(made)
    constants = f"{CONSTANTS}, int64[1] k = {{{chance.randint(-9, 9)}}}, int64[1] one = {{1}}"
    source = model(
        " ".join(lines) + " y = Identity(x)", 18, inputs="int64[1] x", outputs="int64[1] y", constants=constants
    )
    known = ranges(source, x=(-4, 6))
    watched = [name for node in source.graph.node for name in node.output if known.get(name) is not None]
    source.graph.output.extend(ValueInfoProto(name=name) for name in watched)
    for number in (-4, -1, 0, 3, 6):
        found = evaluate(source, {"x": np.array([number])})[1:]
        for name, value in zip(watched, found, strict=True):
            interval = known[name]
            assert interval is not None
            if value.size:
                assert interval.low <= value.min() <= value.max() <= interval.high, (name, interval, value, lines)


def test_sizes_and_their_products_are_taken_to_be_sizes():
    body = "s = Shape(x) n = Gather(s, zero) m = Mul(n, n) i = NonZero(x) y = Identity(m)"
    source = model(body, 17, inputs="float[N] x", outputs="int64 y", constants="int64 zero = {0}")
    found = ranges(source)
    assert found["m"] == Interval(0, MOST, frozenset([SIZES]))
    assert found["i"] == Interval(0, MOST, frozenset([SIZES]))


def test_numbers_of_an_input_are_not_bounded_by_sizes():
    body = "s = Shape(x) y = Mul(s, k)"
    found = ranges(model(body, 17, inputs="float[N] x, int64 k", outputs="int64[1] y"))["y"]
    assert found is not None
    assert not found.fits


def test_nothing_bounds_what_a_loop_adds_to():
    body = (
        "y = Loop(n, , x) <body = b (int64 i, bool go, int64[2] v) => (bool on, int64[2] w)"
        " { on = Identity(go) w = Add(v, i) }>"
    )
    assert ranges(model(body, 17, inputs="int64 n, int64[2] x", outputs="int64[2] y"))["y"] is None
