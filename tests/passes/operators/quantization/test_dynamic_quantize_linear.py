"""DynamicQuantizeLinear before it existed."""

import numpy as np
import pytest
from opshift.passes.conversion import convert

from tests.support import check_values, evaluate, model

DYNAMIC = {"inputs": "float[A,B] x", "outputs": "uint8[A,B] y, float s, uint8 z"}


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e6])
@pytest.mark.parametrize("shift", [-3, 0, 3])
def test_the_range_gives_scale_and_zero_point(scale, shift):
    source = model("y, s, z = DynamicQuantizeLinear(x)", 11, **DYNAMIC)
    result = convert.attempt(source, {"": 10})
    assert result.grade == "exact"
    for seed in range(20):
        x = (np.random.default_rng(seed).standard_normal((3, 5)) + shift) * scale
        check_values(source, result.model, {"x": x.astype(np.float32)}, rtol=0, atol=0)


def test_the_zero_point_is_quantized_like_the_data():
    source = model("y, s, z = DynamicQuantizeLinear(x)", 13, **DYNAMIC)
    after = convert.attempt(source, {"": 13}, ops=[("", "DynamicQuantizeLinear")]).model
    assert [node.op_type for node in after.graph.node] == [
        "ReduceMin", "Min", "ReduceMax", "Max", "Sub", "Div", "Greater", "Not", "Cast", "Add",
        "Sub", "QuantizeLinear", "QuantizeLinear",
    ]  # fmt: skip
    for x in (
        [[-1.0, 2.0], [0.5, -0.0]],
        [[3.0, 4.0], [5.0, 1e-30]],
        [[-3.0, -4.0], [-5.0, -1e-30]],
    ):
        check_values(source, after, {"x": np.array(x, np.float32)}, rtol=0, atol=0)


def test_a_range_of_nothing_gives_zeros():
    result = convert.attempt(model("y, s, z = DynamicQuantizeLinear(x)", 11, **DYNAMIC), {"": 10})
    y, s, z = evaluate(result.model, {"x": np.zeros((2, 2), np.float32)})
    assert y.tolist() == [[0, 0], [0, 0]]
    assert (s, z) == (0, 0)
