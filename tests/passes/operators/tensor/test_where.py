"""Where before it existed, by arithmetic and by place."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check_down, check_values, model, show


@pytest.mark.parametrize("target", [8, 7])
@pytest.mark.parametrize(
    ("body", "opset", "inputs", "outputs"),
    [
        ("y = Trilu<upper=0>(x)", 15, "float[1,2,3,4] x", "float[1,2,3,4] y"),
        ("y = Where(c, x, z)", 9, "bool[3] c, float[1,3] x, float[3] z", "float[1,3] y"),
        ("y = Where(c, x, z)", 9, "bool c, float[1,1,3] x, float z", "float[1,1,3] y"),
        ("y = Where(c, x, z)", 9, "bool[N] c, float[1,N] x, float[1] z", "float[1,N] y"),
        ("y = Where(c, x, z)", 9, "bool[1] c, float[1,1] x, float z", "float[1,1] y"),
    ],
)
def test_axes_of_size_one_in_front_survive(body, opset, inputs, outputs, target):
    source = model(body, opset, inputs=inputs, outputs=outputs)
    result = convert.attempt(source, {"": target})
    assert result.model is not None, result.refusals
    check_values(source, result.model, rtol=0, atol=0)


@pytest.mark.parametrize("condition", ["bool[2,1] c", "bool[2] c", "bool c"])
@pytest.mark.parametrize("held", ["", "float x = {0.5}"])
def test_where_keeps_leading_dimensions_of_one_below_9(condition, held):
    inputs = f"{condition}, {'' if held else 'float x, '}float[1,1,2,2] y"
    source = model("z = Where(c, x, y)", 9, inputs=inputs, outputs="float[1,1,2,2] z", constants=held)
    converted = convert.attempt(source, {"": 8}).model
    assert converted is not None
    check_values(source, converted, rtol=0.0, atol=0.0)


def test_where_keeps_leading_dimensions_of_one_below_9_under_a_constant_condition():
    io = {"inputs": "float x, float[1,2,2] y", "outputs": "float[1,2,2] z", "constants": "bool[2] c = {1, 0}"}
    source = model("z = Where(c, x, y)", 9, **io)
    converted = convert.attempt(source, {"": 8}).model
    assert converted is not None
    check_values(source, converted, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (0, 0), (1, 0)])
def test_nothing_is_chosen_from(shape, known):
    dims = ",".join(map(str, shape) if known else "AB")
    source = model(
        "y = Where(c, x, z)", 9, inputs=f"bool[{dims}] c, float[{dims}] x, float[1] z", outputs="float[P,Q] y"
    )
    made = convert.attempt(source, {"": 8}).model
    check_values(source, made, {"c": np.ones(shape, bool), "x": np.zeros(shape, np.float32)}, rtol=0, atol=0)


@pytest.mark.parametrize("sizes", [(0, 2), (2, -1), (2, 2)])
def test_nothing_of_an_unknown_rank_is_chosen_from(sizes):
    source = model(
        "d = Reshape(c, s) r = Reshape(x, s) y = Where(d, r, z)", 9,
        inputs="bool[N] c, float[N] x, int64[K] s, float z", outputs="float[P,Q] y",
    )  # fmt: skip
    made = convert.attempt(source, {"": 8}).model
    x = np.arange(4 if sizes == (2, 2) else 0, dtype=np.float32)
    feeds = {"c": x > 1, "x": x, "s": np.array(sizes), "z": np.array(7, np.float32)}
    check_values(source, made, feeds, rtol=0, atol=0)


NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("elem_type", "kinds"),
    [
        ("float", {"Concat", "Gather"}),
        ("double", {"Concat", "Gather"}),
        ("float16", {"Concat", "Gather"}),
        ("string", {"Concat", "Gather"}),
        ("bool", {"And", "Or"}),
        ("int64", {"Mul", "Add"}),
        ("int32", {"Mul", "Add"}),
        ("int8", {"Mul", "Add", "Cast"}),
        ("uint16", {"Mul", "Add", "Cast"}),
        ("uint32", {"Mul", "Add", "Cast"}),
    ],
)
def test_where_is_computed_below_9(elem_type, kinds):
    io = {"inputs": f"bool[2,3] c, {elem_type}[2,3] a, {elem_type}[2,3] b", "outputs": f"{elem_type}[2,3] y"}
    shown = show(check_down("y = Where(c, a, b)", 9, 8, 7, **io))
    assert all(f"{kind}" in shown for kind in kinds)


@pytest.mark.parametrize(
    ("shapes", "result"),
    [
        (("2,1,3", "4,1", ""), "2,4,3"),
        (("", "", ""), ""),
        (("", "2", "3,1"), "3,2"),
        (("N,1,3", "M,1", ""), "N,M,3"),
        (("N,M", "N,M", "N,M"), "N,M"),
        (("N,1,3", "M,1", "K,P,3"), "Q,M,3"),
        (("N,0", "1,1", ""), "N,0"),
        (("1000,1500", "1500", ""), "1000,1500"),
    ],
)
def test_where_broadcasts_below_9(shapes, result):
    c, a, b = (f"[{shape}]" if shape else "" for shape in shapes)
    y = f"[{result}]" if result else ""
    check_down("y = Where(c, a, b)", 9, 8, 7, inputs=f"bool{c} c, float{a} a, float{b} b", outputs=f"float{y} y")


def test_where_keeps_what_is_not_finite_below_9():
    io = {"inputs": "bool[4] c, float[4] a, float[4] b", "outputs": "float[4] y"}
    a, b = np.array([NAN, INF, -INF, 1], np.float32), np.array([INF, NAN, NAN, -INF], np.float32)
    for chosen in ([1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 1, 0]):
        check_down("y = Where(c, a, b)", 9, 8, feeds={"c": np.array(chosen, bool), "a": a, "b": b}, **io)


def test_where_of_extreme_integers_below_9():
    io = {"inputs": "bool[2] c, int64[2] a, int64[2] b", "outputs": "int64[2] y"}
    ends = np.array([-(2**63), 2**63 - 1])
    check_down(
        "y = Where(c, a, b)", 9, 8, feeds={"c": np.array([True, False]), "a": ends, "b": ends[::-1].copy()}, **io
    )


def test_a_constant_condition_is_resolved_below_9():
    io = {"inputs": "float[3] a, float b", "outputs": "float[3] y", "constants": "bool[3] c = {1, 0, 1}"}
    shown = show(check_down("y = Where(c, a, b)", 9, 8, **io))
    assert [line.split(" = ")[1].split("(")[0] for line in shown.splitlines()] == [
        *("Reshape", "Reshape", "Concat<axis=0>", "Gather<axis=0>")
    ]


def test_sizes_that_differ_leave_nothing_behind_that_nobody_reads():
    """The first axis is as long in all of them, the second is not."""
    io = {"inputs": "bool[N,A] c, float[N,B] a, float b", "outputs": "float[N,C] y"}
    made = convert.convert(model("y = Where(c, a, b)", 9, **io), {"": 8}).model
    read = {name for node in made.graph.node for name in node.input} | {"y"}
    assert [node.op_type for node in made.graph.node if read.isdisjoint(node.output)] == []
