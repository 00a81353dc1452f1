"""Expand before it existed."""

import ml_dtypes
import numpy as np
import pytest
from opshift.passes.conversion import convert

from opshift.verification.engines import Reference
from tests.support import check, check_down, check_refused, model, show

CASES = [
    ([3, 1], [2, 1, 3]),
    ([3, 1], [1, 4]),
    ([3, 1], [3, 4]),
    ([3, 1], [4]),
    ([3, 1], [0]),
    ([0, 1], [2, 1, 3]),
    ([], [2, 3]),
    ([], []),
    ([2, 3], []),
    ([2, 1, 3], [3, 1]),
    ([1, 1], [1, 1]),
]


@pytest.mark.parametrize(("given", "wanted"), CASES)
@pytest.mark.parametrize("elem_type", ["float", "bool", "int64"])
def test_expand_tiles_below_8(given, wanted, elem_type):
    result = ",".join("ABCD"[: max(len(given), len(wanted))])
    result = f"{elem_type}[{result}]" if result else elem_type
    held = f"int64[{len(wanted)}] s = {{{','.join(map(str, wanted))}}}"
    shape = f"[{','.join(map(str, given))}]" if given else ""
    check_down("y = Expand(x, s)", 8, 7, inputs=f"{elem_type}{shape} x", outputs=f"{result} y", constants=held)
    x = np.resize(np.array([1, 0, 2]), given).astype({"float": np.float32, "bool": bool, "int64": np.int64}[elem_type])
    feeds = {"x": x, "s": np.array(wanted, np.int64)}
    shape = f"[{','.join('NMKL'[: len(given)])}]" if given else ""
    io = {"inputs": f"{elem_type}{shape} x, int64[{len(wanted)}] s", "outputs": f"{result} y"}
    check_down("y = Expand(x, s)", 8, 7, feeds=feeds, **io)


def test_expand_of_one_row_is_tile():
    io = {"inputs": "float[1,3] x", "outputs": "float[2,3] y", "constants": "int64[2] s = {2, 1}"}
    check("y = Expand(x, s)", 8, "y = Tile(x, const)", 7, **io)


@pytest.mark.parametrize("size", [1, 2])
def test_what_repeats_follows_from_known_sizes(size):
    io = {"inputs": f"float[{size},{size}] x, int64[2] s", "outputs": "float[A,B] y"}
    for wanted in ([size, size], [1, size]):
        made = check_down("y = Expand(x, s)", 8, 7, feeds={"s": np.array(wanted)}, **io)
        assert ("Tile(x, s)" in show(made)) == (size == 1)


def test_expand_to_an_unknown_rank_is_refused():
    io = {"inputs": "float[1,3] x, int64[N] s", "outputs": "float[A,B] y"}
    check_refused("y = Expand(x, s)", 8, 7, "the length of the input 'shape' is unknown", **io)


def test_expand_of_an_unknown_rank_is_refused():
    io = {"inputs": "float[6] x, int64[N] p, int64[2] s", "outputs": "float[A,B] y"}
    check_refused("d = Reshape(x, p) y = Expand(d, s)", 8, 7, 'the rank of "d" is unknown', **io)


@pytest.mark.parametrize("wanted", [[], [3], [0], [2, 3], [2, 0, 0, 3]])
@pytest.mark.parametrize("elem_type", ["float", "bool", "int64"])
def test_a_scalar_is_expanded_to_any_rank(elem_type, wanted):
    dtype = {"float": np.float32, "bool": bool, "int64": np.int64}[elem_type]
    io = {"inputs": f"{elem_type} x, int64[N] s", "outputs": "int64[R] shape, double[T] flat"}
    body = "y = Expand(x, s) shape = Shape(y) whole = Reshape(y, all) flat = Cast<to=11>(whole)"
    feeds = {"x": np.array(1, dtype), "s": np.array(wanted, np.int64)}
    check_down(body, 8, 7, feeds=feeds, constants="int64[1] all = {-1}", **io)


def test_bfloat16_is_tiled_as_float_where_expand_is_expanded():
    source = model("y = Expand(x, s)", 18, inputs="bfloat16[1,3] x", outputs="bfloat16[2,3] y", constants="int64[2] s = {2, 1}")  # fmt: skip
    after = convert.attempt(source, {"": 18}, ops=[("", "Expand")]).model
    assert show(after) == "t1 = Cast<to=1>(x)\nt2 = Tile(t1, [2, 1])\ny = Cast<to=16>(t2)"
    x = np.array([[1.5, -0.0, np.inf]], ml_dtypes.bfloat16)
    (y,) = Reference(after).run({"x": x})
    np.testing.assert_array_equal(y.astype(np.float32), np.repeat(x.astype(np.float32), 2, axis=0))
