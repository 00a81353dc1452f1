"""Where, before it existed: values are gathered from both sides."""

import pytest
from opshift.passes import convert

from tests.support import check_values, model


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
