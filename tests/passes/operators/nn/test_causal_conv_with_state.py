"""CausalConvWithState before it existed, judged by its formula."""

import numpy as np
import pytest

from tests.support import check_computes, check_refused

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("activation", ["none", "silu", "swish"])
@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("taps", [1, 3])
def test_causal_convolution(taps, biased, stateful, activation):
    x, w, b, s = normal(2, 4, 6), normal(4, 1, taps), normal(4), normal(2, 4, taps - 1)
    joined = np.concatenate([s if stateful else np.zeros_like(s), x], axis=2)
    y = sum(joined[..., k : k + 6] * w[:, 0, k, None] for k in range(taps)) + (b[:, None] if biased else 0)
    y = y if activation == "none" else y / (1 + np.exp(-y))
    call = f"x, w, {'b' if biased else ''}, {'s' if stateful else ''}".rstrip(", ")
    check_computes(
        f'y, t = CausalConvWithState<activation="{activation}">({call})', 27, 13, [y.astype(np.float32), joined[..., 6:]],
        feeds={"x": x, "w": w} | ({"b": b} if biased else {}) | ({"s": s} if stateful else {}),
        grade="exact" if activation == "none" else "close", rtol=1e-5, atol=1e-6,
        inputs=f"float[N,4,L] x, float[4,1,{taps}] w" + (", float[4] b" if biased else "") + (f", float[N,4,{taps - 1}] s" if stateful else ""),
        outputs=f"float[N,4,L] y, float[N,4,{taps - 1}] t",
    )  # fmt: skip


def test_unknown_kernels_and_activations_are_refused():
    io = {"inputs": "float[N,C,L] x, float[C,1,K] w", "outputs": "float[N,C,L] y"}
    check_refused("y = CausalConvWithState(x, w)", 27, 26, "the shape of weight is unknown", **io)
    check_refused('y = CausalConvWithState<activation="relu">(x, w)', 27, 26, "activation='relu'", **io)
