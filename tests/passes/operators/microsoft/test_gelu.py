"""Gelu and FastGelu with and without a bias, and what is gated by a sigmoid."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

from tests.passes.operators.microsoft.harness import (
    DOUBLE,
    FLOAT,
    HALF,
    NEWEST,
    Call,
    calls,
    check,
    check_refused,
    computed,
    near,
    sigmoid,
    wide,
)

X = np.array([[0.0, -0.0, 1.5, -2.25], [np.inf, -np.inf, np.nan, 1e30], [-1e30, 1e-30, -12.0, 0.25]])
SHAPES = [X, (2, 3, 4), (0, 4), (1, 4)]
RNG = np.random.default_rng(0)


def gelu(x):
    x = x.astype(np.float64)
    erf = np.vectorize(__import__("math").erf)
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def test_gelu():
    assert check(calls("Gelu", {"X": [*SHAPES, ()]}, types=[FLOAT])) == 5


def test_the_approximation_by_tanh():
    assert check(calls("FastGelu", {"X": SHAPES, "bias": (4,)}, types=[FLOAT])) == 8


def test_in_double_by_the_text():
    """Which onnxruntime runs where it has no kernel: its numbers have six digits."""
    assert check(calls("FastGelu", {"X": SHAPES[:3], "bias": (4,)}, types=[DOUBLE]), opsets=(21, 13)) == 6


def test_a_bias_before():
    assert check(calls("BiasGelu", {"A": [X, (2, 3, 4), (0, 4)], "B": (4,)}, types=[FLOAT])) == 3


def test_quick_gelu():
    made = calls("QuickGelu", {"X": SHAPES}, {"alpha": [None, 1.0, -0.5, 0.0]}, types=[FLOAT])
    assert check(made, opsets=(26, 24, NEWEST, 13, 11)) == 16


def test_a_scaled_silu_rounds_after_each_step():
    made = calls("ScaledSiLU", {"X": [(2, 3, 4), (3,)], "scale": [np.array(0.7), FLOAT(0.3)]}, {"alpha": [None, 0.3]})
    assert check(made) == 24


def test_a_gated_sum_rounds_the_product():
    assert check(calls("GatedAdd", {"X": [(2, 3, 4), (0, 3, 4)], "Y": [(2, 3, 4), (0, 3, 4)], "gate": [(2, 3, 1), (0, 3, 1)]})) == 4  # fmt: skip


@pytest.mark.parametrize("kind", [FLOAT, HALF])
def test_halves_by_the_text(kind):
    x, bias = RNG.normal(size=(2, 3, 8)).astype(kind), RNG.normal(size=8).astype(kind)
    total = (x + bias).astype(np.float64)
    expected = total[..., :4] * gelu(total[..., 4:])
    for opset in (NEWEST, 13):
        np.testing.assert_allclose(computed(Call("BiasSplitGelu", (x, bias), (True,)), opset)[0], expected, rtol=2e-3 if kind is HALF else 1e-5, atol=1e-3 if kind is HALF else 1e-6)  # fmt: skip


@pytest.mark.parametrize("bias", [True, False])
def test_a_product_by_the_text(bias):
    x, w, b = (RNG.normal(size=shape).astype(FLOAT) for shape in ((2, 3, 4), (4, 5), (5,)))
    total = x.astype(np.float64) @ w + (b if bias else 0)
    expected = 0.5 * total * (1 + np.tanh(0.797885 * total + 0.035677 * total**3))
    made = Call("GemmFastGelu", (x, w, b if bias else None), (True,))
    np.testing.assert_allclose(computed(made, 13)[0], expected, rtol=1e-4, atol=1e-5)


def test_a_gate_that_is_projected():
    given = {"X": (2, 3, 4), "Y": (2, 3, 4), "gate": (2, 3, 5), "gate_weight": (5, 1)}
    (call, _) = calls("GatedAdd", given, types=[bfloat16])
    x, y, gate, weight = wide(call)
    near(call, [x + y * sigmoid(gate @ weight)])
    check_refused(calls("GatedAdd", given, types=[FLOAT])[:1], "gate_weight")
