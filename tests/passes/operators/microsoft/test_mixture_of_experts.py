"""MoE: tokens of rank 2 and 3, each activation, ties of the router, and experts that nobody chooses."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import FLOAT, calls, check, check_refused

EXPERTS, SIZE, INNER = 4, 6, 8


def given(shape, width=INNER):
    tokens = int(np.prod(shape[:-1]))
    return {
        "input": shape,
        "router_probs": [(tokens, EXPERTS), np.zeros((tokens, EXPERTS))],
        "fc1_experts_weights": (EXPERTS, width, SIZE),
        "fc1_experts_bias": (EXPERTS, width),
        "fc2_experts_weights": (EXPERTS, SIZE, INNER),
        "fc2_experts_bias": (EXPERTS, SIZE),
    }


@pytest.mark.parametrize("shape", [(5, SIZE), (2, 3, SIZE)])
def test_activations(shape):
    routing = {"k": [1, 2], "normalize_routing_weights": [None, 1]}
    found = calls(
        "MoE", given(shape), {**routing, "activation_type": ["relu", "gelu", "silu", "identity"]}, types=[FLOAT]
    )
    gated = {
        "activation_type": ["swiglu"],
        "swiglu_fusion": [1],
        "swiglu_limit": [None, 0.5],
        "activation_beta": [None, 1.0],
    }
    found = found[::9] + calls("MoE", given(shape, 2 * INNER), {**routing, **gated}, types=[FLOAT])[::9]
    assert check(found, grade="close", held=(2, 3, 4, 5)) == 30


def test_what_cannot_be_said_is_refused():
    third = {**given((5, SIZE)), "fc3_experts_weights": (EXPERTS, INNER, SIZE)}
    check_refused([call for call in calls("MoE", third) if call.inputs[6] is not None][:1], "fc3_experts_weights")
    check_refused(calls("MoE", given((5, SIZE)), {"use_sparse_mixer": [1]})[:1], "use_sparse_mixer=1")
    check_refused(calls("MoE", given((5, SIZE)), {"activation_type": ["swiglu"]})[:1], "activation_type='swiglu'")
