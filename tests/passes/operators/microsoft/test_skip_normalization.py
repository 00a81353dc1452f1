"""SkipLayerNormalization: what is added, what is normalized, and what is passed on."""

from tests.passes.operators.microsoft.harness import FLOAT, HALF, calls, check

INPUTS = {"input": (2, 3, 8), "skip": [(2, 3, 8), (1, 3, 8), (3, 8)], "gamma": (8,), "beta": (8,), "bias": (8,)}


def test_skip_layer_normalization():
    made = calls("SkipLayerNormalization", INPUTS, {"epsilon": [None, 0.5]}, outputs=["input_skip_bias_sum"], types=[FLOAT, HALF])  # fmt: skip
    assert check(made) == 96
