"""Choosing element by element, before there was Where."""

import pytest
from opshift.passes import convert

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
