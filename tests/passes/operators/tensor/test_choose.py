"""Choosing element by element, before there was Where."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check_values, model


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


@pytest.mark.parametrize("target", [13, 9, 8, 7])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 3, 0), (0, 0, 1, 3), (2, 0, 0), (0, 1, 1)])
def test_triangles_of_nothing(shape, known, target):
    dims = ",".join(map(str, shape) if known else "ABCD"[: len(shape)])
    io = {"inputs": f"float[{dims}] x", "outputs": f"float[{','.join('EFGH'[: len(shape)])}] y"}
    source = model("y = Trilu<upper=1>(x, k)", 14, constants="int64 k = {-10}", **io)
    result = convert.attempt(source, {"": target})
    check_values(source, result.model, {"x": np.zeros(shape, np.float32)}, rtol=0, atol=0)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (0, 0), (1, 0)])
def test_nothing_is_chosen_from(shape, known):
    dims = ",".join(map(str, shape) if known else "AB")
    source = model(
        "y = Where(c, x, z)", 9, inputs=f"bool[{dims}] c, float[{dims}] x, float[1] z", outputs="float[P,Q] y"
    )
    made = convert.attempt(source, {"": 8}).model
    check_values(source, made, {"c": np.ones(shape, bool), "x": np.zeros(shape, np.float32)}, rtol=0, atol=0)
