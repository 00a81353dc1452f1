"""NonZero before it existed."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check_down, check_refused, evaluate, model

NAN, INF = np.nan, np.inf


def test_nonzero_below_9():
    io = {"inputs": "float a", "outputs": "int64[2,A] y", "constants": "float[2,2] x = {1, 0, 0, 2}"}
    check_down("y = NonZero(x)", 9, 8, 7, **io)
    body = "s = Shape(x) o = ConstantOfShape<value = float[1] {3}>(s) y = NonZero(o)"
    check_down(body, 9, 8, 7, inputs="float[N] x", outputs="int64[1,N] y")


@pytest.mark.parametrize("kind", ["float", "double", "float16", "bool", "int32", "int64", "uint8"])
@pytest.mark.parametrize("dims", ["12", "N", "2,1,6", "A,B,C", "2,0", "A,0"])
def test_elements_that_are_not_zero_are_found_by_a_loop_below_9(kind, dims):
    shape = [{"N": 12, "A": 3, "B": 2, "C": 4}.get(dim) or int(dim) for dim in dims.split(",")]
    values = [0, -0.0, 1, 0, 1e-45, -2.5, NAN, INF, 0] if kind in ("float", "double") else [0, 1, 0, 3, 5, 0]
    dtype = {"float": np.float32}.get(kind, kind)
    io = {"inputs": f"{kind}[{dims}] x", "outputs": "int64[P,Q] y"}
    feeds = {"x": np.resize(np.array(values), shape).astype(dtype)}
    check_down("c = Cast<to=9>(x) y = NonZero(c)", 13, 8, 7, feeds=feeds, **io)
    result = convert.attempt(model("y = NonZero(x)", 13, **io), {"": 8})
    np.testing.assert_array_equal(evaluate(result.model, feeds)[0], np.nonzero(feeds["x"]))
    check_down("c = Cast<to=9>(x) y = NonZero(c)", 13, 8, feeds={"x": np.zeros(shape, dtype)}, **io)


def test_places_of_zeros_are_searched_for_below_9():
    io = {"inputs": "float[N] x", "outputs": "int64[1,M] y"}
    body = "s = Shape(x) o = ConstantOfShape<value = float[1] {0}>(s) y = NonZero(o)"
    check_down(body, 9, 8, 7, **io)


def test_nonzero_without_a_form_is_refused_below_9():
    check_refused("y = NonZero(x)", 9, 8, "a scalar", inputs="float x", outputs="int64[A,B] y")
    check_refused("y = NonZero(x)", 9, 8, "strings", inputs="string[3] x", outputs="int64[A,B] y")
    io = {"inputs": "float[2,3] x, int64[P] s", "outputs": "int64[A,B] y"}
    check_refused("d = Reshape(x, s) y = NonZero(d)", 9, 8, 'the rank of "d" is unknown', **io)
