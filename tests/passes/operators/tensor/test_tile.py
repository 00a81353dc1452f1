"""Tile, whose copies along one axis became repeats of all."""

import numpy as np
import pytest

import opshift
from tests.passes.operators.legacy import check_legacy
from tests.support import check_refused, evaluate, model

FLOATS = np.array([[0.0, -0.0, np.inf], [np.nan, -1.5, 2.0]], np.float32)
INTS = np.array([[0, -1, 2], [127, -128, 5]])
TILE = {"inputs": "float[2,3] x", "outputs": "float[A,B] y"}


@pytest.mark.parametrize(("axis", "repeats"), [(0, [2, 1]), (1, [1, 2])])
def test_copies_along_one_axis_become_repeats(axis, repeats):
    expected = [np.tile(FLOATS, repeats)]
    held = f"float t = {{2}}, float a = {{{axis}}}"
    after = f"y = Tile(x, {repeats})"
    check_legacy("y = Tile(x, t, a)", 1, after, 6, {"x": FLOATS}, expected, constants=held, **TILE)
    feeds = {"x": FLOATS, "t": np.array([2], np.float32)}
    operands = ", ".join("t2" if count == 2 else "[1]" for count in repeats)
    after = f"t1 = Cast<to=7>(t)\nt2 = Reshape(t1, [1])\nt3 = Concat<axis=0>({operands})\ny = Tile(x, t3)"
    io = {**TILE, "inputs": "float[2,3] x, float[1] t", "constants": f"float a = {{{axis}}}"}
    check_legacy("y = Tile(x, t, a)", 1, after, 6, feeds, expected, **io)


def test_an_axis_of_tile_known_at_run_time_is_refused():
    io = {**TILE, "inputs": "float[2,3] x, float a", "constants": "float t = {2}"}
    check_refused("y = Tile(x, t, a)", 1, 6, "the axis is dynamic", **io)


@pytest.mark.parametrize("repeats", [[2, 3], [1, 2], [0, 1], [1, 1]])
def test_repeats_become_copies_along_one_axis_after_another(repeats):
    made = [f"Tile({{}}, {float(count)}, {float(axis)})" for axis, count in enumerate(repeats) if count != 1]
    lines = [f"t{k} = {call.format(f't{k - 1}' if k > 1 else 'x')}" for k, call in enumerate(made, 1)]
    after = "\n".join(lines).replace(f"t{len(made)} =", "y =") or "y = Identity(x)"
    held = f"int64[2] r = {{{repeats[0]}, {repeats[1]}}}"
    check_legacy("y = Tile(x, r)", 6, after, 5, {"x": FLOATS}, [np.tile(FLOATS, repeats)], constants=held, **TILE)


def test_repeats_known_at_run_time():
    after = """t1 = Gather(r, 0)
        t2 = Cast<to=FLOAT>(t1)
        t3 = Tile(x, t2, 0.0)
        t4 = Gather(r, 1)
        t5 = Cast<to=FLOAT>(t4)
        y = Tile(t3, t5, 1.0)"""
    io = {**TILE, "inputs": "float[2,3] x, int64[2] r"}
    feeds = {"x": FLOATS, "r": np.array([3, 2])}
    check_legacy("y = Tile(x, r)", 6, after, 5, feeds, [np.tile(FLOATS, (3, 2))], **io)


@pytest.mark.parametrize(
    ("repeats", "call"),
    [
        ((2, 1), "Concat<axis=0>(x, x)"),
        ((0, 1), "Slice<axes=[0], ends=[0], starts=[0]>(x)"),
    ],
)
@pytest.mark.parametrize("elem_type", ["int32", "int64", "bool"])
def test_what_is_no_float_is_joined_with_itself(repeats, call, elem_type):
    x = INTS.astype(elem_type)
    io = {"inputs": f"{elem_type}[2,3] x", "outputs": f"{elem_type}[A,3] y"}
    held = f"int64[2] r = {{{repeats[0]}, {repeats[1]}}}"
    check_legacy("y = Tile(x, r)", 6, f"y = {call}", 5, {"x": x}, [np.tile(x, repeats)], constants=held, **io)
    io["inputs"] += ", int64[2] r"
    check_refused("y = Tile(x, r)", 6, 5, "repeats are dynamic", **io)


@pytest.mark.parametrize(("count", "joins"), [(64, 1), (65, 2), (131, 3)])
def test_many_copies_are_halves_that_are_doubled(count, joins):
    x, io = INTS.astype(np.int32), {"inputs": "int32[2,3] x", "outputs": "int32[A,3] y"}
    source = model("y = Tile(x, r)", 6, constants=f"int64[2] r = {{{count}, 1}}", **io)
    made = opshift.convert_version(source, 5)
    assert [node.op_type for node in made.graph.node] == ["Concat"] * joins
    np.testing.assert_array_equal(evaluate(made, {"x": x})[0], np.tile(x, (count, 1)))


@pytest.mark.parametrize("elem_type", ["float", "int32"])
def test_copies_of_nothing_may_be_as_many_as_there_are_numbers(elem_type):
    most = np.iinfo(np.int64).max
    io = {"inputs": f"{elem_type}[0,2] x", "outputs": f"{elem_type}[A,2] y"}
    source = model("y = Tile(x, r)", 6, constants=f"int64[2] r = {{{most}, 1}}", **io)
    made = opshift.convert_version(source, 5)
    assert len(made.graph.node) == 58
    assert evaluate(made, {"x": np.zeros((0, 2), elem_type.replace("float", "float32"))})[0].shape == (0, 2)


def test_fewer_copies_than_none_are_refused():
    io = {"inputs": "int32[2] x", "outputs": "int32[A] y", "constants": "int64[1] r = {-1}"}
    check_refused("y = Tile(x, r)", 6, 5, "the count -1 for axis", **io)


def test_a_count_that_the_type_of_the_data_does_not_hold():
    io = {"inputs": "float16[1] x", "outputs": "float16[N] y", "constants": "int64[1] r = {2049}"}
    x = np.array([1.5], np.float16)
    joins = [f"t{k} = Concat<axis=0>(t{k - 1}, t{k - 1})" for k in range(2, 6)]
    after = "\n".join([f"t1 = Concat<axis=0>({', '.join(['x'] * 64)})", *joins, "y = Concat<axis=0>(t5, t5, x)"])
    check_legacy("y = Tile(x, r)", 6, after, 5, {"x": x}, [np.tile(x, 2049)], **io)
