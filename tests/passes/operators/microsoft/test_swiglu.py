"""SwiGLU and the product before it, which no CPU kernel runs: by their texts."""

import numpy as np

from tests.passes.operators.microsoft.harness import HALF, calls, check_refused, near, sigmoid, wide

LOWER = 13


def swiglu(gate, up, activation_alpha=1.0, activation_beta=0.0, limit=0.0, **_):
    if limit > 0:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return gate * sigmoid(activation_alpha * gate) * (up + activation_beta)


OPTIONS = {"activation_alpha": [None, 1.7], "activation_beta": [None, 1.0], "limit": [None, 0.5, -1.0]}


def test_swiglu():
    both = calls("SwiGLU", {"gate": (2, 3, 4), "up": (2, 3, 4)}, {**OPTIONS, "round_activation": [None, 1]})
    for number, call in enumerate(both[::5]):
        gate, up = wide(call)
        halves = np.split(gate, 2, axis=-1) if up is None else (gate, up)
        near(call, [swiglu(*halves, **call.attributes)], (21, LOWER)[number % 2])


def test_a_router_beside_swiglu():
    for number, call in enumerate(
        calls("RouterGateUpProj", {"X": (2, 3), "W": (3, 12)}, {**OPTIONS, "router_size": [4]}, types=[HALF])[::3]
    ):
        x, w = wide(call)
        product = x @ w
        near(
            call, [product[:, :4], swiglu(product[:, 4:8], product[:, 8:], **call.attributes)], (21, LOWER)[number % 2]
        )
    check_refused(
        calls("RouterGateUpProj", {"X": (2, 3), "W": (3, 12)}, {"activation": ["relu"], "router_size": [4]})[:1], "relu"
    )
